//! How an endpoint is asked, and whether its answer opens the transport.

use crate::scenario::{Endpoint, Transport};
use crate::swarm::http_response::{Body, Head, shown};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};

/// RFC 6455 §1.3.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// A random key (RFC 6455 §4.1).
pub(super) fn key() -> String {
    let random: [u8; 16] = fastrand::u128(..).to_ne_bytes();
    STANDARD.encode(random)
}

/// What a key has to be answered with (§4.2.2).
pub(super) fn accept(key: &str) -> String {
    STANDARD.encode(Sha1::new().chain_update(key).chain_update(GUID).finalize())
}

/// The request of one connection.
pub(super) fn request(endpoint: &Endpoint, key: &str) -> Vec<u8> {
    let url = &endpoint.url;
    let mut headers: Vec<(&str, &str)> = vec![
        ("Host", url.authority()),
        ("User-Agent", concat!("thalweg-bench/", env!("CARGO_PKG_VERSION"))),
    ];
    match endpoint.transport {
        Transport::Websocket => {
            headers.extend([
                ("Connection", "Upgrade"),
                ("Upgrade", "websocket"),
                ("Sec-WebSocket-Version", "13"),
                ("Sec-WebSocket-Key", key),
            ]);
            headers
                .extend(endpoint.subprotocol.as_deref().map(|it| ("Sec-WebSocket-Protocol", it)));
        }
        Transport::Sse => {
            headers.extend([("Accept", "text/event-stream"), ("Cache-Control", "no-cache")]);
        }
        _ => headers.push(("Accept", "*/*")),
    }
    // What was typed is sent instead.
    let is_typed =
        |name: &str| endpoint.headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
    headers.retain(|(name, _)| !is_typed(name));
    headers.extend(endpoint.headers.iter().map(|(name, value)| (&**name, &**value)));
    let mut request = format!("GET {} HTTP/1.1\r\n", url.target());
    for (name, value) in headers {
        request.extend([name, ": ", value, "\r\n"]);
    }
    request.push_str("\r\n");
    request.into_bytes()
}

/// What an answer has to be.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) transport: Transport,
    /// Empty over HTTP.
    pub(super) accept: String,
    pub(super) subprotocol: Option<String>,
}

/// What a head comes to.
#[derive(Debug)]
pub(super) enum Opening {
    Websocket,
    /// Events, or lines.
    Stream(Body),
    /// The endpoint says no; the body says why.
    Refused(Body),
}

impl Wanted {
    /// Judges an answer. The error says, in one sentence, why it cannot be used.
    pub(super) fn judge(&self, head: &Head<'_>) -> Result<Opening, String> {
        let is_websocket = self.transport == Transport::Websocket;
        if (300..400).contains(&head.status)
            && let Some(target) = head.field("location")
        {
            // A query may hold what the endpoint was told in confidence.
            let target = target.split(['?', '#']).next().unwrap_or_default();
            return Err(format!(
                "{}: it redirects to {}; measure that URL",
                head.status_line(),
                shown(target)
            ));
        }
        match head.status {
            101 if is_websocket => self.upgrade(head).map(|()| Opening::Websocket),
            101 => Err("it switches protocols (101), which was not asked for".to_owned()),
            200 if is_websocket => Err("it answers 200 OK and not 101 Switching Protocols: no \
                                        WebSocket is there; measure it with http:// or https://"
                .to_owned()),
            200 => self.stream(head),
            _ => Ok(Opening::Refused(Body::of(head).unwrap_or(Body::UntilEnd))),
        }
    }

    fn upgrade(&self, head: &Head<'_>) -> Result<(), String> {
        let has = |name, token: &str| head.list(name).iter().any(|it| it == token);
        if !has("upgrade", "websocket") || !has("connection", "upgrade") {
            return Err("its 101 lacks Upgrade: websocket or Connection: Upgrade (RFC 6455 §4.1)"
                .to_owned());
        }
        if head.field("sec-websocket-accept").as_deref() != Some(&*self.accept) {
            return Err(
                "its Sec-WebSocket-Accept does not belong to the key (RFC 6455 §4.1)".to_owned()
            );
        }
        if let Some(extension) = head.list("sec-websocket-extensions").first() {
            return Err(format!("it wants the extension {extension}, which was not offered"));
        }
        let chosen = head.field("sec-websocket-protocol");
        match (self.subprotocol.as_deref(), chosen.as_deref()) {
            (wanted, chosen) if wanted == chosen => Ok(()),
            (None, Some(chosen)) => {
                Err(format!("it chose the subprotocol {chosen}, which was not offered"))
            }
            (Some(wanted), None) => Err(format!(
                "it does not speak the subprotocol {wanted}, where a browser would hang up; \
                 leave --subprotocol out"
            )),
            (Some(wanted), Some(chosen)) => {
                Err(format!("it chose the subprotocol {chosen} where {wanted} was offered"))
            }
            (None, None) => Ok(()),
        }
    }

    fn stream(&self, head: &Head<'_>) -> Result<Opening, String> {
        let codings = head.list("content-encoding");
        if let Some(coding) = codings.iter().find(|coding| *coding != "identity") {
            return Err(format!("its answer is compressed ({coding}), which was not asked for"));
        }
        let body = Body::of(head).map_err(|error| format!("its answer has {error}"))?;
        if self.transport != Transport::Sse {
            return Ok(Opening::Stream(body));
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
        Ok(Opening::Stream(body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Typed;

    #[test]
    fn the_accept_of_the_rfcs_own_key() {
        assert_eq!(accept("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert_ne!(key(), key());
        assert_eq!(STANDARD.decode(key()).unwrap().len(), 16);
    }

    #[test]
    fn what_was_typed_is_sent() {
        let ask = |url: &str, headers: &[&str], subprotocol: Option<&str>| {
            let endpoint = Endpoint::read(&Typed {
                url: url.to_owned(),
                headers: headers.iter().map(|header| (*header).to_owned()).collect(),
                subprotocol: subprotocol.map(str::to_owned),
                ..Typed::default()
            });
            String::from_utf8(request(&endpoint.unwrap(), "KEY")).unwrap()
        };
        let socket = ask("ws://h:81/live?a=b", &["Cookie: c"], Some("p"));
        assert!(socket.starts_with("GET /live?a=b HTTP/1.1\r\nHost: h:81\r\n"), "{socket}");
        assert!(socket.contains("\r\nSec-WebSocket-Key: KEY\r\nSec-WebSocket-Protocol: p\r\n"));
        assert!(socket.ends_with("\r\nCookie: c\r\n\r\n"));
        let events = ask("http://h/", &["accept: a/b", "HOST: other"], None);
        assert!(!events.contains("text/event-stream") && !events.contains("Host: h"), "{events}");
        assert!(events.contains("\r\naccept: a/b\r\nHOST: other\r\n"));
    }

    fn judge(transport: Transport, head: &str) -> Result<Opening, String> {
        let subprotocol = head.contains("offered").then(|| "p".to_owned());
        let wanted = Wanted { transport, accept: "A".to_owned(), subprotocol };
        let bytes = format!("HTTP/1.1 {head}\r\n\r\n");
        Head::read(bytes.as_bytes(), |head| wanted.judge(head)).unwrap().unwrap().0
    }

    #[test]
    fn a_websocket_must_be_what_was_asked_for() {
        let check = |head: &str, expected: &str| {
            let found = judge(Transport::Websocket, head);
            let said = found.map(|opening| format!("{opening:?}")).unwrap_or_else(|said| said);
            assert!(said.contains(expected), "{head}: {said:?} should say {expected:?}");
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
        check("200 OK", "no WebSocket is there");
        check("302 Found\r\nLocation: wss://h/x?k=v", "302 Found: it redirects to wss://h/x;");
        check("503 No\r\nContent-Length: 3", "Refused(Length(3))");
    }

    #[test]
    fn a_stream_must_be_one() {
        let check = |transport, head: &str, expected: &str| {
            let said = judge(transport, head).map(|it| format!("{it:?}")).unwrap_or_else(|it| it);
            assert!(said.contains(expected), "{head}: {said:?} should say {expected:?}");
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
        check(Transport::HttpStreaming, "204 No Content", "Refused");
        check(Transport::HttpStreaming, "101 X", "not asked for");
    }
}
