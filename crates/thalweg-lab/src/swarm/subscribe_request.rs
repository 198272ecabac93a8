//! What subscribers ask with: the first time, and, where an answer has an end,
//! again at their cursors.

use super::carrier::http2;
use super::cursors::Cursors;
use crate::scenario::{Settings, Transport};
use crate::subject::dialect::Subscription;
use std::net::SocketAddr;

/// The first poll is answered at once: it says where the topics are, and from
/// there on nothing is lost.
const FIRST_POLL: &str = "wait=0";
/// The others wait for something to say.
const POLL: &str = "wait=25s";

/// What all subscribers of a sample ask with.
#[derive(Debug)]
pub(super) struct SubscribeRequest {
    /// Path and query.
    first: String,
    /// The same of the requests that follow, but for the cursors.
    again: String,
    /// What follows them over HTTP/1.1.
    behind_target: String,
    accept: &'static str,
    host: String,
    scheme: &'static str,
}

impl SubscribeRequest {
    pub(super) fn new(settings: &Settings, host: SocketAddr) -> SubscribeRequest {
        let Settings { transport, topics, tls, .. } = *settings;
        let subscription = |query| Subscription { transport, host, path: None, topics, query };
        let (first, again) = match transport {
            Transport::LongPolling => (subscription(FIRST_POLL), subscription(POLL)),
            _ => (subscription(""), subscription("")),
        };
        SubscribeRequest {
            first: first.target(),
            again: again.target(),
            behind_target: again.behind_target(),
            accept: again.accept(),
            host: host.to_string(),
            scheme: if tls { "https" } else { "http" },
        }
    }

    /// Appends the first request, over HTTP/1.1.
    pub(super) fn first(&self, out: &mut Vec<u8>) {
        for part in ["GET ", &self.first, &self.behind_target] {
            out.extend_from_slice(part.as_bytes());
        }
    }

    /// The same on a stream of HTTP/2.
    pub(super) fn first_on(&self, stream: u32, out: &mut Vec<u8>) -> anyhow::Result<()> {
        self.on_stream(stream, self.first.as_bytes(), out)
    }

    /// Appends the request that follows, over HTTP/1.1.
    pub(super) fn again(&self, cursors: &Cursors, out: &mut Vec<u8>) {
        out.extend_from_slice(b"GET ");
        out.extend_from_slice(self.again.as_bytes());
        cursors.write(out);
        out.extend_from_slice(self.behind_target.as_bytes());
    }

    /// The same on a stream of HTTP/2.
    pub(super) fn again_on(
        &self,
        stream: u32,
        cursors: &Cursors,
        out: &mut Vec<u8>,
    ) -> anyhow::Result<()> {
        let mut target = self.again.clone().into_bytes();
        cursors.write(&mut target);
        self.on_stream(stream, &target, out)
    }

    fn on_stream(&self, stream: u32, target: &[u8], out: &mut Vec<u8>) -> anyhow::Result<()> {
        let fields: [(&str, &[u8]); 5] = [
            (":method", b"GET"),
            (":scheme", self.scheme.as_bytes()),
            (":authority", self.host.as_bytes()),
            (":path", target),
            ("accept", self.accept.as_bytes()),
        ];
        Ok(http2::request(out, stream, &fields)?)
    }
}
