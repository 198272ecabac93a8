/// The reason why a token grants nothing: one sentence with the remedy. The sentence does not reveal which tokens or
/// topics exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The text is not three parts of base64url.
    #[error("the token is malformed: send header.claims.signature, each in base64url")]
    Unreadable,
    /// The header or the claims are not a JSON object.
    #[error("the token has no JSON object as its {0}: sign a token that has one")]
    NoObject(&'static str),
    /// A member of the header, or a claim, has a wrong type.
    #[error("the token's {0} is not {1}: sign a token in which it is")]
    Type(&'static str, &'static str),
    /// The token is too long.
    #[error("the token has more than 8192 characters: sign one with fewer claims")]
    TooLong,
    /// The algorithm is unknown.
    #[error(
        "the token's algorithm is not accepted: sign it with RS256, PS256, ES256, ES384, EdDSA (Ed25519) or HS256"
    )]
    Algorithm,
    /// The token has critical extensions.
    #[error(
        "the token has critical extensions (crit), which this server does not support: sign it without crit"
    )]
    Critical,
    /// No key has the token's id and algorithm. A later key may.
    #[error(
        "the server has no key with the token's id (kid) and algorithm (alg): add the key to the server, or sign with another one"
    )]
    UnknownKey,
    /// Too many keys match the token's algorithm and id.
    #[error("several keys could have signed the token: name one by its id (kid)")]
    ManyKeys,
    /// The signature does not match.
    #[error("the token's signature does not match: sign it with the key that the server has")]
    Signature,
    /// A required claim is missing.
    #[error("the token has no claim {0}: add it when you sign")]
    Missing(&'static str),
    /// A claim is not a number.
    #[error("the token's claim {0} is not a number: write seconds since 1970")]
    Malformed(&'static str),
    /// The token has expired.
    #[error("the token has expired (exp): get a new one")]
    Expired,
    /// The token becomes valid later.
    #[error("the token is not valid yet (nbf): wait, or correct the clocks")]
    NotYetValid,
    /// The issuer differs.
    #[error("the token has another issuer (iss): get one from the issuer that the server expects")]
    OtherIssuer,
    /// The audience differs.
    #[error("the token has another audience (aud): get one for this server")]
    OtherAudience,
    /// The token names no topics.
    #[error("the token has no claim {0}, which names its topics: add it when you sign")]
    NoTopics(String),
    /// The claim with the topics is invalid.
    #[error("the token's claim {0}: {1}")]
    Topics(String, String),
}
