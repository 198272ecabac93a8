//! `thalweg-lab limit`: the reference server of the lab. It is part of this program, so that the lab needs no other one for
//! it.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use thalweg_limit::{Mode, Options, SourcePlan};

/// Run the reference server of the lab: the smallest program that serves the same wire format.
#[derive(Args, Debug)]
pub(crate) struct LimitArgs {
    /// Listen on this address. Port 0 selects a free port.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Send once per event loop iteration and socket (coalesced), or once per frame (frame).
    #[arg(long, default_value = "coalesced")]
    mode: Mode,
    /// Generate events: constant,topic=NAME,batch=N,interval_us=N,start_us=N, or with --echo
    /// dummy,topic=NAME,size=N,interval_us=N.
    #[arg(long)]
    source: Option<SourcePlan>,
    /// Use TLS with a self-signed certificate.
    #[arg(long)]
    tls: bool,
    /// Send each WebSocket message back to its sender, before generated events.
    #[arg(long)]
    echo: bool,
    /// Busy-wait for this many nanoseconds after each send to a subscriber, to be slower by a known amount.
    #[arg(long, value_name = "NS", default_value_t = 0)]
    busy_wait_ns: u64,
}

/// Serves until the process ends.
pub(crate) fn run(args: LimitArgs) -> anyhow::Result<()> {
    let LimitArgs { listen, mode, source, tls, echo, busy_wait_ns } = args;
    let busy_wait = Duration::from_nanos(busy_wait_ns);
    let options = Options { listen, mode, source, is_tls: tls, is_echo: echo, busy_wait };
    Ok(thalweg_limit::run(options)?)
}
