use std::{io, net::SocketAddr};

use thalweg_wire::Topic;
use thiserror::Error;

/// The reason why a server does not start, or ended.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The server cannot listen on the address.
    #[error("cannot listen on {0}: {1}; {remedy}", remedy = listen_remedy(.0, .1, .2))]
    Listen(SocketAddr, io::Error, &'static str),
    /// The access settings are not valid, or the certificate for TLS or the folder of runs cannot be used.
    #[error("{0}")]
    Config(String),
    /// A source's settings are wrong.
    #[error("source {0}: {1}")]
    Source(Topic, String),
    /// A query cannot run.
    #[error("query {0}: {1}")]
    Query(Topic, String),
    /// The system refused a resource of a shard.
    #[error(
        "a thread of the server cannot start ({0}): raise the limits of open files and memory, or lower --shards"
    )]
    Shard(#[from] io::Error),
}

/// Returns the remedy for an address that the server cannot listen on. `flag` is the setting of the address.
fn listen_remedy(address: &SocketAddr, error: &io::Error, flag: &str) -> String {
    if error.kind() != io::ErrorKind::PermissionDenied {
        return format!("choose another address with {flag}");
    }
    format!(
        "a port below 1024, like {}, needs a capability: grant it to the program with \
         `sudo setcap cap_net_bind_service=+ep /path/to/thalweg` or, in a systemd unit, \
         `AmbientCapabilities=CAP_NET_BIND_SERVICE`; or choose another port with {flag}, \
         8443 for instance",
        address.port()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_privileged_port_is_refused_with_the_remedies() {
        let said = |kind: io::ErrorKind| {
            ServeError::Listen(([0, 0, 0, 0], 443).into(), kind.into(), "--listen").to_string()
        };
        let denied = said(io::ErrorKind::PermissionDenied);
        for words in ["443", "setcap", "AmbientCapabilities", "--listen"] {
            assert!(denied.contains(words), "{denied}");
        }
        let used = said(io::ErrorKind::AddrInUse);
        assert!(used.contains("--listen") && !used.contains("setcap"), "{used}");
    }
}
