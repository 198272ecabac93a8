use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Map, Value, json};

use crate::{
    algorithm::Algorithm,
    claims::{Claims, Expectations, Granted},
    error::TokenError,
    key::{KEYS_TRIED_MAX, Keys, SigningKey},
    rights::Rights,
    signature::signed,
};

/// The longest token that is looked at: it comes in a header, which has a limit of its own.
pub const TOKEN_BYTES_MAX: usize = 8 << 10;

/// What a token grants at `now_s`, in seconds since 1970.
///
/// # Errors
/// Why it grants nothing.
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

/// Header and claims of a token, as they stand in it. Nothing of them is verified: they are to be
/// shown, not to be believed.
///
/// # Errors
/// When it cannot be read.
pub fn parts(token: &str) -> Result<(String, String), TokenError> {
    let parts = Parts::parse(token)?;
    let text = |bytes| String::from_utf8(bytes).map_err(|_| TokenError::Unreadable);
    Ok((text(parts.header)?, text(parts.claims)?))
}

/// The contents of a token, and all reasons for which a server refuses it.
#[derive(Debug, Clone, Default)]
pub struct Explained {
    /// Whose it is.
    pub subject: Option<String>,
    /// From when on it is not valid any more, in seconds since 1970.
    pub ends_s: Option<u64>,
    /// What it lets its holder do where it is taken.
    pub rights: Option<Rights>,
    /// Why it is not taken; none if it is.
    pub refusals: Vec<TokenError>,
}

/// Explains a token at `now_s`, in seconds since 1970. Without keys its signature is not looked at.
///
/// # Errors
/// When there are no claims in it that can be read.
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
    match claims.rights(expected) {
        Ok(rights) => explained.rights = Some(rights),
        Err(error) => explained.refusals.push(error),
    }
    explained.ends_s = claims.ends_s(expected).ok();
    explained.subject = claims.sub;
    Ok(explained)
}

/// A token, decoded (RFC 7515 §7.1).
struct Parts<'a> {
    header: Vec<u8>,
    claims: Vec<u8>,
    /// The text that is signed.
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
        // A further point is in no part: it is not of base64url.
        let (header, claims) = message.split_once('.').ok_or(TokenError::Unreadable)?;
        if header.is_empty() || claims.is_empty() {
            return Err(TokenError::Unreadable);
        }
        let [header, claims] = [decoded(header)?, decoded(claims)?];
        Ok(Self { header, claims, message, signature: decoded(signature)? })
    }

    /// # Errors
    /// When no key has signed it.
    fn verify(&self, keys: &Keys) -> Result<(), TokenError> {
        let Header { algorithm, key_id } = Header::parse(&self.header)?;
        let mut candidates = keys.of(algorithm, key_id.as_deref()).peekable();
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

/// The members of a token's header that count. Keys that it brings along or points to do not.
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
    /// A token with these claims.
    ///
    /// # Errors
    /// One sentence.
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
