use std::fmt::Display;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{DecodingKey, EncodingKey, errors};
use serde_json::{Map, Value};
use thalweg_wire::Excerpt;

use crate::{
    algorithm::{Algorithm, KeyKind},
    signature::{VerifyingKey, curve_of},
};

/// Reads a key of one kind in PEM.
type Reader<K> = fn(&[u8]) -> errors::Result<K>;

/// Keys at most, of a configuration or of a set: a token without an id is looked up among all. Large
/// issuers publish some dozen.
pub const KEYS_MAX: usize = 256;

/// Keys at most that a token is tried with: anybody may send one that none of them has signed.
pub(crate) const KEYS_TRIED_MAX: usize = 4;

/// The least bytes of a secret (RFC 7518 §3.2).
const SECRET_BYTES_MIN: usize = 32;

/// The least and the most bytes of the modulus of RSA (RFC 7518 §3.3; ring reads no more).
const RSA_BYTES: [usize; 2] = [256, 1024];

/// The members of a JWK that only a private key has (RFC 7518 §6.2.2, §6.3.2; RFC 8037 §2).
const PRIVATE_MEMBERS: [&str; 7] = ["d", "p", "q", "dp", "dq", "qi", "oth"];

/// A key that tokens are verified by: of one kind, and of one algorithm if it says so.
#[derive(Clone)]
pub struct Key {
    pub(crate) id: Option<String>,
    algorithm: Option<Algorithm>,
    pub(crate) verifying: VerifyingKey,
}

/// All keys that tokens may be signed by.
#[derive(Clone, Default)]
pub struct Keys(Vec<Key>);

/// A key of a set that is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedKey {
    /// Its id, or its place in the set.
    pub key: String,
    /// Why it is not used.
    pub why: KeyError,
}

/// A key that tokens are signed by.
pub struct SigningKey {
    pub(crate) algorithm: Algorithm,
    /// A secret, or a private key in DER.
    pub(crate) bytes: Vec<u8>,
}

/// Why a text is not a key: one sentence with the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// A private key where a public one is wanted.
    #[error("this is a private key: only who makes tokens has it, a server needs the public one")]
    Private,
    /// A private key in a set that anybody can read.
    #[error(
        "key {0} of the set is a private key, so anybody could make tokens: publish the public ones, and replace this one"
    )]
    PrivateInSet(String),
    /// A public key where a private one is wanted.
    #[error("this is a public key: tokens are signed by the private one")]
    Public,
    /// A key where a secret is wanted.
    #[error("this is a key in PEM or a JWK, not a secret: whoever knows it could make tokens")]
    NoSecret,
    /// A secret that can be guessed.
    #[error("a secret has at least 32 bytes (RFC 7518 §3.2): take `openssl rand -hex 32`")]
    ShortSecret,
    /// A secret that is too short for this algorithm.
    #[error(
        "{0} needs a secret of at least {1} bytes (RFC 7518 §3.2): take `openssl rand -hex {1}`"
    )]
    ShortFor(Algorithm, usize),
    /// A key of RSA that is too short, or too long.
    #[error("a key of RSA has 2048 to 8192 bits (RFC 7518 §3.3)")]
    RsaSize,
    /// A secret in a set that anybody can read.
    #[error("a secret in a set that others can read is no secret")]
    PublishedSecret,
    /// A key that is not for verifying signatures.
    #[error("it is not for signatures (use, key_ops)")]
    OtherUse,
    /// A key of another kind than the algorithm needs.
    #[error("the key is not one of {0}")]
    OtherKind(Algorithm),
    /// Neither PEM nor a JWK, or of an algorithm that is not known.
    #[error("{0}: a key is in PEM or a JWK, of RSA, EC (P-256, P-384) or Ed25519")]
    Unknown(String),
    /// Too many.
    #[error("at most {KEYS_MAX} keys are looked through")]
    TooMany,
    /// Too many of one kind that have no id: no token could say which of them it means.
    #[error(
        "at most 4 keys of one kind have no id: give the others one (ID=@FILE, or kid of a JWK)"
    )]
    Nameless,
}

impl Key {
    /// A public key in PEM or as a JWK (RFC 7517), whose id in the text counts before `id`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn public(text: &str, id: Option<&str>) -> Result<Self, KeyError> {
        let text = trimmed(text);
        let key = if text.starts_with('{') {
            let jwk: Value = serde_json::from_str(text).map_err(unknown)?;
            let jwk = jwk.as_object().ok_or_else(|| unknown("no JWK"))?;
            if jwk.get("kty").and_then(Value::as_str) == Some("oct") {
                return Err(unknown("a JWK of a secret is given as a secret"));
            }
            if is_private(jwk) {
                return Err(KeyError::Private);
            }
            Self::of_jwk(jwk)?
        } else {
            Self::of_pem(text)?
        };
        Ok(Self { id: key.id.or(id.map(str::to_owned)), ..key })
    }

    /// Returns the key of a secret that the issuer of tokens shares (HS256, HS384 and HS512).
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn secret(text: &str, id: Option<&str>) -> Result<Self, KeyError> {
        let verifying = VerifyingKey::Secret(checked_secret(text)?.to_vec());
        Ok(Self { id: id.map(str::to_owned), algorithm: None, verifying })
    }

    /// Whether a token of this algorithm may be signed by it.
    pub(crate) fn is_of(&self, algorithm: Algorithm) -> bool {
        let fits = match &self.verifying {
            VerifyingKey::Secret(bytes) => bytes.len() >= algorithm.secret_bytes_min(),
            _ => true,
        };
        let is_kind = self.verifying.kind() == algorithm.key_kind();
        is_kind && fits && self.algorithm.is_none_or(|own| own == algorithm)
    }

    fn of_pem(text: &str) -> Result<Self, KeyError> {
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
            of_point(point)?
        } else if let Some(bytes) = read(DecodingKey::from_ed_pem) {
            of_ed25519(bytes)?
        } else if let Some(der) = read(DecodingKey::from_rsa_pem) {
            // Modulus and exponent, with a few bytes around them.
            checked_rsa(der.len(), 16)?;
            VerifyingKey::RsaDer(der)
        } else {
            return Err(unknown("a PUBLIC KEY that cannot be read"));
        };
        Ok(Self { id: None, algorithm: None, verifying })
    }

    /// A public key as a JWK (RFC 7517 §4, RFC 7518 §6).
    fn of_jwk(jwk: &Map<String, Value>) -> Result<Self, KeyError> {
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
                let verifying = of_point(point)?;
                if (verifying.kind() == KeyKind::P256) != (curve == "P-256") {
                    return Err(unknown("a point of another curve"));
                }
                verifying
            }
            ("OKP", "Ed25519") => of_ed25519(bytes(jwk, "x")?)?,
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
    /// These keys.
    ///
    /// # Errors
    /// `TooMany`, `Nameless`.
    pub fn new(keys: Vec<Key>) -> Result<Self, KeyError> {
        let mut all = Self::default();
        keys.into_iter().try_for_each(|key| all.add(key))?;
        Ok(all)
    }

    /// The keys of a set (RFC 7517 §5). A key that cannot be used is left out, as §5 has it, and
    /// named with the reason.
    ///
    /// # Errors
    /// One sentence, when it is no set, there is no key in it that can be used, or one is private.
    pub fn of_set(set: &[u8]) -> Result<(Self, Vec<SkippedKey>), KeyError> {
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
                Some(jwk) => Key::of_jwk(jwk),
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

    /// The bytes of each, which tell them from others.
    pub fn bytes(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(|key| key.verifying.bytes())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
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

    /// The keys that a token may be signed by: those of its algorithm, and of its key's id. A key
    /// without an id may be any.
    pub(crate) fn of<'a>(
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
    /// A private key in PEM (PKCS #8), or a secret.
    ///
    /// # Errors
    /// What is wrong with it.
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

    /// The same key, which signs by another algorithm of its kind.
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

/// RFC 7517 §4.2 and §4.3.
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

/// Some write a number with zeros before it (RFC 7518 §6.3.1.1 forbids it).
fn without_zeros(number: &[u8]) -> Vec<u8> {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    number[zeros..].to_vec()
}

fn checked_rsa(bytes: usize, around: usize) -> Result<(), KeyError> {
    let [least, most] = RSA_BYTES;
    if (least..=most + around).contains(&bytes) { Ok(()) } else { Err(KeyError::RsaSize) }
}

/// A key of a curve by its point, uncompressed: the length says which.
fn of_point(point: Vec<u8>) -> Result<VerifyingKey, KeyError> {
    match point.len() {
        65 => Ok(VerifyingKey::P256(point)),
        97 => Ok(VerifyingKey::P384(point)),
        _ => Err(unknown("a key of another curve")),
    }
}

fn of_ed25519(bytes: Vec<u8>) -> Result<VerifyingKey, KeyError> {
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

/// Without what editors put around it, a byte order mark included.
fn trimmed(text: &str) -> &str {
    text.trim_start_matches('\u{feff}').trim()
}

fn unknown(why: impl Display) -> KeyError {
    KeyError::Unknown(why.to_string())
}
