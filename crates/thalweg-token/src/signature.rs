//! The signatures of all algorithms, made and verified by ring, the program's only cryptography.

use ring::{
    hmac,
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED,
        ECDSA_P384_SHA384_FIXED_SIGNING, ED25519, EcdsaKeyPair, EcdsaSigningAlgorithm,
        Ed25519KeyPair, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
        RSA_PKCS1_2048_8192_SHA512, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512,
        RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512,
        RSA_PSS_SHA256, RSA_PSS_SHA384, RSA_PSS_SHA512, RsaEncoding, RsaKeyPair, RsaParameters,
        RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
    },
};

use crate::algorithm::{Algorithm, KeyKind};

/// The bytes of a key to verify signatures with.
#[derive(Clone)]
pub(crate) enum VerifyingKey {
    Secret(Vec<u8>),
    /// An `RSAPublicKey` in DER (RFC 8017 §A.1.1).
    RsaDer(Vec<u8>),
    /// Modulus and exponent, big-endian, without leading zeros.
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// An uncompressed point.
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

impl VerifyingKey {
    pub(crate) fn kind(&self) -> KeyKind {
        match self {
            Self::Secret(_) => KeyKind::Secret,
            Self::RsaDer(_) | Self::Rsa { .. } => KeyKind::Rsa,
            Self::P256(_) => KeyKind::P256,
            Self::P384(_) => KeyKind::P384,
            Self::Ed25519(_) => KeyKind::Ed25519,
        }
    }

    /// Returns the bytes that identify the key.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Secret(bytes)
            | Self::RsaDer(bytes)
            | Self::Rsa { n: bytes, .. }
            | Self::P256(bytes)
            | Self::P384(bytes)
            | Self::Ed25519(bytes) => bytes,
        }
    }

    /// Returns whether this key made the signature of a message. An algorithm of another kind never matches.
    pub(crate) fn verifies(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        let by = |algorithm: &'static dyn VerificationAlgorithm, key: &[u8]| {
            UnparsedPublicKey::new(algorithm, key).verify(message, signature)
        };
        let verified = match (self, algorithm.key_kind()) {
            (Self::Secret(key), KeyKind::Secret) => {
                hmac::verify(&hmac::Key::new(hmac_of(algorithm), key), message, signature)
            }
            (Self::RsaDer(key), KeyKind::Rsa) => by(rsa_of(algorithm).0, key),
            (Self::Rsa { n, e }, KeyKind::Rsa) => {
                RsaPublicKeyComponents { n, e }.verify(rsa_of(algorithm).0, message, signature)
            }
            (Self::P256(key), KeyKind::P256) => by(&ECDSA_P256_SHA256_FIXED, key),
            (Self::P384(key), KeyKind::P384) => by(&ECDSA_P384_SHA384_FIXED, key),
            (Self::Ed25519(key), KeyKind::Ed25519) => by(&ED25519, key),
            _ => return false,
        };
        verified.is_ok()
    }
}

/// Signs a message. `key` is a secret, an RSA private key in DER, or an elliptic-curve private key in PKCS #8. `None`
/// if the key is not of the algorithm's kind.
pub(crate) fn signed(algorithm: Algorithm, key: &[u8], message: &[u8]) -> Option<Vec<u8>> {
    let random = SystemRandom::new();
    match algorithm.key_kind() {
        KeyKind::Secret => {
            let key = hmac::Key::new(hmac_of(algorithm), key);
            Some(hmac::sign(&key, message).as_ref().to_vec())
        }
        KeyKind::Rsa => {
            let pair = RsaKeyPair::from_der(key).ok()?;
            let mut signature = vec![0; pair.public().modulus_len()];
            pair.sign(rsa_of(algorithm).1, &random, message, &mut signature).ok()?;
            Some(signature)
        }
        KeyKind::Ed25519 => {
            let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(key).ok()?;
            Some(pair.sign(message).as_ref().to_vec())
        }
        kind @ (KeyKind::P256 | KeyKind::P384) => {
            let pair = EcdsaKeyPair::from_pkcs8(curve(kind), key, &random).ok()?;
            Some(pair.sign(&random, message).ok()?.as_ref().to_vec())
        }
    }
}

/// Returns the curve of a private key in PKCS #8, if known.
pub(crate) fn curve_of(key: &[u8]) -> Option<Algorithm> {
    let random = SystemRandom::new();
    let is_of = |algorithm: &Algorithm| {
        EcdsaKeyPair::from_pkcs8(curve(algorithm.key_kind()), key, &random).is_ok()
    };
    [Algorithm::ES256, Algorithm::ES384].into_iter().find(is_of)
}

fn curve(kind: KeyKind) -> &'static EcdsaSigningAlgorithm {
    match kind {
        KeyKind::P384 => &ECDSA_P384_SHA384_FIXED_SIGNING,
        _ => &ECDSA_P256_SHA256_FIXED_SIGNING,
    }
}

fn hmac_of(algorithm: Algorithm) -> hmac::Algorithm {
    match algorithm {
        Algorithm::HS384 => hmac::HMAC_SHA384,
        Algorithm::HS512 => hmac::HMAC_SHA512,
        _ => hmac::HMAC_SHA256,
    }
}

fn rsa_of(algorithm: Algorithm) -> (&'static RsaParameters, &'static dyn RsaEncoding) {
    match algorithm {
        Algorithm::RS384 => (&RSA_PKCS1_2048_8192_SHA384, &RSA_PKCS1_SHA384),
        Algorithm::RS512 => (&RSA_PKCS1_2048_8192_SHA512, &RSA_PKCS1_SHA512),
        Algorithm::PS256 => (&RSA_PSS_2048_8192_SHA256, &RSA_PSS_SHA256),
        Algorithm::PS384 => (&RSA_PSS_2048_8192_SHA384, &RSA_PSS_SHA384),
        Algorithm::PS512 => (&RSA_PSS_2048_8192_SHA512, &RSA_PSS_SHA512),
        _ => (&RSA_PKCS1_2048_8192_SHA256, &RSA_PKCS1_SHA256),
    }
}
