//! The client's errors: each one sentence with the remedy.

use std::time::Duration;

use serde::Deserialize;
use thalweg_wire::topic::TopicError;

use crate::Published;

/// The reason why a request failed. Each displays as one sentence with the remedy. [`Self::is_transient`] distinguishes
/// errors after which a retry may help from errors after which something must change first.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The text is not the URL of a server. From [`crate::Client::new`].
    #[error("{url:?} is not the URL of a server: {why}")]
    Url {
        /// The given URL.
        url: String,
        /// The remedy.
        why: String,
    },
    /// The path of the URL is not a topic. From [`crate::Client::new`].
    #[error(transparent)]
    Topic(#[from] TopicError),
    /// A subscription without topics. From [`crate::Client::subscribe`].
    #[error("name at least one topic to subscribe to")]
    NoTopic,
    /// The token has characters that a header cannot hold. From [`crate::Client::new`].
    #[error("a token has visible ASCII characters only: remove quotes and line breaks")]
    Token,
    /// The certificates of [`crate::Options::cacert`] or of the machine are unreadable or invalid. From [`crate::Client::new`].
    #[error("{0}")]
    Certificates(String),
    /// The server's certificate is not trusted. Name its authority in [`crate::Options::cacert`].
    #[error("{0}")]
    Untrusted(String),
    /// The server has no TLS, no common version of TLS, or only TLS: change the URL or the server's settings.
    #[error("{0}")]
    Tls(String),
    /// The connection failed, or ended before the answer; the server may have executed the request. A retry may help. A
    /// subscription retries by itself.
    #[error("{0}")]
    Connection(String),
    /// The server refused the request; [`Refusal::code`] has the reason. A retry may help for some statuses, such as
    /// 503 `busy`: see [`Self::is_transient`].
    #[error("{0}")]
    Refused(Box<Refusal>),
    /// The WebSocket handshake got this status from a server or proxy that is not Thalweg. A subscription without a
    /// chosen transport falls back to HTTP streaming instead.
    #[error(
        "the WebSocket handshake failed (status {0}; perhaps a proxy is in between): use another \
         transport, such as HTTP streaming"
    )]
    NoWebSocket(u16),
    /// The answer does not follow Thalweg's wire protocol.
    #[error("{0}: is this the URL of a Thalweg server?")]
    InvalidAnswer(String),
    /// The client retried a publish for as long as this is safe (four minutes), and does not know whether the server
    /// appended it. From [`crate::Client::publish`].
    #[error(
        "no answer in {attempts} attempts ({last}): the event may have been published, so read the topic before you publish it again"
    )]
    Unanswered {
        /// Number of attempts.
        attempts: u32,
        /// The error of the last attempt.
        last: Box<Error>,
    },
    /// [`crate::Subscription::next`] was called after the end.
    #[error("the subscription has ended: create a new one")]
    Ended,
}

/// A refusal of the server or of a proxy.
#[derive(Debug)]
pub struct Refusal {
    /// HTTP status; 0 for a command over a WebSocket.
    pub status: u16,
    /// The code in `docs/reference/errors.md`, "Errors", such as `no_such_topic`; `None` if the answer is not Thalweg's.
    pub code: Option<String>,
    /// One sentence with the remedy.
    pub message: String,
    /// Events of [`crate::Client::publish_lines`] that the server appended before it refused the others.
    pub published: Option<Published>,
    /// The wait that the response asks for before the next attempt (`Retry-After`), at most a day.
    pub retry_after: Option<Duration>,
}

#[derive(Deserialize)]
struct RefusalBody {
    error: RefusalFields,
    #[serde(default)]
    published: Option<Published>,
}

#[derive(Deserialize)]
struct RefusalFields {
    code: String,
    message: String,
}

impl Error {
    /// Returns whether a retry of the same request may help.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Connection(_) => true,
            Self::Refused(refusal) => {
                matches!(refusal.status, 408 | 429 | 500 | 502..=504)
            }
            _ => false,
        }
    }

    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused(refusal) => refusal.retry_after,
            _ => None,
        }
    }

    /// Returns a connection error with its reason, without a remedy: the client retries anyway.
    pub(crate) fn connection(what: &str, why: impl std::fmt::Display) -> Self {
        Self::Connection(format!("{what}: {why}"))
    }
}

impl Refusal {
    /// Parses the body of an unsuccessful response.
    pub(crate) fn read(status: u16, body: &[u8]) -> Self {
        match serde_json::from_slice::<RefusalBody>(body) {
            Ok(RefusalBody { error, published }) => {
                let (code, message) = (Some(error.code), error.message);
                Self { status, code, message, published, retry_after: None }
            }
            Err(_) => Self {
                status,
                code: None,
                message: "not a Thalweg server's answer".to_owned(),
                published: None,
                retry_after: None,
            },
        }
    }

    /// Parses a WebSocket's `error` object.
    pub(crate) fn from_command(error: &str) -> Self {
        let (code, message) = match serde_json::from_str::<RefusalFields>(error) {
            Ok(RefusalFields { code, message }) => (Some(code), message),
            Err(_) => (None, error.to_owned()),
        };
        Self { status: 0, code, message, published: None, retry_after: None }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)?;
        match (&self.code, self.status) {
            (Some(code), 0) => write!(f, " ({code})"),
            (Some(code), status) => write!(f, " ({status} {code})"),
            (None, status) => write!(f, " (status {status})"),
        }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(Box::new(refusal))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_keeps_the_servers_sentence() {
        let body = br#"{"error":{"code":"bad_event","message":"line 2: not JSON"},
            "published":{"topic":"a","position":"9f.1","first":1,"count":1}}"#;
        let refusal = Refusal::read(400, body);
        assert_eq!(refusal.to_string(), "line 2: not JSON (400 bad_event)");
        assert_eq!(refusal.published.map(|published| published.count), Some(1));
        let page = Refusal::read(502, b"<html>Bad Gateway");
        assert_eq!(page.to_string(), "not a Thalweg server's answer (status 502)");
    }

    #[test]
    fn transient_errors_are_retried() {
        let check = |status, expected| {
            let error = Error::from(Refusal::read(status, b""));
            assert_eq!(error.is_transient(), expected, "{status}");
        };
        for status in [408, 429, 500, 502, 503, 504] {
            check(status, true);
        }
        for status in [301, 400, 401, 403, 404, 406, 409, 413, 421, 422, 426, 501] {
            check(status, false);
        }
        assert!(Error::Connection("reset".into()).is_transient());
        assert!(!Error::Untrusted("expired".into()).is_transient());
    }
}
