//! `thalweg limit`: the lab's yardstick, in the same binary so that the lab
//! needs no other.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use thalweg_limit::{Mode, Options, SourcePlan};

use crate::address::parse_address;

/// Options of `thalweg limit`.
#[derive(Args, Debug)]
pub(crate) struct LimitArgs {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080", value_parser = parse_address)]
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
    /// Spin so many nanoseconds after each send to a subscriber: a subject that is slower by
    /// a known amount.
    #[arg(long, value_name = "NS", default_value_t = 0)]
    busy_wait_ns: u64,
}

/// Runs until the process is ended.
pub(crate) fn run(args: LimitArgs) -> anyhow::Result<()> {
    let LimitArgs { listen, mode, source, tls, echo, busy_wait_ns } = args;
    let busy_wait = Duration::from_nanos(busy_wait_ns);
    let options = Options { listen, mode, source, is_tls: tls, is_echo: echo, busy_wait };
    Ok(thalweg_limit::run(options)?)
}
