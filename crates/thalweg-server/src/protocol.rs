//! Protocols between clients and the server. A protocol is a file here, and a mount in [`mounts`] unless it is
//! Thalweg's own, whose paths begin with `/v1`.
//!
//! ```text
//! contract   what a protocol does for a connection, and for a request that opens one
//! command    commands and replies, independent of the protocol
//! session    connections whose clients send, or also receive, in separate requests
//! thalweg    Thalweg's own protocol
//! signalr    SignalR's hub protocol
//! echo       sends messages back, for conformance tests
//! ```

mod command;
mod contract;
mod echo;
mod session;
pub(crate) mod signalr;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod thalweg;

pub(crate) use command::{Command, Reply, Request};
pub(crate) use contract::{
    Accepted, Heartbeat, Inbound, Message, Messages, Mount, Opening, Protocol,
};
pub(crate) use session::{
    SessionAction, SessionPlace, SessionRequest, Sessions, in_use, unknown as unknown_session,
};

use crate::config::Config;

/// Returns the protocols besides Thalweg's own, each with the path of its connections. A request there passes the same
/// checks as one to `/v1`: host, origin, token or ticket, limits of connections and rates.
pub(crate) fn mounts(config: &Config) -> Vec<Mount> {
    let echo = config.echo_path.iter().map(|path| Mount {
        path: path.clone(),
        accept: echo::accept,
        token_parameter: None,
    });
    let hubs = config.signalr_paths.iter().map(|path| Mount {
        path: path.clone(),
        accept: signalr::accept,
        token_parameter: Some(signalr::TOKEN_PARAMETER),
    });
    echo.chain(hubs).collect()
}
