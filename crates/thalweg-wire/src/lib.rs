//! The wire.

