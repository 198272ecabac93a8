//! The options of a client, and of a subscription.

use std::{path::PathBuf, time::Duration};

use thalweg_wire::StartAt;

/// How a client connects, for all that it does.
///
/// ```
/// use thalweg_client::{Http, Options};
///
/// let options = Options {
///     token: Some("secret".to_owned()),
///     http: Http::Http2,
///     ..Options::default()
/// };
/// # let _ = options;
/// ```
#[derive(Debug, Clone)]
pub struct Options {
    /// Presented as `Authorization: Bearer` with every request; visible ASCII characters
    /// only. `None` presents nothing.
    pub token: Option<String>,
    /// Certificates (PEM) to trust besides those of the machine.
    pub cacert: Option<PathBuf>,
    /// Whether to trust any certificate: for trying things out only.
    pub is_insecure: bool,
    /// Which version of HTTP to speak.
    pub http: Http,
    /// The server's heartbeat interval, 25 s by default there and here. A subscription's
    /// connection that was silent for three of them counts as dead, and is made anew.
    pub heartbeat: Duration,
}

/// Which version of HTTP to speak. A WebSocket is always HTTP/1.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Http {
    /// Over TLS HTTP/2 if both speak it (ALPN), otherwise HTTP/1.1; without TLS HTTP/1.1.
    #[default]
    Negotiated,
    /// HTTP/1.1.
    Http1,
    /// HTTP/2, without TLS by prior knowledge (RFC 9113 §3.3).
    Http2,
}

/// The terms of a subscription, for all of its topics: the parameters of `docs/wire.md`,
/// "Subscribing".
///
/// ```
/// use std::time::Duration;
/// use thalweg_client::{Policy, StartAt, Subscribe};
///
/// // Everything that is retained, then at most four messages a second.
/// let everything = Subscribe { from: StartAt::Earliest, ..Subscribe::default() };
/// let calm = Subscribe {
///     interval: Duration::from_millis(250),
///     policy: Policy::Latest,
///     ..Subscribe::default()
/// };
/// # let _ = (everything, calm);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Subscribe {
    /// Where to start. Later connections resume where the subscription is.
    pub from: StartAt,
    /// Which transport. `None` is WebSocket, or HTTP streaming where a WebSocket is refused.
    pub transport: Option<Transport>,
    /// What happens when the subscription falls behind the history.
    pub policy: Policy,
    /// The least time between two sends of a topic; events in between come together.
    /// Zero sends at once. At most five minutes.
    pub interval: Duration,
    /// A query whose rows are subscribed to, instead of a topic by its name; the topic is that which
    /// [`crate::Client::explain`] gives.
    pub query: Option<String>,
    /// WebSocket only: how many bytes the server may send ahead of what
    /// [`crate::Subscription::next`] has given and the caller has processed; at least 1 KiB.
    /// `None` leaves it to the socket.
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
    /// A gap is announced, and it goes on from the middle of the history.
    #[default]
    Skip,
    /// A gap is announced, and it goes on with the newest batch.
    Latest,
    /// The topic ends ([`crate::Update::Ended`]), because it cannot go on without a gap.
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
