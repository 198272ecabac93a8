/// Why a token grants nothing: one sentence with the remedy. It says nothing of what exists.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Not three parts of base64url.
    #[error("the token cannot be read: it is header.claims.signature, each in base64url")]
    Unreadable,
    /// Header or claims are no JSON object.
    #[error("the token's {0} cannot be read: a JSON object was expected")]
    NoObject(&'static str),
    /// A member of the header, or a claim, of a wrong type.
    #[error("the token's {0} is not {1}")]
    Type(&'static str, &'static str),
    /// It is too long.
    #[error("a token has at most 8192 characters")]
    TooLong,
    /// Its algorithm is none of ours.
    #[error(
        "the token's algorithm is not accepted: sign it with RS256, PS256, ES256, ES384, EdDSA (Ed25519) or HS256"
    )]
    Algorithm,
    /// It has extensions that must be understood.
    #[error("the token has critical extensions (crit), which are not understood")]
    Critical,
    /// No key has its id and algorithm. There may be one later.
    #[error("no key of the token's id (kid) and algorithm (alg) is known")]
    UnknownKey,
    /// Too many keys have its algorithm, and its id if it has one.
    #[error("the token does not say which of many keys signed it: name one by its id (kid)")]
    ManyKeys,
    /// It is not signed by the key, or was changed since.
    #[error("the token's signature is wrong")]
    Signature,
    /// A claim that it must have.
    #[error("the token has no claim {0}")]
    Missing(&'static str),
    /// A claim that is no number.
    #[error("the token's claim {0} is no number of seconds since 1970")]
    Malformed(&'static str),
    /// It has ended.
    #[error("the token has expired (exp): get a new one")]
    Expired,
    /// It begins later.
    #[error("the token is not valid yet (nbf): are the clocks right?")]
    NotYetValid,
    /// Somebody else made it.
    #[error("the token was made by another issuer (iss)")]
    OtherIssuer,
    /// It is for somebody else.
    #[error("the token is for another audience (aud)")]
    OtherAudience,
    /// It names no topics.
    #[error("the token has no claim {0}, which names its topics")]
    NoTopics(String),
    /// What it names cannot be read.
    #[error("the token's claim {0}: {1}")]
    Topics(String, String),
}
