//! The signatures of the four algorithms, by ring: the only cryptography that the program has.

use jsonwebtoken::{
    Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind, EncodingKey,
    crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils},
    errors::{ErrorKind, Result, new_error},
    signature::{Error, Signer, Verifier},
};
use ring::{
    hmac,
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, ED25519, EcdsaKeyPair,
        Ed25519KeyPair, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256, RsaKeyPair,
        RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
    },
};

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |algorithm, key| {
        Ok(Box::new(RingSigner { algorithm: known(*algorithm, key.family())?, key: key.clone() }))
    },
    verifier_factory: |algorithm, key| {
        Ok(Box::new(RingVerifier { algorithm: known(*algorithm, key.family())?, key: key.clone() }))
    },
    // Only for making JWKs, which nobody does here.
    key_utils: KeyUtils::new_unimplemented(),
};

/// Makes `jsonwebtoken` use ring.
pub(crate) fn install() {
    // It may be there already.
    let _ = PROVIDER.install_default();
}

/// # Errors
/// When it is none of the four algorithms, or the key is of another one.
fn known(algorithm: Algorithm, family: AlgorithmFamily) -> Result<Algorithm> {
    let wanted = match algorithm {
        Algorithm::HS256 => AlgorithmFamily::Hmac,
        Algorithm::RS256 => AlgorithmFamily::Rsa,
        Algorithm::ES256 => AlgorithmFamily::Ec,
        Algorithm::EdDSA => AlgorithmFamily::Ed,
        _ => return Err(new_error(ErrorKind::UnsupportedAlgorithm)),
    };
    if family == wanted { Ok(algorithm) } else { Err(new_error(ErrorKind::InvalidKeyFormat)) }
}

struct RingVerifier {
    algorithm: Algorithm,
    key: DecodingKey,
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), Error> {
        let by = |algorithm: &'static dyn VerificationAlgorithm, key: &[u8]| {
            UnparsedPublicKey::new(algorithm, key).verify(message, signature)
        };
        let verified = match (self.algorithm, self.key.kind()) {
            (Algorithm::RS256, DecodingKeyKind::RsaModulusExponent { n, e }) => {
                RsaPublicKeyComponents { n, e }.verify(
                    &RSA_PKCS1_2048_8192_SHA256,
                    message,
                    signature,
                )
            }
            (Algorithm::RS256, DecodingKeyKind::SecretOrDer(key)) => {
                by(&RSA_PKCS1_2048_8192_SHA256, key)
            }
            (Algorithm::ES256, DecodingKeyKind::SecretOrDer(key)) => {
                by(&ECDSA_P256_SHA256_FIXED, key)
            }
            (Algorithm::EdDSA, DecodingKeyKind::SecretOrDer(key)) => by(&ED25519, key),
            (Algorithm::HS256, DecodingKeyKind::SecretOrDer(key)) => {
                hmac::verify(&hmac::Key::new(hmac::HMAC_SHA256, key), message, signature)
            }
            _ => return Err(Error::new()),
        };
        verified.map_err(|_| Error::new())
    }
}

struct RingSigner {
    algorithm: Algorithm,
    key: EncodingKey,
}

impl JwtSigner for RingSigner {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

impl Signer<Vec<u8>> for RingSigner {
    fn try_sign(&self, message: &[u8]) -> std::result::Result<Vec<u8>, Error> {
        let (key, random) = (self.key.as_bytes(), SystemRandom::new());
        let failed = |_| Error::new();
        match self.algorithm {
            Algorithm::HS256 => {
                let key = hmac::Key::new(hmac::HMAC_SHA256, key);
                Ok(hmac::sign(&key, message).as_ref().to_vec())
            }
            Algorithm::ES256 => {
                let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key, &random);
                let signed = pair.map_err(|_| Error::new())?.sign(&random, message);
                signed.map(|signature| signature.as_ref().to_vec()).map_err(failed)
            }
            Algorithm::EdDSA => {
                let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(key);
                Ok(pair.map_err(|_| Error::new())?.sign(message).as_ref().to_vec())
            }
            _ => {
                let pair = RsaKeyPair::from_der(key).map_err(|_| Error::new())?;
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).map_err(failed)?;
                Ok(signature)
            }
        }
    }
}
