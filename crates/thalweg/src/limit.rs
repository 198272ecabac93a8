//! `thalweg limit`: the lab's yardstick, in the same binary so that the lab
//! needs no other.

use std::net::SocketAddr;

use clap::Args;
use thalweg_limit::{Mode, Options, SourcePlan};

/// Options of `thalweg limit`.
#[derive(Args, Debug)]
pub(crate) struct LimitArgs {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// When to send: `coalesced` (once a turn and socket) or `frame` (once a frame).
    #[arg(long, default_value = "coalesced")]
    mode: Mode,
    /// Publish by itself: constant,topic=NAME,batch=N,interval_us=N,start_us=N, or
    /// with --echo dummy,topic=NAME,size=N,interval_us=N.
    #[arg(long)]
    source: Option<SourcePlan>,
    /// Speak TLS, with a certificate that nobody has reason to trust.
    #[arg(long)]
    tls: bool,
    /// Say back what WebSockets say, ahead of the source's events.
    #[arg(long)]
    echo: bool,
}

/// Runs until the process is ended.
pub(crate) fn run(args: LimitArgs) -> anyhow::Result<()> {
    let LimitArgs { listen, mode, source, tls, echo } = args;
    let options = Options { listen, mode, source, is_tls: tls, is_echo: echo };
    Ok(thalweg_limit::run(options)?)
}
