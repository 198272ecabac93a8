/// The reason why a token grants nothing: one sentence with the remedy. The sentence does not reveal which tokens or
/// topics exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The text is not three parts of base64url.
    #[error("the token is malformed: it must be header.claims.signature, each in base64url")]
    Unreadable,
    /// Header or claims are no JSON object.
    #[error("the token's {0} must be a JSON object")]
    NoObject(&'static str),
    /// A member of the header, or a claim, has a wrong type.
    #[error("the token's {0} is not {1}")]
    Type(&'static str, &'static str),
    /// The token is too long.
    #[error("a token has at most 8192 characters")]
    TooLong,
    /// The algorithm is unknown.
    #[error(
        "the token's algorithm is not accepted: sign it with RS256, PS256, ES256, ES384, EdDSA (Ed25519) or HS256"
    )]
    Algorithm,
    /// The token has critical extensions.
    #[error("the token has critical extensions (crit), which this server does not support")]
    Critical,
    /// No key has the token's id and algorithm. A later key may.
    #[error("the server has no key with the token's id (kid) and algorithm (alg)")]
    UnknownKey,
    /// Too many keys match the token's algorithm and id.
    #[error("several keys could have signed the token: name one by its id (kid)")]
    ManyKeys,
    /// The signature does not match.
    #[error("the token's signature does not match")]
    Signature,
    /// A required claim is missing.
    #[error("the token has no claim {0}")]
    Missing(&'static str),
    /// A claim is no number.
    #[error("the token's claim {0} is not a number: write seconds since 1970")]
    Malformed(&'static str),
    /// The token has expired.
    #[error("the token has expired (exp): get a new one")]
    Expired,
    /// The token becomes valid later.
    #[error("the token is not valid yet (nbf): check the clocks")]
    NotYetValid,
    /// The issuer differs.
    #[error("the token has another issuer (iss)")]
    OtherIssuer,
    /// The audience differs.
    #[error("the token has another audience (aud)")]
    OtherAudience,
    /// The token names no topics.
    #[error("the token has no claim {0}, which names its topics")]
    NoTopics(String),
    /// The claim with the topics is invalid.
    #[error("the token's claim {0}: {1}")]
    Topics(String, String),
}
