//! What a token lets its holder do, and JSON Web Tokens (RFC 7519) that say so. Contract:
//! `docs/wire.md`, "Tokens".
//!
//! ```text
//! token ── header ──► key, by its id and its algorithm      (`key`)
//!       ── signature ► is it of that key?                   (`ring_provider`)
//!       ── claims ───► whose is it, until when, for whom    (`claims`)
//!                  └─► which topics, by which right         (`rights`)
//! ```
//!
//! - `rights`: topics, by patterns, for each right
//! - `claims`: what a token says, and what it must say
//! - `error`: what may be wrong with it
//! - `key`: what tokens are verified and signed by
//! - `verifier`: a token → what it grants, or what is wrong with it
//! - `ring_provider`: signatures
//!
//! No I/O and no clock: who calls passes the time, in seconds since 1970.

mod claims;
mod error;
mod key;
mod rights;
mod ring_provider;
mod verifier;

pub use claims::{Audience, CLAIM, Claims, Expectations, Granted};
pub use error::TokenError;
pub use key::{KEYS_MAX, Key, KeyError, Keys, SigningKey};
pub use rights::{Rights, Topics};
pub use thalweg_wire::Pattern;
pub use verifier::{TOKEN_BYTES_MAX, parts, verify};
