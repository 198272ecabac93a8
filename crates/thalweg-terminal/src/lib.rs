//! Parts that the command lines of `thalweg` and `thalweg-lab` share.
//!
//! - `print`: output that never panics and never controls the terminal
//! - `completions`: files for shells and for `man`

mod completions;
mod print;

pub use completions::{CompletionsArgs, ManArgs, print_completions, write_man_pages};
pub use print::{print, printable, say};
