//! Runs one of the two servers.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::options::{LimitError, Options};
use crate::{echo, server};

/// Runs the limit until the process is ended. Prints `listening on http://ADDRESS` when it accepts connections.
///
/// # Errors
/// Fails if it cannot listen, or the kernel refuses the epoll or the timer.
pub fn run(options: Options) -> Result<(), LimitError> {
    raise_open_files_limit();
    if options.is_echo { echo::run(&options) } else { server::run(options) }
}

/// Raises the limit of open files: 10,000 connections need as many. If the kernel refuses, fewer connections are accepted.
fn raise_open_files_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    let _ = setrlimit(Resource::Nofile, raised);
}
