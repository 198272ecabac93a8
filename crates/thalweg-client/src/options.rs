//! What a client and a subscription can be told.

use std::{path::PathBuf, time::Duration};

use thalweg_wire::StartAt;

/// How a client connects.
#[derive(Debug, Clone)]
pub struct Options {
    /// Presented as `Authorization: Bearer`.
    pub token: Option<String>,
    /// Certificates (PEM) to trust besides those of the machine.
    pub cacert: Option<PathBuf>,
    /// Whether to trust any certificate: for trying things out only.
    pub is_insecure: bool,
    /// Which version of HTTP to speak.
    pub http: Http,
    /// The server's heartbeat interval: after three without a word a connection
    /// counts as dead.
    pub heartbeat: Duration,
}

/// Which version of HTTP to speak. A WebSocket is always HTTP/1.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Http {
    /// Over TLS what both can (ALPN), without TLS HTTP/1.1.
    #[default]
    Negotiated,
    /// HTTP/1.1.
    Http1,
    /// HTTP/2, without TLS by prior knowledge (RFC 9113 §3.3).
    Http2,
}

/// What a subscription can be told: parameters of `docs/wire.md`, "Subscribing".
#[derive(Debug, Clone, Default)]
pub struct Subscribe {
    /// Where to start.
    pub from: StartAt,
    /// Which transport; `None` is WebSocket, or HTTP streaming where an upgrade is
    /// not to be had.
    pub transport: Option<Transport>,
    /// What happens when it falls behind the history.
    pub policy: Policy,
    /// Having everything, at least so long between two sends of a topic.
    pub interval: Duration,
    /// WebSocket only: bytes that may be under way and not taken from
    /// [`crate::Subscription::next`] yet.
    pub window: Option<u64>,
}

/// A way from the server to a subscriber.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// RFC 6455.
    WebSocket,
    /// Server-sent events (WHATWG HTML §9.2).
    Sse,
    /// One line a message.
    HttpStreaming,
    /// One answer a poll.
    LongPolling,
    /// One script a message.
    ForeverFrame,
}

/// What happens to a subscriber that falls behind the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// It goes on from the middle of the history.
    #[default]
    Skip,
    /// It goes on with the newest batch.
    Latest,
    /// It is closed, and comes back.
    Close,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            token: None,
            cacert: None,
            is_insecure: false,
            http: Http::default(),
            heartbeat: Duration::from_secs(25),
        }
    }
}

impl Transport {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::WebSocket, Self::Sse, Self::HttpStreaming, Self::LongPolling, Self::ForeverFrame];

    /// Its name in a query.
    pub fn name(self) -> &'static str {
        match self {
            Self::WebSocket => "websocket",
            Self::Sse => "sse",
            Self::HttpStreaming => "http-streaming",
            Self::LongPolling => "long-polling",
            Self::ForeverFrame => "forever-frame",
        }
    }
}

impl Policy {
    /// Its name in a query.
    pub fn name(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::Latest => "latest",
            Self::Close => "close",
        }
    }
}
