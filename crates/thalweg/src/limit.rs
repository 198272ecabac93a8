//! `thalweg limit`: the lab's yardstick, in the same binary so that the lab
//! needs no other.

use std::net::SocketAddr;

use clap::Args;
use thalweg_limit::{ConstantPlan, Mode, Options};

/// Options of `thalweg limit`.
#[derive(Args, Debug)]
pub(crate) struct LimitArgs {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// When to send: `coalesced` (once a turn and socket) or `frame` (once a frame).
    #[arg(long, default_value = "coalesced")]
    mode: Mode,
    /// Publish by itself: constant,topic=NAME,batch=N,interval_us=N,start_us=N.
    #[arg(long)]
    source: Option<ConstantPlan>,
}

/// Runs until the process is ended.
pub(crate) fn run(args: LimitArgs) -> anyhow::Result<()> {
    let LimitArgs { listen, mode, source } = args;
    Ok(thalweg_limit::run(Options { listen, mode, source })?)
}
