//! Requests of subscribers: the first ones, and later ones from their cursors, after an answer or a connection has ended.

use super::carrier::{CarrierError, http2};
use super::dialect::{Dialect, Wanted};
use super::handshake::{Handshake, Opening};
use super::http_response::{Head, shown};
use super::resume_state::Positions;
use crate::measure::Answer;
use crate::scenario::{Settings, Transport};
use std::ops::Range;

/// The first poll is answered at once, with the positions of the topics; from there on no event is lost.
const FIRST_POLL: &str = "wait=0";
/// Later polls wait for events.
const POLL: &str = "wait=25s";
const DELTAS: &str = "deltas=patch";

#[derive(Debug)]
pub(super) struct Response {
    pub(super) head: Range<usize>,
    /// The opened transport, or why the response cannot be used.
    pub(super) opening: Result<Opening, String>,
    pub(super) answer: Answer,
}

/// The request that all subscribers of a sample make.
#[derive(Debug)]
pub(super) struct SubscribeRequest {
    /// Path and query, key by key.
    first: Vec<String>,
    /// The same for the requests that follow, without the cursors.
    again: Vec<String>,
    /// The method of requests over HTTP/1.1.
    method: String,
    /// The end of requests over HTTP/1.1, without each connection's own fields.
    behind_target: String,
    handshake: Handshake,
    host: String,
    scheme: &'static str,
}

impl SubscribeRequest {
    /// Returns the request of all subscribers to a server at `host` (address and port).
    pub(super) fn new(dialect: &dyn Dialect, settings: &Settings, host: String) -> Self {
        let Settings { transport, tls, keys, .. } = *settings;
        let (first, again) = match transport {
            Transport::LongPolling => (FIRST_POLL, POLL),
            _ => ("", ""),
        };
        let deltas = if settings.deltas { DELTAS } else { "" };
        let targets = |query: &str| {
            let query = [query, deltas].into_iter().filter(|found| !found.is_empty());
            let query = query.collect::<Vec<_>>().join("&");
            let wanted = |key| {
                let topics = settings.topics_of(key);
                dialect.target(&Wanted { transport, topics, query: &query })
            };
            (0..keys as usize).map(wanted).collect()
        };
        let wanted = Wanted { transport, topics: 0..1, query: "" };
        SubscribeRequest {
            first: targets(first),
            again: targets(again),
            scheme: if tls { "https" } else { "http" },
            ..SubscribeRequest::with_compression(dialect, &wanted, host, settings.compress)
        }
    }

    /// Returns the request of one subscriber, with compression only if the dialect offers it.
    pub(super) fn once(dialect: &dyn Dialect, wanted: &Wanted<'_>, host: String) -> Self {
        SubscribeRequest::with_compression(dialect, wanted, host, false)
    }

    fn with_compression(
        dialect: &dyn Dialect,
        wanted: &Wanted<'_>,
        host: String,
        compresses: bool,
    ) -> Self {
        let handshake = Handshake::new(wanted.transport, dialect, compresses);
        let host = dialect.authority().map_or(host, str::to_owned);
        let mut behind_target = " HTTP/1.1\r\n".to_owned();
        for (name, value) in handshake.fields(&host, dialect) {
            behind_target.extend([name, ": ", value, "\r\n"]);
        }
        let first = vec![dialect.target(wanted)];
        let again = first.clone();
        let method = dialect.method().to_owned();
        SubscribeRequest { first, again, method, behind_target, handshake, host, scheme: "http" }
    }

    /// Appends the first request of a connection, over HTTP/1.1.
    pub(super) fn first(&self, index: usize, out: &mut Vec<u8>) {
        self.over_http_1(index, target_of_key(&self.first, index), None, out);
    }

    /// Appends the first request on a stream of HTTP/2.
    pub(super) fn first_on(&self, stream: u32, out: &mut Vec<u8>) -> anyhow::Result<()> {
        self.on_stream(stream, self.first[0].as_bytes(), out)
    }

    /// Appends the request that follows, over HTTP/1.1.
    pub(super) fn again(&self, index: usize, cursors: &Positions, out: &mut Vec<u8>) {
        self.over_http_1(index, target_of_key(&self.again, index), Some(cursors), out);
    }

    /// Appends the request that follows, on a stream of HTTP/2.
    pub(super) fn again_on(
        &self,
        stream: u32,
        cursors: &Positions,
        out: &mut Vec<u8>,
    ) -> anyhow::Result<()> {
        let again = &self.again[0];
        let mut target = again.clone().into_bytes();
        cursors.write(&mut target, again.contains('?'));
        self.on_stream(stream, &target, out)
    }

    /// Judges the response at the beginning of a connection's bytes, after interim ones (RFC 9110 §15.2). While its head is incomplete,
    /// the error is the number of bytes consumed.
    pub(super) fn judge(
        &self,
        index: usize,
        bytes: &[u8],
    ) -> Result<Result<Response, usize>, CarrierError> {
        let mut begin = 0;
        loop {
            let read = Head::read(&bytes[begin..], |head| {
                (!head.is_interim()).then(|| (self.handshake.judge(index, head), answer(head)))
            })?;
            match read {
                None => return Ok(Err(begin)),
                Some((None, length)) => begin += length,
                Some((Some((opening, answer)), length)) => {
                    return Ok(Ok(Response { head: begin..begin + length, opening, answer }));
                }
            }
        }
    }

    /// Notes that a connection is lost and will send another request.
    pub(super) fn reconnect(&mut self, index: usize) {
        self.handshake.reconnect(index);
    }

    fn over_http_1(
        &self,
        index: usize,
        target: &str,
        cursors: Option<&Positions>,
        out: &mut Vec<u8>,
    ) {
        out.extend_from_slice(self.method.as_bytes());
        out.push(b' ');
        out.extend_from_slice(target.as_bytes());
        if let Some(cursors) = cursors {
            cursors.write(out, target.contains('?'));
        }
        out.extend_from_slice(self.behind_target.as_bytes());
        self.handshake.end_request(index, out);
    }

    fn on_stream(&self, stream: u32, target: &[u8], out: &mut Vec<u8>) -> anyhow::Result<()> {
        let fields: [(&str, &[u8]); 5] = [
            (":method", b"GET"),
            (":scheme", self.scheme.as_bytes()),
            (":authority", self.host.as_bytes()),
            (":path", target),
            ("accept", self.handshake.accepted_type().as_bytes()),
        ];
        Ok(http2::request(out, stream, &fields)?)
    }
}

/// Returns the target for a connection's key.
fn target_of_key(targets: &[String], index: usize) -> &str {
    &targets[index % targets.len()]
}

fn answer(head: &Head<'_>) -> Answer {
    let field = |name| head.field(name).map(|value| shown(&value));
    Answer {
        address: String::new(),
        status: head.status_line(),
        server: field("server"),
        content_type: field("content-type"),
        subprotocol: field("sec-websocket-protocol"),
        compression: field("sec-websocket-extensions").or_else(|| field("content-encoding")),
        is_chunked: head.list("transfer-encoding").iter().any(|coding| coding == "chunked"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Endpoint, Program, Typed};
    use crate::swarm::dialect;

    #[test]
    fn headers_are_sent_as_typed() {
        let ask = |url: &str, headers: &[&str], subprotocol: Option<&str>| {
            let endpoint = Endpoint::read(&Typed {
                url: url.to_owned(),
                headers: headers.iter().map(|header| (*header).to_owned()).collect(),
                subprotocol: subprotocol.map(str::to_owned),
                ..Typed::default()
            })
            .unwrap();
            let settings = Settings { transport: endpoint.transport, ..Settings::default() };
            let dialect = dialect::new(&Program::Url(Box::new(endpoint)), &settings);
            let mut request = Vec::new();
            SubscribeRequest::new(&*dialect, &settings, String::new()).first(0, &mut request);
            String::from_utf8(request).unwrap()
        };
        let socket = ask("ws://h:81/live?a=b", &["Cookie: c"], Some("p"));
        assert!(socket.starts_with("GET /live?a=b HTTP/1.1\r\nHost: h:81\r\n"), "{socket}");
        assert!(socket.contains("\r\nSec-WebSocket-Protocol: p\r\n"), "{socket}");
        assert!(socket.contains("\r\nCookie: c\r\nSec-WebSocket-Key: "), "{socket}");
        assert!(socket.ends_with("==\r\n\r\n"), "{socket}");
        let events = ask("http://h/", &["accept: a/b", "HOST: other"], None);
        assert!(!events.contains("*/*") && !events.contains("Host: h"), "{events}");
        assert!(events.ends_with("\r\naccept: a/b\r\nHOST: other\r\n\r\n"), "{events}");
    }
}
