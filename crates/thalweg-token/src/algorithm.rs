use std::{fmt, str::FromStr};

/// A signature algorithm (RFC 7518 §3.1, RFC 8037 §3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are the names of the RFCs")]
pub enum Algorithm {
    HS256,
    HS384,
    HS512,
    RS256,
    RS384,
    RS512,
    PS256,
    PS384,
    PS512,
    ES256,
    ES384,
    /// Ed25519. RFC 9864 §2.2 named it `Ed25519`; parsers accept both names, and signing writes the older one, which
    /// all libraries know.
    EdDSA,
}

/// The kind of key that an algorithm needs. A key has one kind, so no token can select another kind for it: a
/// public key never serves as a secret (RFC 8725 §3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyKind {
    Secret,
    Rsa,
    P256,
    P384,
    Ed25519,
}

impl Algorithm {
    /// All algorithms.
    pub const ALL: [Self; 12] = [
        Self::HS256,
        Self::HS384,
        Self::HS512,
        Self::RS256,
        Self::RS384,
        Self::RS512,
        Self::PS256,
        Self::PS384,
        Self::PS512,
        Self::ES256,
        Self::ES384,
        Self::EdDSA,
    ];

    /// Returns the name in a token's header.
    pub fn name(self) -> &'static str {
        match self {
            Self::HS256 => "HS256",
            Self::HS384 => "HS384",
            Self::HS512 => "HS512",
            Self::RS256 => "RS256",
            Self::RS384 => "RS384",
            Self::RS512 => "RS512",
            Self::PS256 => "PS256",
            Self::PS384 => "PS384",
            Self::PS512 => "PS512",
            Self::ES256 => "ES256",
            Self::ES384 => "ES384",
            Self::EdDSA => "EdDSA",
        }
    }

    pub(crate) fn key_kind(self) -> KeyKind {
        match self {
            Self::HS256 | Self::HS384 | Self::HS512 => KeyKind::Secret,
            Self::RS256 | Self::RS384 | Self::RS512 | Self::PS256 | Self::PS384 | Self::PS512 => {
                KeyKind::Rsa
            }
            Self::ES256 => KeyKind::P256,
            Self::ES384 => KeyKind::P384,
            Self::EdDSA => KeyKind::Ed25519,
        }
    }

    /// Returns the minimum bytes of a secret, which are the bytes of the hash (RFC 7518 §3.2).
    pub(crate) fn secret_bytes_min(self) -> usize {
        match self {
            Self::HS384 => 48,
            Self::HS512 => 64,
            _ => 32,
        }
    }
}

impl FromStr for Algorithm {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        if name == "Ed25519" {
            return Ok(Self::EdDSA);
        }
        let found = Self::ALL.into_iter().find(|algorithm| algorithm.name() == name);
        found.ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|algorithm| algorithm.name()).collect();
            format!("an algorithm is one of {} and Ed25519", names.join(", "))
        })
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
