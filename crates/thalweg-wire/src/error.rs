//! The codes of refused requests and commands.

macro_rules! codes {
    ($($(#[doc = $help:literal])+ $code:ident = $status:literal $name:literal,)+) => {
        /// A refusal's machine-readable code. Table: `docs/reference/errors.md`, "Errors".
        #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub enum ErrorCode {
            $($(#[doc = $help])+ #[serde(rename = $name)] $code,)+
        }

        impl ErrorCode {
            /// All codes, for tables with one entry per code.
            pub const ALL: &[Self] = &[$(Self::$code,)+];

            /// Returns the code's name on the wire.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$code => $name,)+
                }
            }

            /// Returns the HTTP status of the code.
            pub fn status(self) -> u16 {
                match self {
                    $(Self::$code => $status,)+
                }
            }
        }
    };
}

codes! {
    /// The text does not match the topic grammar.
    BadTopic = 400 "bad_topic",
    /// The cursor is neither a word nor a position.
    BadCursor = 400 "bad_cursor",
    /// A query parameter or header is unknown or malformed.
    BadParameter = 400 "bad_parameter",
    /// The event is not JSON.
    BadEvent = 400 "bad_event",
    /// The text is not a command, or the command is unknown.
    BadCommand = 400 "bad_command",
    /// The query has a syntax error, or the server cannot run it.
    BadQuery = 400 "bad_query",
    /// The request names more topics than allowed.
    TooManyTopics = 400 "too_many_topics",
    /// The key of an event is empty or too long, or has control characters.
    BadKey = 400 "bad_key",
    /// The token or ticket is missing or not valid.
    Unauthorized = 401 "unauthorized",
    /// The token does not give this right.
    Forbidden = 403 "forbidden",
    /// The request comes from a web page of an origin that is not allowed.
    BadOrigin = 403 "bad_origin",
    /// The path does not exist.
    NotFound = 404 "not_found",
    /// The topic does not exist, and the request cannot create it.
    NoSuchTopic = 404 "no_such_topic",
    /// The topic has no such key.
    NoSuchKey = 404 "no_such_key",
    /// The path exists, the method does not.
    MethodNotAllowed = 405 "method_not_allowed",
    /// The request selects no transport.
    NotAcceptable = 406 "not_acceptable",
    /// The request's head or body did not arrive in time.
    SlowRequest = 408 "slow_request",
    /// The connection already subscribes to the topic.
    AlreadySubscribed = 409 "already_subscribed",
    /// The connection does not subscribe to the topic.
    NotSubscribed = 409 "not_subscribed",
    /// The server itself publishes to the topic or reads it.
    InUse = 409 "in_use",
    /// The keyed topic has reached its limit of keys.
    TooManyKeys = 409 "too_many_keys",
    /// The newest event of the key does not meet the condition of the publish.
    ConditionFailed = 412 "condition_failed",
    /// The event is over the size limit.
    EventTooLarge = 413 "event_too_large",
    /// The body has a content coding, and the server reads none.
    UnsupportedEncoding = 415 "unsupported_encoding",
    /// The `Host` header names another server.
    BadHost = 421 "bad_host",
    /// An idempotency key was reused with another body.
    KeyReused = 422 "key_reused",
    /// The WebSocket version is not 13.
    UpgradeRequired = 426 "upgrade_required",
    /// An address, or a client behind a trusted proxy, has reached its limit of connections, or requests new fetched
    /// topics faster than allowed.
    TooManyFromAddress = 429 "too_many_from_address",
    /// The server, or one address, has reached its limit of queries.
    TooManyQueries = 429 "too_many_queries",
    /// A connection, a subject or an address exceeds a rate limit.
    TooManyRequests = 429 "too_many_requests",
    /// The request's head is over the size limit.
    HeadTooLarge = 431 "head_too_large",
    /// The request asks over HTTP/2 for a protocol other than WebSocket.
    UnsupportedProtocol = 501 "unsupported_protocol",
    /// The server has reached its limit of connections.
    TooManyConnections = 503 "too_many_connections",
    /// The server has reached its limit of requests in flight, or of bytes of unread answers.
    Busy = 503 "busy",
    /// The broker is unreachable, and the event is not stored.
    Unavailable = 503 "unavailable",
    /// The broker has not answered, and may have stored the event.
    Unknown = 503 "unknown",
    /// The store of tickets has not answered, and the ticket may have been used.
    TicketUnknown = 503 "ticket_unknown",
    /// The server shuts down.
    Draining = 503 "draining",
    /// The disk of the server is full, and the event is not stored.
    StorageFull = 507 "storage_full",
}
