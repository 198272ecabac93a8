//! What a request or command can be refused with.

macro_rules! codes {
    ($($(#[doc = $help:literal])+ $code:ident = $status:literal $name:literal,)+) => {
        /// A refusal's machine-readable name. Table: `docs/wire.md`, "Errors".
        #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub enum ErrorCode {
            $($(#[doc = $help])+ #[serde(rename = $name)] $code,)+
        }

        impl ErrorCode {
            /// All of them, for tables with a place for each.
            pub const ALL: &[Self] = &[$(Self::$code,)+];

            /// Its name on the wire.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$code => $name,)+
                }
            }

            /// The HTTP status that goes with it.
            pub fn status(self) -> u16 {
                match self {
                    $(Self::$code => $status,)+
                }
            }
        }
    };
}

codes! {
    /// Not in the topic grammar.
    BadTopic = 400 "bad_topic",
    /// Neither a word nor a position.
    BadCursor = 400 "bad_cursor",
    /// Unknown or malformed query parameter or header.
    BadParameter = 400 "bad_parameter",
    /// Not JSON.
    BadEvent = 400 "bad_event",
    /// Not a command, or an unknown one.
    BadCommand = 400 "bad_command",
    /// Not a query, or none that can run.
    BadQuery = 400 "bad_query",
    /// More topics than allowed.
    TooManyTopics = 400 "too_many_topics",
    /// No token or ticket, or not the right one.
    Unauthorized = 401 "unauthorized",
    /// A token that does not give this right.
    Forbidden = 403 "forbidden",
    /// A web page of an origin that is not allowed.
    BadOrigin = 403 "bad_origin",
    /// No such path.
    NotFound = 404 "not_found",
    /// It is not there, to be read or to be subscribed to where that makes none.
    NoSuchTopic = 404 "no_such_topic",
    /// The path exists, the method does not.
    MethodNotAllowed = 405 "method_not_allowed",
    /// No transport was asked for.
    NotAcceptable = 406 "not_acceptable",
    /// Head or body did not arrive in time.
    SlowRequest = 408 "slow_request",
    /// The connection has the topic already.
    AlreadySubscribed = 409 "already_subscribed",
    /// The connection does not have the topic.
    NotSubscribed = 409 "not_subscribed",
    /// The server itself makes the topic's events, or reads them.
    InUse = 409 "in_use",
    /// Over the event size limit.
    EventTooLarge = 413 "event_too_large",
    /// A body in a content coding, which none is read in.
    UnsupportedEncoding = 415 "unsupported_encoding",
    /// A `Host` that is not its own.
    BadHost = 421 "bad_host",
    /// An idempotency key came with another body.
    KeyReused = 422 "key_reused",
    /// A WebSocket version other than 13.
    UpgradeRequired = 426 "upgrade_required",
    /// Connections from one address, or of one client through a trusted proxy; or fetched topics
    /// that it asks for first.
    TooManyFromAddress = 429 "too_many_from_address",
    /// Queries in all, or of one address.
    TooManyQueries = 429 "too_many_queries",
    /// Too often: of a connection, of a subject or from an address.
    TooManyRequests = 429 "too_many_requests",
    /// A request's head is over the limit.
    HeadTooLarge = 431 "head_too_large",
    /// Connections in all.
    TooManyConnections = 503 "too_many_connections",
    /// Requests in flight, or answers not read.
    Busy = 503 "busy",
    /// It was not stored: what stores it does not answer.
    Unavailable = 503 "unavailable",
    /// It may have been stored: what stores it has not answered.
    Unknown = 503 "unknown",
    /// The server is shutting down.
    Draining = 503 "draining",
}
