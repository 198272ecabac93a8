//! What a request or command can be refused with.

macro_rules! codes {
    ($($(#[doc = $help:literal])+ $code:ident = $status:literal,)+) => {
        /// A refusal's machine-readable name. Table: `docs/wire.md`, "Errors".
        #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum ErrorCode {
            $($(#[doc = $help])+ $code,)+
        }

        impl ErrorCode {
            /// All of them, for tables with a place for each.
            pub const ALL: &[Self] = &[$(Self::$code,)+];

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
    BadTopic = 400,
    /// Neither a word nor a position.
    BadCursor = 400,
    /// Unknown or malformed query parameter or header.
    BadParameter = 400,
    /// Not JSON.
    BadEvent = 400,
    /// Not a command, or an unknown one.
    BadCommand = 400,
    /// More topics than allowed.
    TooManyTopics = 400,
    /// No token or ticket, or not the right one.
    Unauthorized = 401,
    /// A web page of an origin that is not allowed.
    BadOrigin = 403,
    /// No such path.
    NotFound = 404,
    /// Nobody has published or subscribed to it.
    NoSuchTopic = 404,
    /// The path exists, the method does not.
    MethodNotAllowed = 405,
    /// No transport was asked for.
    NotAcceptable = 406,
    /// Head or body did not arrive in time.
    SlowRequest = 408,
    /// The connection has the topic already.
    AlreadySubscribed = 409,
    /// The connection does not have the topic.
    NotSubscribed = 409,
    /// Over the event size limit.
    EventTooLarge = 413,
    /// On loopback, a `Host` that is not its own.
    BadHost = 421,
    /// An idempotency key came with another body.
    KeyReused = 422,
    /// A WebSocket version other than 13.
    UpgradeRequired = 426,
    /// Connections from one address.
    TooManyFromAddress = 429,
    /// A request's head is over the limit.
    HeadTooLarge = 431,
    /// Connections in all.
    TooManyConnections = 503,
    /// Requests in flight, or tickets.
    Busy = 503,
    /// The server is shutting down.
    Draining = 503,
}
