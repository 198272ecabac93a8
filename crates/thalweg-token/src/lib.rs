//! What a token lets its holder do, and JSON Web Tokens (RFC 7519) that say so. Contract:
//! `docs/wire.md`, "Tokens".
//!
//! ```text
//! token ── header ──► key, by its id and its algorithm      (`key`)
//!       ── signature ► is it of that key?                   (`signature`)
//!       ── claims ───► whose is it, until when, for whom    (`claims`)
//!                  └─► which topics, by which right         (`rights`)
//! ```
//!
//! - `algorithm`: the algorithms of signatures, by their names
//! - `rights`: topics, by patterns, for each right
//! - `claims`: what a token says, and what it must say
//! - `error`: what may be wrong with it
//! - `key`: what tokens are verified and signed by
//! - `verifier`: a token → what it grants, or what is wrong with it
//! - `signature`: signatures, made and verified
//!
//! No I/O and no clock: who calls passes the time, in seconds since 1970.

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
pub use rights::{Rights, Topics};
pub use thalweg_wire::Pattern;
pub use verifier::{Explained, TOKEN_BYTES_MAX, explain, parts, verify};
