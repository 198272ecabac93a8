//! The options of a client, and of a subscription.

use std::{path::PathBuf, time::Duration};

use thalweg_wire::StartAt;

/// The options of a client's connections.
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
    /// The token that every request sends as `Authorization: Bearer`; visible ASCII characters only.
    pub token: Option<String>,
    /// Certificates (PEM) to trust besides those of the machine.
    pub cacert: Option<PathBuf>,
    /// Whether to trust any certificate: for experiments only.
    pub is_insecure: bool,
    /// The version of HTTP.
    pub http: Http,
    /// The server's heartbeat interval, by default 25 s. A subscription's connection that is silent for three intervals
    /// counts as dead, and the client reconnects.
    pub heartbeat: Duration,
}

/// The version of HTTP. A WebSocket always uses HTTP/1.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Http {
    /// Over TLS, HTTP/2 if both sides support it (ALPN), otherwise HTTP/1.1; without TLS HTTP/1.1.
    #[default]
    Negotiated,
    /// HTTP/1.1.
    Http1,
    /// HTTP/2, without TLS by prior knowledge (RFC 9113 §3.3).
    Http2,
}

/// The parameters of a subscription, for all of its topics: `docs/reference/subscribing.md`.
///
/// ```
/// use std::time::Duration;
/// use thalweg_client::{Policy, StartAt, Subscribe};
///
/// // All retained events, then at most four messages per second.
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
    /// The start. Later connections resume from the subscription's cursor.
    pub from: StartAt,
    /// The transport. `None` means WebSocket, or HTTP streaming if a WebSocket is refused or with [`Self::compress`].
    pub transport: Option<Transport>,
    /// Whether to ask for messages compressed with gzip. Only HTTP streaming and Server-Sent Events of one topic have
    /// them, from a server with `compression`.
    pub compress: bool,
    /// The policy when the subscription falls behind the history.
    pub policy: Policy,
    /// Minimum time between two sends of a topic; events in between are sent together. Zero sends at once. At most five minutes.
    pub interval: Duration,
    /// A query, to subscribe to its rows. [`crate::Client::explain`] returns its topic.
    pub query: Option<String>,
    /// WebSocket only: bytes that the server may send ahead of the events that [`crate::Subscription::next`] has
    /// returned and the caller has processed; at least 1 KiB. `None` leaves flow control to the socket.
    pub window: Option<u64>,
    /// Keyed topics only: the keys to receive. Empty with [`Self::prefix`] `None`: all keys. The server does not send other keys.
    pub keys: Vec<String>,
    /// Keyed topics only: also receive the keys with this prefix.
    pub prefix: Option<String>,
}

/// A transport from the server to a subscriber.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// RFC 6455.
    WebSocket,
    /// Server-sent events (WHATWG HTML §9.2).
    Sse,
    /// One line per message.
    HttpStreaming,
    /// One answer per poll.
    LongPolling,
    /// One script per message.
    ForeverFrame,
}

/// The policy for a subscriber that falls behind the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// Announce a gap and continue from the middle of the history.
    #[default]
    Skip,
    /// Announce a gap and continue with the newest batch.
    Latest,
    /// End the topic ([`crate::Update::Ended`]) instead of announcing a gap.
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
    /// All transports.
    pub const ALL: [Self; 5] =
        [Self::WebSocket, Self::Sse, Self::HttpStreaming, Self::LongPolling, Self::ForeverFrame];

    /// Returns the name in a query.
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
    /// Returns the name in a query.
    pub fn name(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::Latest => "latest",
            Self::Close => "close",
        }
    }
}
