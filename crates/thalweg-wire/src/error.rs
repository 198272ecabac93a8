//! What a request or command can be refused with.

/// A refusal's machine-readable name. Table: `docs/wire.md`, "Errors".
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// Not in the topic grammar.
    BadTopic,
    /// Neither a word nor a position.
    BadCursor,
    /// Unknown or malformed query parameter.
    BadParameter,
    /// Not JSON.
    BadEvent,
    /// Not a command, or an unknown one.
    BadCommand,
    /// More topics than allowed.
    TooManyTopics,
    /// No such path.
    NotFound,
    /// The path exists, the method does not.
    MethodNotAllowed,
    /// No transport was asked for.
    NotAcceptable,
    /// Over the event size limit.
    EventTooLarge,
    /// A WebSocket version other than 13.
    UpgradeRequired,
    /// The server is shutting down.
    Draining,
}

impl ErrorCode {
    /// The HTTP status that goes with it.
    pub fn status(self) -> u16 {
        match self {
            Self::BadTopic
            | Self::BadCursor
            | Self::BadParameter
            | Self::BadEvent
            | Self::BadCommand
            | Self::TooManyTopics => 400,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::NotAcceptable => 406,
            Self::EventTooLarge => 413,
            Self::UpgradeRequired => 426,
            Self::Draining => 503,
        }
    }
}
