use std::fmt::Display;

use jsonwebtoken::{
    Algorithm, DecodingKey, DecodingKeyKind, EncodingKey, errors,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm},
};
use serde::Deserialize;
use serde_json::Value;

/// Reads a key of one algorithm in PEM.
type Reader<K> = (Algorithm, fn(&[u8]) -> errors::Result<K>);

/// Keys of a set at most.
pub const KEYS_MAX: usize = 16;

/// Keys at most that a token is tried with: anybody may send one that none of them has signed.
pub(crate) const KEYS_TRIED_MAX: usize = 4;

/// The least bytes of a secret (RFC 7518 §3.2).
const SECRET_BYTES_MIN: usize = 32;

/// The least bytes of the modulus of RSA (RFC 7518 §3.3).
const RSA_BYTES_MIN: usize = 256;

/// What tokens are verified by. A key is of one algorithm, so that no token can choose another
/// one for it: a public key never becomes a secret (RFC 8725 §3.1).
#[derive(Clone)]
pub struct Key {
    pub(crate) id: Option<String>,
    pub(crate) algorithm: Algorithm,
    pub(crate) decoding: DecodingKey,
}

/// All keys that tokens may be signed by.
#[derive(Clone, Default)]
pub struct Keys(Vec<Key>);

/// What tokens are signed by.
pub struct SigningKey {
    pub(crate) algorithm: Algorithm,
    pub(crate) encoding: EncodingKey,
}

/// Why a text is not a key: one sentence with the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// A private key where a public one is wanted.
    #[error("this is a private key: only who makes tokens has it, a server needs the public one")]
    Private,
    /// A public key where a private one is wanted.
    #[error("this is a public key: tokens are signed by the private one")]
    Public,
    /// A key where a secret is wanted.
    #[error("this is a key in PEM or a JWK, not a secret: whoever knows it could make tokens")]
    NoSecret,
    /// A secret that can be guessed.
    #[error("a secret has at least 32 bytes (RFC 7518 §3.2): take `openssl rand -hex 32`")]
    ShortSecret,
    /// A key of RSA that is too short.
    #[error("a key of RSA has at least 2048 bits (RFC 7518 §3.3)")]
    ShortRsa,
    /// Neither PEM nor a JWK, or of an algorithm that is not known.
    #[error("{0}: a key is in PEM or a JWK, of RS256, ES256 (P-256) or EdDSA (Ed25519)")]
    Unknown(String),
    /// Too many.
    #[error("at most 16 keys can be told apart")]
    TooMany,
    /// Too many of one algorithm that have no id: no token could say which of them it means.
    #[error(
        "at most 4 keys of one algorithm have no id: give the others one (ID=@FILE, or kid of a JWK)"
    )]
    Nameless,
}

impl Key {
    /// A public key in PEM or as a JWK (RFC 7517), whose id in the text counts before `id`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn public(text: &str, id: Option<&str>) -> Result<Self, KeyError> {
        let text = text.trim();
        let key = if text.starts_with('{') {
            let jwk: Value = serde_json::from_str(text).map_err(unknown)?;
            if jwk.get("d").is_some() {
                return Err(KeyError::Private);
            }
            let key = Self::of_jwk(jwk)?;
            if key.algorithm == Algorithm::HS256 {
                return Err(unknown("a JWK of a secret is given as a secret"));
            }
            key
        } else {
            Self::of_pem(text)?
        };
        Ok(Self { id: key.id.or(id.map(str::to_owned)), ..key })
    }

    /// A secret, which whoever makes tokens has, too (HS256).
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn secret(text: &str, id: Option<&str>) -> Result<Self, KeyError> {
        let decoding = DecodingKey::from_secret(checked_secret(text)?);
        Ok(Self { id: id.map(str::to_owned), algorithm: Algorithm::HS256, decoding })
    }

    fn of_pem(text: &str) -> Result<Self, KeyError> {
        if text.contains("PRIVATE KEY") {
            return Err(KeyError::Private);
        }
        if !text.contains("PUBLIC KEY") {
            return Err(unknown("no PUBLIC KEY"));
        }
        let bytes = text.as_bytes();
        let read: [Reader<DecodingKey>; 3] = [
            (Algorithm::ES256, DecodingKey::from_ec_pem),
            (Algorithm::EdDSA, DecodingKey::from_ed_pem),
            (Algorithm::RS256, DecodingKey::from_rsa_pem),
        ];
        let mut found = read.into_iter().filter_map(|(algorithm, read)| {
            read(bytes).ok().map(|decoding| Self { id: None, algorithm, decoding })
        });
        found.next().ok_or_else(|| unknown("a PUBLIC KEY that cannot be read"))?.checked()
    }

    fn of_jwk(jwk: Value) -> Result<Self, KeyError> {
        let jwk = Jwk::deserialize(jwk).map_err(unknown)?;
        let (algorithm, named) = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => (Algorithm::RS256, KeyAlgorithm::RS256),
            AlgorithmParameters::EllipticCurve(it) if it.curve == EllipticCurve::P256 => {
                (Algorithm::ES256, KeyAlgorithm::ES256)
            }
            AlgorithmParameters::OctetKeyPair(it) if it.curve == EllipticCurve::Ed25519 => {
                (Algorithm::EdDSA, KeyAlgorithm::EdDSA)
            }
            AlgorithmParameters::OctetKey(_) => (Algorithm::HS256, KeyAlgorithm::HS256),
            _ => return Err(unknown("a JWK of another algorithm")),
        };
        if jwk.common.key_algorithm.is_some_and(|own| own != named) {
            return Err(unknown("a JWK of another algorithm"));
        }
        let decoding = DecodingKey::from_jwk(&jwk).map_err(unknown)?;
        Self { id: jwk.common.key_id, algorithm, decoding }.checked()
    }

    /// # Errors
    /// When its length is not that of a key of its algorithm.
    fn checked(self) -> Result<Self, KeyError> {
        use DecodingKeyKind::{RsaModulusExponent, SecretOrDer};
        match (self.algorithm, self.decoding.kind()) {
            // The point, uncompressed.
            (Algorithm::ES256, SecretOrDer(bytes)) if bytes.len() != 65 => {
                Err(unknown("a key of another curve"))
            }
            (Algorithm::EdDSA, SecretOrDer(bytes)) if bytes.len() != 32 => {
                Err(unknown("a key of another curve"))
            }
            // The rest of it is a few bytes.
            (Algorithm::RS256, SecretOrDer(bytes) | RsaModulusExponent { n: bytes, .. })
                if bytes.len() < RSA_BYTES_MIN =>
            {
                Err(KeyError::ShortRsa)
            }
            _ => Ok(self),
        }
    }
}

impl Keys {
    /// These keys.
    ///
    /// # Errors
    /// `TooMany`, `Nameless`.
    pub fn new(keys: Vec<Key>) -> Result<Self, KeyError> {
        if keys.len() > KEYS_MAX {
            return Err(KeyError::TooMany);
        }
        let nameless = |one: &Key| {
            keys.iter().filter(|it| it.id.is_none() && it.algorithm == one.algorithm).count()
        };
        if keys.iter().any(|key| nameless(key) > KEYS_TRIED_MAX) {
            return Err(KeyError::Nameless);
        }
        Ok(Self(keys))
    }

    /// The keys of a set (RFC 7517 §5). What is not for signatures or of another algorithm is left
    /// out, as §5 has it; so are secrets, which nobody publishes.
    ///
    /// # Errors
    /// One sentence, when it is no set, or there is no key in it.
    pub fn of_set(text: &[u8]) -> Result<Self, KeyError> {
        #[derive(Deserialize)]
        struct Set {
            keys: Vec<Value>,
        }
        let set: Set = serde_json::from_slice(text).map_err(unknown)?;
        let is_for_signatures =
            |key: &Value| key.get("use").is_none_or(|own| own.as_str() == Some("sig"));
        let keys = set.keys.into_iter().filter(is_for_signatures);
        let keys = keys.filter_map(|key| Key::of_jwk(key).ok());
        let keys: Vec<Key> = keys.filter(|key| key.algorithm != Algorithm::HS256).collect();
        if keys.is_empty() {
            return Err(unknown("a set without a key for signatures"));
        }
        Self::new(keys)
    }

    /// The bytes of each, which tell them from others.
    pub fn bytes(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(|key| match key.decoding.kind() {
            DecodingKeyKind::SecretOrDer(bytes)
            | DecodingKeyKind::RsaModulusExponent { n: bytes, .. } => bytes.as_slice(),
        })
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
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
            is_it && key.algorithm == algorithm
        })
    }
}

impl SigningKey {
    /// A private key in PEM (PKCS #8), or a secret.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(text: &str) -> Result<Self, KeyError> {
        let text = text.trim();
        if text.contains("PUBLIC KEY") {
            return Err(KeyError::Public);
        }
        if !text.contains("PRIVATE KEY") {
            let encoding = EncodingKey::from_secret(checked_secret(text)?);
            return Ok(Self { algorithm: Algorithm::HS256, encoding });
        }
        let bytes = text.as_bytes();
        let read: [Reader<EncodingKey>; 3] = [
            (Algorithm::ES256, EncodingKey::from_ec_pem),
            (Algorithm::EdDSA, EncodingKey::from_ed_pem),
            (Algorithm::RS256, EncodingKey::from_rsa_pem),
        ];
        let mut found = read.into_iter().filter_map(|(algorithm, read)| {
            read(bytes).ok().map(|encoding| Self { algorithm, encoding })
        });
        let help =
            "a PRIVATE KEY that cannot be read (PKCS #8 is: `openssl pkcs8 -topk8 -nocrypt`)";
        found.next().ok_or_else(|| unknown(help))
    }
}

fn checked_secret(text: &str) -> Result<&[u8], KeyError> {
    let text = text.trim();
    if text.contains("-----BEGIN") || text.starts_with('{') {
        return Err(KeyError::NoSecret);
    }
    if text.len() < SECRET_BYTES_MIN {
        return Err(KeyError::ShortSecret);
    }
    Ok(text.as_bytes())
}

fn unknown(why: impl Display) -> KeyError {
    KeyError::Unknown(why.to_string())
}
