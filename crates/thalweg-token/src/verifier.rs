use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Map, Value, json};

use crate::{
    algorithm::Algorithm,
    claims::{Claims, Expectations, Granted, TopicsGranted},
    error::TokenError,
    key::{KEYS_TRIED_MAX, Keys, SigningKey},
    rights::Rights,
    signature::signed,
};

/// Maximum bytes of a token, which comes in a request's header.
pub const TOKEN_BYTES_MAX: usize = 8 << 10;

/// Returns the grant of a token at `now_s`, in seconds since 1970.
///
/// # Errors
/// Returns the reason to reject the token.
pub fn verify(
    token: &str,
    keys: &Keys,
    expected: &Expectations,
    now_s: u64,
) -> Result<Granted, TokenError> {
    let parts = Parts::parse(token)?;
    parts.verify(keys)?;
    Claims::parse(&parts.claims)?.granted(expected, now_s)
}

/// Returns the header and the claims of a token, decoded and unverified: show them, do not trust them.
///
/// # Errors
/// `Unreadable`, `NoObject`.
pub fn parts(token: &str) -> Result<(String, String), TokenError> {
    let parts = Parts::parse(token)?;
    let text = |bytes| String::from_utf8(bytes).map_err(|_| TokenError::Unreadable);
    Ok((text(parts.header)?, text(parts.claims)?))
}

/// The contents of a token, and all reasons for which a server rejects it.
#[derive(Debug, Clone, Default)]
pub struct Explained {
    /// The subject.
    pub subject: Option<String>,
    /// The expiry, in seconds since 1970.
    pub ends_s: Option<u64>,
    /// The rights of the holder, if a server accepts the token.
    pub rights: Option<Rights>,
    /// The description of the holder for other members of its topics, as JSON.
    pub info: Option<String>,
    /// The reasons to reject the token; empty if it is valid.
    pub refusals: Vec<TokenError>,
}

/// Explains a token at `now_s`, in seconds since 1970. Without keys the signature is not checked.
///
/// # Errors
/// Fails if the claims cannot be decoded.
pub fn explain(
    token: &str,
    keys: Option<&Keys>,
    expected: &Expectations,
    now_s: u64,
) -> Result<Explained, TokenError> {
    let parts = Parts::parse(token)?;
    let mut explained = Explained::default();
    let signature = match keys {
        Some(keys) => parts.verify(keys),
        None => Header::parse(&parts.header).map(drop),
    };
    explained.refusals.extend(signature.err());
    let claims = match Claims::parse(&parts.claims) {
        Ok(claims) => claims,
        Err(error) => {
            explained.refusals.push(error);
            return Ok(explained);
        }
    };
    explained.refusals.extend(claims.refusals(expected, now_s));
    match claims.topics(expected) {
        Ok(TopicsGranted { rights, info }) => {
            (explained.rights, explained.info) = (Some(rights), info);
        }
        Err(error) => explained.refusals.push(error),
    }
    explained.ends_s = claims.ends_s(expected).ok();
    explained.subject = claims.sub;
    Ok(explained)
}

/// A decoded token (RFC 7515 §7.1).
struct Parts<'a> {
    header: Vec<u8>,
    claims: Vec<u8>,
    /// The signed text.
    message: &'a str,
    signature: Vec<u8>,
}

impl<'a> Parts<'a> {
    fn parse(token: &'a str) -> Result<Self, TokenError> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(TokenError::TooLong);
        }
        let decoded = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenError::Unreadable);
        let (message, signature) = token.rsplit_once('.').ok_or(TokenError::Unreadable)?;
        // A further dot is not a base64url character, so decoding fails.
        let (header, claims) = message.split_once('.').ok_or(TokenError::Unreadable)?;
        if header.is_empty() || claims.is_empty() {
            return Err(TokenError::Unreadable);
        }
        let [header, claims] = [decoded(header)?, decoded(claims)?];
        Ok(Self { header, claims, message, signature: decoded(signature)? })
    }

    fn verify(&self, keys: &Keys) -> Result<(), TokenError> {
        let Header { algorithm, key_id } = Header::parse(&self.header)?;
        let mut candidates = keys.matching(algorithm, key_id.as_deref()).peekable();
        if candidates.peek().is_none() {
            return Err(TokenError::UnknownKey);
        }
        if candidates.clone().count() > KEYS_TRIED_MAX {
            return Err(TokenError::ManyKeys);
        }
        let message = self.message.as_bytes();
        let is_signed =
            candidates.any(|key| key.verifying.verifies(algorithm, message, &self.signature));
        if is_signed { Ok(()) } else { Err(TokenError::Signature) }
    }
}

/// The relevant members of a token's header. Keys and links to keys in it are ignored.
struct Header {
    algorithm: Algorithm,
    key_id: Option<String>,
}

impl Header {
    fn parse(json: &[u8]) -> Result<Self, TokenError> {
        let header: Map<String, Value> =
            serde_json::from_slice(json).map_err(|_| TokenError::NoObject("header"))?;
        let member = |name: &str| header.get(name).filter(|value| !value.is_null());
        if member("crit").is_some() {
            return Err(TokenError::Critical);
        }
        let algorithm = match member("alg") {
            None => Err(TokenError::Algorithm),
            Some(Value::String(name)) => name.parse().map_err(|_| TokenError::Algorithm),
            Some(_) => Err(TokenError::Type("header alg", "a text")),
        };
        let key_id = match member("kid") {
            None => None,
            Some(Value::String(id)) => Some(id.clone()),
            Some(_) => return Err(TokenError::Type("header kid", "a text")),
        };
        Ok(Self { algorithm: algorithm?, key_id })
    }
}

impl SigningKey {
    /// Returns a signed token with these claims.
    ///
    /// # Errors
    /// Returns a sentence.
    pub fn sign(&self, claims: &Claims, key_id: Option<&str>) -> Result<String, String> {
        let mut header = json!({ "alg": self.algorithm.name(), "typ": "JWT" });
        if let Some(key_id) = key_id {
            header["kid"] = key_id.into();
        }
        let claims = serde_json::to_vec(claims).map_err(|error| error.to_string())?;
        let [header, claims] =
            [header.to_string().as_bytes(), &claims].map(|part| URL_SAFE_NO_PAD.encode(part));
        let message = format!("{header}.{claims}");
        let signature = signed(self.algorithm, &self.bytes, message.as_bytes())
            .ok_or("the private key cannot be used")?;
        Ok(format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}
