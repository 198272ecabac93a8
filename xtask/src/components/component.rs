//! A crate or npm package.

use std::path::PathBuf;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Component {
    /// The type of a package URL: `cargo` or `npm`.
    pub(super) registry: &'static str,
    pub(super) name: String,
    pub(super) version: String,
    /// An SPDX expression.
    pub(super) licence: String,
    /// The sources, with the texts of the licences. `None` if this machine may lack them.
    pub(super) folder: Option<PathBuf>,
}
