//! Opens a transport: the fields of a request over HTTP/1.1, and whether the response opens it (RFC 6455 §4, RFC 9112, WHATWG
//! HTML §9.2). The same for every dialect.

use super::carrier::deflate::{self, Inflate};
use super::dialect::{Dialect, Field};
use super::http_response::{Body, Head, shown};
use crate::scenario::Transport;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};
use std::collections::HashMap;

/// RFC 6455 §1.3.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Returns the answer to a key (§4.2.2).
pub(super) fn accept(key: &str) -> String {
    STANDARD.encode(Sha1::new().chain_update(key).chain_update(GUID).finalize())
}

#[derive(Clone, Debug)]
pub(super) struct Handshake {
    transport: Transport,
    subprotocol: Option<String>,
    /// Whether requests offer compression: permessage-deflate or gzip.
    compresses: bool,
    /// A connection's key derives from this seed and the connection's number, so it need not be kept.
    seed: u64,
    /// Number of reconnects by connection, because each needs a new key.
    reconnects: HashMap<usize, u64>,
}

#[derive(Debug)]
pub(super) enum Opening {
    Websocket,
    /// A WebSocket whose messages may be compressed.
    DeflatedWebsocket(Inflate),
    /// Events, or lines.
    Stream(Body),
    /// Compressed events or lines.
    GzipStream(Body),
    /// The server refused the connection; the body says why.
    Refused(Body),
}

impl Handshake {
    /// Returns a handshake. It offers compression as browsers do, if the scenario or the dialect compresses.
    pub(super) fn new(transport: Transport, dialect: &dyn Dialect, compresses: bool) -> Handshake {
        let subprotocol = dialect.subprotocol().map(str::to_owned);
        let compresses = compresses || dialect.compresses();
        let (seed, reconnects) = (fastrand::u64(..), HashMap::new());
        Handshake { transport, subprotocol, compresses, seed, reconnects }
    }

    /// Returns the value of the `Accept` header.
    pub(super) fn accepted_type(&self) -> &'static str {
        match self.transport {
            Transport::Sse => "text/event-stream",
            Transport::HttpStreaming => "application/x-ndjson",
            _ => "*/*",
        }
    }

    pub(super) fn reconnect(&mut self, index: usize) {
        *self.reconnects.entry(index).or_default() += 1;
    }

    /// Returns the key of a connection: random, and different for each (RFC 6455 §4.1).
    fn key(&self, index: usize) -> String {
        let reconnects = self.reconnects.get(&index).copied().unwrap_or(0);
        let number = (reconnects << 32) + index as u64;
        let mut random = fastrand::Rng::with_seed(self.seed.wrapping_add(number));
        STANDARD.encode(random.u128(..).to_ne_bytes())
    }

    /// Returns the fields of a request to this host. Fields of the dialect replace those of the same name.
    pub(super) fn fields<'a>(&'a self, host: &'a str, dialect: &'a dyn Dialect) -> Vec<Field<'a>> {
        let mut fields = vec![("Host", host)];
        match self.transport {
            Transport::Websocket => fields.extend([
                ("Connection", "Upgrade"),
                ("Upgrade", "websocket"),
                ("Sec-WebSocket-Version", "13"),
            ]),
            _ => fields.push(("Accept", self.accepted_type())),
        }
        if self.compresses {
            fields.push(match self.transport {
                Transport::Websocket => ("Sec-WebSocket-Extensions", deflate::EXTENSION),
                _ => ("Accept-Encoding", deflate::GZIP),
            });
        }
        fields.extend(
            self.subprotocol.as_deref().map(|subprotocol| ("Sec-WebSocket-Protocol", subprotocol)),
        );
        let own = dialect.fields();
        fields.retain(|(name, _)| !own.iter().any(|(own, _)| own.eq_ignore_ascii_case(name)));
        fields.extend(own);
        fields
    }

    /// Appends the end of a connection's request: its own fields, and the empty line.
    pub(super) fn end_request(&self, index: usize, out: &mut Vec<u8>) {
        if self.transport == Transport::Websocket {
            out.extend_from_slice(b"Sec-WebSocket-Key: ");
            out.extend_from_slice(self.key(index).as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"\r\n");
    }

    /// Judges the response on the connection with this number. The error says, in one sentence, why the response cannot be used.
    pub(super) fn judge(&self, index: usize, head: &Head<'_>) -> Result<Opening, String> {
        let is_websocket = self.transport == Transport::Websocket;
        if (300..400).contains(&head.status)
            && let Some(target) = head.field("location")
        {
            // A query may hold secrets of the endpoint.
            let target = target.split(['?', '#']).next().unwrap_or_default();
            return Err(format!(
                "{}: it redirects to {}; measure that URL",
                head.status_line(),
                shown(target)
            ));
        }
        match head.status {
            101 if is_websocket => self.upgrade(index, head),
            101 => Err("it switches protocols (101), which was not asked for".to_owned()),
            200 if is_websocket => Err("it answers 200 OK and not 101 Switching Protocols: no \
                                        WebSocket is there; measure it with http:// or https://"
                .to_owned()),
            200 => self.stream(head),
            _ => Ok(Opening::Refused(Body::from_head(head).unwrap_or(Body::UntilEnd))),
        }
    }

    fn upgrade(&self, index: usize, head: &Head<'_>) -> Result<Opening, String> {
        let has = |name, token: &str| head.list(name).iter().any(|list| list == token);
        if !has("upgrade", "websocket") || !has("connection", "upgrade") {
            return Err("its 101 lacks Upgrade: websocket or Connection: Upgrade (RFC 6455 §4.1)"
                .to_owned());
        }
        let accept = accept(&self.key(index));
        if head.field("sec-websocket-accept").as_deref() != Some(&*accept) {
            return Err(
                "its Sec-WebSocket-Accept does not belong to the key (RFC 6455 §4.1)".to_owned()
            );
        }
        let opening = match (head.list("sec-websocket-extensions").as_slice(), self.compresses) {
            ([], _) => Opening::Websocket,
            ([only], true) => Opening::DeflatedWebsocket(Inflate::from_chosen(only)?),
            ([first, ..], _) => {
                return Err(format!("it wants the extension {first}, which was not offered"));
            }
        };
        let chosen = head.field("sec-websocket-protocol");
        match (self.subprotocol.as_deref(), chosen.as_deref()) {
            (None, Some(chosen)) => {
                Err(format!("it chose the subprotocol {chosen}, which was not offered"))
            }
            (Some(wanted), None) => Err(format!(
                "it does not speak the subprotocol {wanted}, where a browser would hang up; \
                 leave --subprotocol out"
            )),
            (Some(wanted), Some(chosen)) if wanted != chosen => {
                Err(format!("it chose the subprotocol {chosen} where {wanted} was offered"))
            }
            _ => Ok(opening),
        }
    }

    fn stream(&self, head: &Head<'_>) -> Result<Opening, String> {
        let codings = head.list("content-encoding");
        let mut codings = codings.iter().filter(|coding| *coding != "identity");
        let is_gzip = self.compresses && codings.clone().eq([deflate::GZIP]);
        if let Some(coding) = codings.next().filter(|_| !is_gzip) {
            return Err(format!("its answer is compressed ({coding}), which was not asked for"));
        }
        let body = Body::from_head(head).map_err(|error| format!("its answer has {error}"))?;
        let opening = if is_gzip { Opening::GzipStream(body) } else { Opening::Stream(body) };
        if self.transport != Transport::Sse {
            return Ok(opening);
        }
        let kind = head.field("content-type").unwrap_or("no Content-Type".into());
        let essence = kind.split(';').next().unwrap_or_default().trim();
        if !essence.eq_ignore_ascii_case("text/event-stream") {
            return Err(format!(
                "it answers with {} and not text/event-stream; if it sends an event a line, \
                 measure it with --transports http-streaming",
                shown(&kind)
            ));
        }
        Ok(opening)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handshake(transport: Transport, subprotocol: Option<&str>) -> Handshake {
        let subprotocol = subprotocol.map(str::to_owned);
        let reconnects = HashMap::new();
        Handshake { transport, subprotocol, compresses: false, seed: 7, reconnects }
    }

    #[test]
    fn every_connection_has_a_key_of_its_own() {
        assert_eq!(accept("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        let mut handshake = handshake(Transport::Websocket, None);
        let first = handshake.key(3);
        assert_eq!(handshake.key(3), first);
        assert_ne!(handshake.key(3), handshake.key(4));
        assert_eq!(STANDARD.decode(&first).unwrap().len(), 16);
        handshake.reconnect(3);
        assert_ne!(handshake.key(3), first, "nor that of the same one, when it comes again");
    }

    /// Judges a response: `A` stands for the answer to connection 3's key, and `compresses` in the head
    /// means that compression was offered.
    fn judge(transport: Transport, head: &str) -> Result<Opening, String> {
        let mut handshake = handshake(transport, head.contains("offered").then_some("p"));
        handshake.compresses = head.contains("compresses");
        let accept = format!("Accept: {}", accept(&handshake.key(3)));
        let bytes = format!("HTTP/1.1 {head}\r\n\r\n").replace("Accept: A", &accept);
        Head::read(bytes.as_bytes(), |head| handshake.judge(3, head)).unwrap().unwrap().0
    }

    #[test]
    fn a_websocket_response_must_match_the_request() {
        let check = |head: &str, expected: &str| {
            let found = judge(Transport::Websocket, head);
            let judgement =
                found.map(|opening| format!("{opening:?}")).unwrap_or_else(|refusal| refusal);
            assert!(judgement.contains(expected), "{head}: {judgement:?} should say {expected:?}");
        };
        const UP: &str = "101 X\r\nUpgrade: WebSocket\r\nConnection: keep-alive, upgrade\r\nSec-WebSocket-Accept: ";
        check(&format!("{UP}A"), "Websocket");
        check(&format!("{UP}B"), "does not belong to the key");
        check("101 X\r\nConnection: upgrade\r\nSec-WebSocket-Accept: A", "lacks Upgrade");
        check(&format!("{UP}A\r\nSec-WebSocket-Extensions: permessage-deflate"), "not offered");
        check(&format!("{UP}A\r\nSec-WebSocket-Protocol: q"), "which was not offered");
        check(&format!("{UP}A\r\nX: offered"), "does not speak the subprotocol p");
        check(&format!("{UP}A\r\nX: offered\r\nSec-WebSocket-Protocol: p"), "Websocket");
        check(&format!("{UP}A\r\nX: offered\r\nSec-WebSocket-Protocol: q"), "where p was offered");
        const DEFLATE: &str = "\r\nX: compresses\r\nSec-WebSocket-Extensions: permessage-deflate";
        let no_context = format!("{UP}A{DEFLATE}; server_no_context_takeover");
        check(&no_context, "DeflatedWebsocket(Alone)");
        check(&format!("{UP}A{DEFLATE}"), "DeflatedWebsocket(InContext");
        check(&format!("{no_context}, permessage-deflate"), "not offered");
        check("200 OK", "no WebSocket is there");
        check("302 Found\r\nLocation: wss://h/x?k=v", "302 Found: it redirects to wss://h/x;");
        check("503 No\r\nContent-Length: 3", "Refused(Length(3))");
    }

    #[test]
    fn a_stream_must_be_one() {
        let check = |transport, head: &str, expected: &str| {
            let judgement = judge(transport, head)
                .map(|judge| format!("{judge:?}"))
                .unwrap_or_else(|judge| judge);
            assert!(judgement.contains(expected), "{head}: {judgement:?} should say {expected:?}");
        };
        const SSE: &str = "200 OK\r\nContent-Type: text/Event-Stream; charset=utf-8";
        check(Transport::Sse, SSE, "Stream(UntilEnd)");
        check(Transport::Sse, &format!("{SSE}\r\nTransfer-Encoding: Chunked"), "Stream(Chunked");
        check(Transport::Sse, "200 OK\r\nContent-Type: text/html", "--transports http-streaming");
        check(Transport::Sse, "200 OK", "no Content-Type");
        check(Transport::HttpStreaming, "200 OK\r\nContent-Length: 7, 7", "Stream(Length(7))");
        check(Transport::HttpStreaming, "200 OK\r\nContent-Length: 7, 8", "7, 8");
        check(Transport::HttpStreaming, "200 OK\r\nContent-Length: +7", "+7");
        check(Transport::HttpStreaming, "200 OK\r\nTransfer-Encoding: gzip, chunked", "gzip");
        check(Transport::HttpStreaming, "200 OK\r\nContent-Encoding: br", "compressed (br)");
        let gzip = "200 OK\r\nX: compresses\r\nContent-Encoding: gzip";
        check(Transport::HttpStreaming, gzip, "GzipStream(UntilEnd)");
        check(Transport::HttpStreaming, &gzip.replace("compresses", ""), "compressed (gzip)");
        check(Transport::HttpStreaming, &format!("{gzip}, br"), "compressed (gzip)");
        check(Transport::HttpStreaming, "204 No Content", "Refused");
        check(Transport::HttpStreaming, "101 X", "not asked for");
    }
}
