//! Clocks and sockets are allowed in some modules only. All others have `now` and bytes as arguments, so that
//! tests run in virtual time.

use super::{
    finding::Finding,
    rust::{code, outline},
};
use crate::tree::Tree;

const PURE: [&str; 15] = [
    "crates/thalweg-client/src/backoff",
    "crates/thalweg-client/src/cursors",
    "crates/thalweg-client/src/document",
    "crates/thalweg-client/src/ending",
    "crates/thalweg-client/src/framing",
    "crates/thalweg-client/src/message",
    "crates/thalweg-client/src/target",
    "crates/thalweg-wire/src/",
    "crates/thalweg-core/src/",
    "crates/thalweg-server/src/source",
    "crates/thalweg-server/src/access",
    "crates/thalweg-server/src/pages",
    "crates/thalweg-lab/src/scenario",
    "crates/thalweg-lab/src/measure",
    "crates/thalweg-lab/src/report",
];

/// `std::net` itself is allowed, because its addresses are values.
const BANNED: [&[&str]; 15] = [
    &["Instant", "now"],
    &["SystemTime", "now"],
    &["clock_gettime"],
    &["thread", "sleep"],
    &["TcpStream"],
    &["TcpListener"],
    &["TcpSocket"],
    &["UdpSocket"],
    &["UnixStream"],
    &["UnixListener"],
    &["UnixDatagram"],
    &["ToSocketAddrs"],
    &["tokio", "net"],
    &["rustix", "net"],
    &["socket2"],
];

pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for (path, text) in tree.rust().filter(|(path, _)| is_pure(path)) {
        for used in outline(&code(text)).paths {
            if let Some(banned) = BANNED.into_iter().find(|banned| used.contains(banned)) {
                findings.push(Finding::new(
                    path,
                    used.line,
                    format!("{} in a pure module", banned.join("::")),
                    "let the caller pass in the time or the bytes",
                ));
            }
        }
    }
}

/// Returns whether a file is pure. `src/stream` stands for `src/stream.rs` and all of `src/stream/`.
fn is_pure(path: &str) -> bool {
    PURE.into_iter().any(|room| {
        let rest = path.strip_prefix(room);
        rest.is_some_and(|rest| room.ends_with('/') || rest == ".rs" || rest.starts_with('/'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, text: &str, expected: &[&str]) {
        let mut findings = Vec::new();
        super::check(&Tree::from_files(&[(path, text)]), &mut findings);
        let found: Vec<&str> = findings.iter().map(|finding| &*finding.what).collect();
        assert_eq!(found, expected, "{path}: {text}");
    }

    #[test]
    fn clocks_and_sockets_are_found_in_pure_modules() {
        let stream = "crates/thalweg-core/src/stream/log.rs";
        check(stream, "let now = Instant::now();", &["Instant::now in a pure module"]);
        check(stream, "use std::{io, net::TcpStream};", &["TcpStream in a pure module"]);
        check(stream, "use core::net::*; TcpListener::bind(a)", &["TcpListener in a pure module"]);
        check(
            stream,
            "use std::os::unix::net::{self}; net::UnixStream::pair()",
            &["UnixStream in a pure module"],
        );
        check(stream, "use tokio::net::UdpSocket;", &["UdpSocket in a pure module"]);
        check(stream, "use std::net::{IpAddr, SocketAddr};", &[]);
        check(stream, "rustix::time::clock_gettime(id)", &["clock_gettime in a pure module"]);
        check(stream, "fn f(now: Instant) {} // Instant::now", &[]);
        check(
            "crates/thalweg-wire/src/topic.rs",
            "tokio::net::x",
            &["tokio::net in a pure module"],
        );
    }

    #[test]
    fn other_modules_may_have_them() {
        check("crates/thalweg-server/src/transport.rs", "Instant::now()", &[]);
        check("crates/thalweg-server/src/streams.rs", "Instant::now()", &[]);
        check("crates/thalweg-wire/tests/it/main.rs", "Instant::now()", &[]);
    }
}
