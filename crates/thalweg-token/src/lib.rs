//! Rights of token holders, and JSON Web Tokens (RFC 7519) that carry them. Contract: `docs/reference/access.md`, "Tokens".
//!
//! ```text
//! token ── header ──► key, by its id and its algorithm      (`key`)
//!       ── signature ► made with that key?                  (`signature`)
//!       ── claims ───► subject, expiry, audience            (`claims`)
//!                  └─► topics of each right                 (`rights`)
//! ```
//!
//! - `algorithm`: the signature algorithms, by name
//! - `rights`: topics, by patterns, for each right
//! - `claims`: the claims of a token, and the server's requirements
//! - `error`: the reasons to reject a token
//! - `key`: keys to verify and to sign tokens with
//! - `verifier`: a token → its grant, or the reason to reject it
//! - `signature`: makes and verifies signatures
//!
//! No I/O and no clock: the caller passes the time, in seconds since 1970.

mod algorithm;
mod claims;
mod error;
mod key;
mod rights;
mod signature;
mod verifier;

pub use algorithm::Algorithm;
pub use claims::{Audience, CLAIM, Claims, Expectations, Granted};
pub use error::TokenError;
pub use key::{KEYS_MAX, Key, KeyError, Keys, SigningKey, SkippedKey};
pub use rights::{Rights, TopicScope, Topics};
pub use thalweg_wire::Pattern;
pub use verifier::{Explained, TOKEN_BYTES_MAX, explain, parts, verify};
