use std::fmt::Display;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{DecodingKey, EncodingKey, errors};
use serde_json::{Map, Value};
use thalweg_wire::Excerpt;

use crate::{
    algorithm::{Algorithm, KeyKind},
    signature::{VerifyingKey, curve_of},
};

/// Parses a key of one kind in PEM.
type Reader<K> = fn(&[u8]) -> errors::Result<K>;

/// Maximum keys of a configuration or of a set, because the server searches all of them for a token without an id. Large
/// issuers publish a few dozen.
pub const KEYS_MAX: usize = 256;

/// Maximum keys tried for one token, because anybody may send a token that none of them signed.
pub(crate) const KEYS_TRIED_MAX: usize = 4;

/// Minimum bytes of a secret (RFC 7518 §3.2).
const SECRET_BYTES_MIN: usize = 32;

/// Minimum and maximum bytes of an RSA modulus (RFC 7518 §3.3; ring's maximum).
const RSA_BYTES: [usize; 2] = [256, 1024];

/// The members of a JWK that only a private key has (RFC 7518 §6.2.2, §6.3.2; RFC 8037 §2).
const PRIVATE_MEMBERS: [&str; 7] = ["d", "p", "q", "dp", "dq", "qi", "oth"];

/// A key to verify tokens with: of one kind, and of one algorithm if the key names it.
#[derive(Clone)]
pub struct Key {
    pub(crate) id: Option<String>,
    algorithm: Option<Algorithm>,
    pub(crate) verifying: VerifyingKey,
}

/// All keys that may sign tokens.
#[derive(Clone, Default)]
pub struct Keys(Vec<Key>);

/// An unusable key of a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedKey {
    /// The key's id, or its number in the set.
    pub key: String,
    /// The reason.
    pub why: KeyError,
}

/// A key to sign tokens with.
pub struct SigningKey {
    pub(crate) algorithm: Algorithm,
    /// A secret, or a private key in DER.
    pub(crate) bytes: Vec<u8>,
}

/// The reason why a text is not a key: one sentence with the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// A private key instead of a public one.
    #[error("this is a private key: give the server the public key")]
    Private,
    /// A private key in a public set.
    #[error(
        "key {0} of the set is a private key, with which anybody can sign tokens: publish public keys only, and replace this key"
    )]
    PrivateInSet(String),
    /// A public key instead of a private one.
    #[error("this is a public key: sign tokens with the private key")]
    Public,
    /// A key instead of a secret.
    #[error("this is a key in PEM or a JWK, not a secret: use it as a key")]
    NoSecret,
    /// The secret is short enough to guess.
    #[error(
        "a secret needs at least 32 bytes (RFC 7518 §3.2): create one with `openssl rand -hex 32`"
    )]
    ShortSecret,
    /// The secret is too short for this algorithm.
    #[error(
        "{0} needs a secret of at least {1} bytes (RFC 7518 §3.2): create one with `openssl rand -hex {1}`"
    )]
    ShortFor(Algorithm, usize),
    /// The RSA key is too short or too long.
    #[error("the RSA key does not have 2048 to 8192 bits (RFC 7518 §3.3): create one of this size")]
    RsaSize,
    /// A secret in a public set.
    #[error("the set publishes a secret: remove it from the set")]
    PublishedSecret,
    /// The key is not for signatures.
    #[error("the key is not for signatures (use, key_ops): name a key for signatures")]
    OtherUse,
    /// The key is not of the algorithm's kind.
    #[error("the key does not fit {0}: name a key for this algorithm, or another algorithm")]
    OtherKind(Algorithm),
    /// The text is neither PEM nor a JWK, or its algorithm is unknown.
    #[error("{0}: write the key in PEM or as a JWK, of RSA, EC (P-256, P-384) or Ed25519")]
    Unknown(String),
    /// The set has too many keys.
    #[error("there are more than {KEYS_MAX} keys: remove some")]
    TooMany,
    /// Too many keys of one kind have no id: a token could not name one of them.
    #[error(
        "more than 4 keys of one kind have no id: give the others an id (ID=@FILE, or kid of a JWK)"
    )]
    Nameless,
}

impl Key {
    /// Parses a public key in PEM or a JWK (RFC 7517), whose own id has precedence over `id`.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn public(text: &str, id: Option<&str>) -> Result<Self, KeyError> {
        let text = trimmed(text);
        let key = if text.starts_with('{') {
            let jwk: Value = serde_json::from_str(text).map_err(unknown)?;
            let jwk = jwk.as_object().ok_or_else(|| unknown("no JWK"))?;
            if jwk.get("kty").and_then(Value::as_str) == Some("oct") {
                return Err(unknown("a JWK of a secret is not a public key"));
            }
            if is_private(jwk) {
                return Err(KeyError::Private);
            }
            Self::from_jwk(jwk)?
        } else {
            Self::from_pem(text)?
        };
        Ok(Self { id: key.id.or(id.map(str::to_owned)), ..key })
    }

    /// Returns the key of a secret shared with the issuer of tokens (HS256, HS384 and HS512).
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn secret(text: &str, id: Option<&str>) -> Result<Self, KeyError> {
        let verifying = VerifyingKey::Secret(checked_secret(text)?.to_vec());
        Ok(Self { id: id.map(str::to_owned), algorithm: None, verifying })
    }

    pub(crate) fn is_of(&self, algorithm: Algorithm) -> bool {
        let fits = match &self.verifying {
            VerifyingKey::Secret(bytes) => bytes.len() >= algorithm.secret_bytes_min(),
            _ => true,
        };
        let is_kind = self.verifying.kind() == algorithm.key_kind();
        is_kind && fits && self.algorithm.is_none_or(|own| own == algorithm)
    }

    fn from_pem(text: &str) -> Result<Self, KeyError> {
        if text.contains("PRIVATE KEY") {
            return Err(KeyError::Private);
        }
        if !text.contains("PUBLIC KEY") {
            return Err(unknown("no PUBLIC KEY"));
        }
        let read = |read: Reader<DecodingKey>| {
            let key = read(text.as_bytes()).ok()?;
            key.try_get_as_bytes().ok().map(<[u8]>::to_vec)
        };
        let verifying = if let Some(point) = read(DecodingKey::from_ec_pem) {
            key_from_point(point)?
        } else if let Some(bytes) = read(DecodingKey::from_ed_pem) {
            key_from_ed25519(bytes)?
        } else if let Some(der) = read(DecodingKey::from_rsa_pem) {
            // Modulus and exponent, with a few bytes around them.
            checked_rsa(der.len(), 16)?;
            VerifyingKey::RsaDer(der)
        } else {
            return Err(unknown("a PUBLIC KEY that cannot be read"));
        };
        Ok(Self { id: None, algorithm: None, verifying })
    }

    /// Parses a public key as a JWK (RFC 7517 §4, RFC 7518 §6).
    fn from_jwk(jwk: &Map<String, Value>) -> Result<Self, KeyError> {
        if !is_for_signatures(jwk) {
            return Err(KeyError::OtherUse);
        }
        let kind = (text(jwk, "kty")?.unwrap_or_default(), text(jwk, "crv")?.unwrap_or_default());
        let verifying = match kind {
            ("RSA", _) => {
                let [n, e] =
                    [bytes(jwk, "n")?, bytes(jwk, "e")?].map(|number| without_zeros(&number));
                checked_rsa(n.len(), 0)?;
                VerifyingKey::Rsa { n, e }
            }
            ("EC", curve @ ("P-256" | "P-384")) => {
                let point = [&[4][..], &bytes(jwk, "x")?, &bytes(jwk, "y")?].concat();
                let verifying = key_from_point(point)?;
                if (verifying.kind() == KeyKind::P256) != (curve == "P-256") {
                    return Err(unknown("a point of another curve"));
                }
                verifying
            }
            ("OKP", "Ed25519") => key_from_ed25519(bytes(jwk, "x")?)?,
            (kind, curve) => {
                let why = format!("kty {} and crv {}", Excerpt(kind), Excerpt(curve));
                return Err(unknown(why));
            }
        };
        let algorithm = match text(jwk, "alg")? {
            None => None,
            Some(name) => match name.parse::<Algorithm>() {
                Ok(algorithm) if algorithm.key_kind() == verifying.kind() => Some(algorithm),
                _ => return Err(unknown(format!("alg {}", Excerpt(name)))),
            },
        };
        let id = text(jwk, "kid")?.map(str::to_owned);
        Ok(Self { id, algorithm, verifying })
    }
}

impl Keys {
    /// Returns a set of these keys.
    ///
    /// # Errors
    /// `TooMany`, `Nameless`.
    pub fn new(keys: Vec<Key>) -> Result<Self, KeyError> {
        let mut all = Self::default();
        keys.into_iter().try_for_each(|key| all.add(key))?;
        Ok(all)
    }

    /// Parses a set of keys (RFC 7517 §5). An unusable key is skipped, as §5 demands, and returned with the reason.
    ///
    /// # Errors
    /// Fails if the text is not a set, none of its keys is usable, or one is private.
    pub fn from_set(set: &[u8]) -> Result<(Self, Vec<SkippedKey>), KeyError> {
        let set = set.strip_prefix("\u{feff}".as_bytes()).unwrap_or(set);
        let set: Value = serde_json::from_slice(set).map_err(unknown)?;
        let jwks = set.get("keys").and_then(Value::as_array);
        let jwks = jwks.ok_or_else(|| unknown("no set of keys ({\"keys\":[…]})"))?;
        let (mut keys, mut skipped) = (Self::default(), Vec::new());
        for (place, jwk) in jwks.iter().enumerate() {
            let id = jwk.get("kid").and_then(Value::as_str);
            let name =
                id.map_or_else(|| format!("number {}", place + 1), |id| Excerpt(id).to_string());
            let key = match jwk.as_object() {
                Some(jwk) if jwk.get("kty").and_then(Value::as_str) == Some("oct") => {
                    Err(KeyError::PublishedSecret)
                }
                Some(jwk) if is_private(jwk) => return Err(KeyError::PrivateInSet(name)),
                Some(jwk) => Key::from_jwk(jwk),
                None => Err(unknown("no JSON object")),
            };
            if let Err(why) = key.and_then(|key| keys.add(key)) {
                skipped.push(SkippedKey { key: name, why });
            }
        }
        match (keys.is_empty(), skipped.first()) {
            (false, _) => Ok((keys, skipped)),
            (true, None) => Err(unknown("a set without a key")),
            (true, Some(first)) => Err(unknown(format!(
                "a set without a key for signatures (key {}: {})",
                first.key, first.why
            ))),
        }
    }

    /// Returns the bytes of each key, which identify it.
    pub fn bytes(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(|key| key.verifying.bytes())
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    fn add(&mut self, key: Key) -> Result<(), KeyError> {
        if self.0.len() == KEYS_MAX {
            return Err(KeyError::TooMany);
        }
        let kind = key.verifying.kind();
        let is_like = |other: &&Key| other.id.is_none() && other.verifying.kind() == kind;
        if key.id.is_none() && self.0.iter().filter(is_like).count() == KEYS_TRIED_MAX {
            return Err(KeyError::Nameless);
        }
        self.0.push(key);
        Ok(())
    }

    /// Returns the keys that may have signed a token: those of its algorithm and key id. A key without an id matches any id.
    pub(crate) fn matching<'a>(
        &'a self,
        algorithm: Algorithm,
        id: Option<&'a str>,
    ) -> impl Iterator<Item = &'a Key> + Clone {
        self.0.iter().filter(move |key| {
            let is_it = match (id, key.id.as_deref()) {
                (Some(id), Some(own)) => id == own,
                _ => true,
            };
            is_it && key.is_of(algorithm)
        })
    }
}

impl SigningKey {
    /// Parses a private key in PEM (PKCS #8), or a secret.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn new(text: &str) -> Result<Self, KeyError> {
        let text = trimmed(text);
        if text.contains("PUBLIC KEY") {
            return Err(KeyError::Public);
        }
        if !text.contains("PRIVATE KEY") {
            let bytes = checked_secret(text)?.to_vec();
            return Ok(Self { algorithm: Algorithm::HS256, bytes });
        }
        let read = |read: Reader<EncodingKey>| {
            read(text.as_bytes()).ok().map(|key| key.as_bytes().to_vec())
        };
        if let Some(bytes) = read(EncodingKey::from_ec_pem) {
            let algorithm = curve_of(&bytes).ok_or_else(|| unknown("a key of another curve"))?;
            return Ok(Self { algorithm, bytes });
        }
        let found = read(EncodingKey::from_ed_pem)
            .map(|bytes| Self { algorithm: Algorithm::EdDSA, bytes })
            .or_else(|| {
                let bytes = read(EncodingKey::from_rsa_pem)?;
                Some(Self { algorithm: Algorithm::RS256, bytes })
            });
        let help =
            "a PRIVATE KEY that cannot be read (PKCS #8 is: `openssl pkcs8 -topk8 -nocrypt`)";
        found.ok_or_else(|| unknown(help))
    }

    /// Returns the same key for another algorithm of its kind.
    ///
    /// # Errors
    /// `OtherKind`, `ShortFor`.
    pub fn with_algorithm(self, algorithm: Algorithm) -> Result<Self, KeyError> {
        let kind = algorithm.key_kind();
        if self.algorithm.key_kind() != kind {
            return Err(KeyError::OtherKind(algorithm));
        }
        let least = algorithm.secret_bytes_min();
        if kind == KeyKind::Secret && self.bytes.len() < least {
            return Err(KeyError::ShortFor(algorithm, least));
        }
        Ok(Self { algorithm, ..self })
    }
}

fn is_private(jwk: &Map<String, Value>) -> bool {
    PRIVATE_MEMBERS.iter().any(|member| jwk.contains_key(*member))
}

/// Returns whether a JWK is for signatures (RFC 7517 §4.2 and §4.3).
fn is_for_signatures(jwk: &Map<String, Value>) -> bool {
    let is_use = jwk.get("use").is_none_or(|own| own.as_str() == Some("sig"));
    let verifies = |operations: &Value| {
        let mut names = operations.as_array().into_iter().flatten();
        names.any(|name| name.as_str() == Some("verify"))
    };
    is_use && jwk.get("key_ops").is_none_or(verifies)
}

fn text<'a>(jwk: &'a Map<String, Value>, name: &str) -> Result<Option<&'a str>, KeyError> {
    let wrong = || unknown(format!("{name} is no text"));
    jwk.get(name).map(|value| value.as_str().ok_or_else(wrong)).transpose()
}

fn bytes(jwk: &Map<String, Value>, name: &str) -> Result<Vec<u8>, KeyError> {
    let text = text(jwk, name)?.ok_or_else(|| unknown(format!("{name} is missing")))?;
    URL_SAFE_NO_PAD.decode(text).map_err(|_| unknown(format!("{name} is not base64url")))
}

/// Removes leading zeros, which some issuers write although RFC 7518 §6.3.1.1 forbids them.
fn without_zeros(number: &[u8]) -> Vec<u8> {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    number[zeros..].to_vec()
}

fn checked_rsa(bytes: usize, around: usize) -> Result<(), KeyError> {
    let [least, most] = RSA_BYTES;
    if (least..=most + around).contains(&bytes) { Ok(()) } else { Err(KeyError::RsaSize) }
}

/// Returns the key of an uncompressed point, whose length tells the curve.
fn key_from_point(point: Vec<u8>) -> Result<VerifyingKey, KeyError> {
    match point.len() {
        65 => Ok(VerifyingKey::P256(point)),
        97 => Ok(VerifyingKey::P384(point)),
        _ => Err(unknown("a key of another curve")),
    }
}

fn key_from_ed25519(bytes: Vec<u8>) -> Result<VerifyingKey, KeyError> {
    if bytes.len() == 32 {
        Ok(VerifyingKey::Ed25519(bytes))
    } else {
        Err(unknown("a key of another curve"))
    }
}

fn checked_secret(text: &str) -> Result<&[u8], KeyError> {
    let text = trimmed(text);
    if text.contains("-----BEGIN") || text.starts_with('{') {
        return Err(KeyError::NoSecret);
    }
    if text.len() < SECRET_BYTES_MIN {
        return Err(KeyError::ShortSecret);
    }
    Ok(text.as_bytes())
}

/// Removes whitespace and a byte order mark, which editors add.
fn trimmed(text: &str) -> &str {
    text.trim_start_matches('\u{feff}').trim()
}

fn unknown(why: impl Display) -> KeyError {
    KeyError::Unknown(why.to_string())
}
