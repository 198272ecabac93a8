//! Negotiated and configured values of a connection, as seen from the lab's end.

use super::http_response::Head;
use super::link::Link;
use crate::measure::Negotiated;
use rustix::net::sockopt;

/// Fields of an answer's head about its form or its sender. `Date` and the like differ every time.
const FIELDS: [&str; 4] =
    ["Sec-WebSocket-Extensions", "Content-Encoding", "Transfer-Encoding", "Server"];
const NONE: &str = "none";

/// Returns the values of a connection whose answer has this head. Over HTTP/2 the head is `None`: its fields
/// are compressed and not decoded.
pub(super) fn from_link(link: &Link, head: Option<&[u8]>) -> Negotiated {
    joined(head, link_facts(link))
}

/// Like [`from_link`], with values that were read from the connection earlier, because the kernel enlarges
/// buffers as they are used.
pub(super) fn joined(head: Option<&[u8]>, of_link: Vec<(String, String)>) -> Negotiated {
    let mut facts = match head {
        Some(head) => in_head(head),
        None => vec![("HTTP".to_owned(), "HTTP/2".to_owned())],
    };
    facts.extend(of_link);
    Negotiated { facts }
}

/// Returns facts about the connection itself.
pub(super) fn link_facts(link: &Link) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    let mut add = |name: &str, value: Option<String>| {
        facts.push((name.to_owned(), value.unwrap_or_else(|| NONE.to_owned())));
    };
    let (tls, inside) = link.tls();
    add("TLS", tls);
    add("ALPN", inside);
    let socket = link.socket();
    add("swarm TCP_NODELAY", sockopt::tcp_nodelay(socket).ok().map(|found| found.to_string()));
    let bytes = |size: rustix::io::Result<usize>| size.ok().map(|size| size.to_string());
    add("swarm SO_SNDBUF", bytes(sockopt::socket_send_buffer_size(socket)));
    add("swarm SO_RCVBUF", bytes(sockopt::socket_recv_buffer_size(socket)));
    add("swarm congestion control", sockopt::tcp_congestion(socket).ok());
    facts
}

fn in_head(head: &[u8]) -> Vec<(String, String)> {
    let fact = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let facts = |head: &Head<'_>| {
        let field = |name| fact(name, head.field(name).as_deref().unwrap_or(NONE));
        let line = [fact("HTTP", &head.version()), fact("status", &head.status.to_string())];
        line.into_iter().chain(FIELDS.map(field)).collect()
    };
    // The caller has read the head before.
    Head::read(head, facts).ok().flatten().map(|(facts, _)| facts).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(head: &str, expected: &str) {
        let shown: Vec<String> = in_head(head.as_bytes())
            .iter()
            .map(|(name, value)| format!("{name}: {value}"))
            .collect();
        assert_eq!(shown.join(", "), expected);
    }

    #[test]
    fn negotiated_headers_are_kept() {
        check(
            "HTTP/1.1 101 Switching Protocols\r\nsec-websocket-extensions: permessage-deflate\r\n\
             Date: now\r\nserver:it\r\n\r\n",
            "HTTP: HTTP/1.1, status: 101, Sec-WebSocket-Extensions: permessage-deflate, \
             Content-Encoding: none, Transfer-Encoding: none, Server: it",
        );
        check("", "");
    }
}
