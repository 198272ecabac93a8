//! What the machine can do at all.
