//! What can go wrong: each one sentence with the remedy.

use std::time::Duration;

use serde::Deserialize;
use thalweg_wire::topic::TopicError;

use crate::Published;

/// Why a client could not do what it was asked. Each displays as one sentence for people,
/// with the remedy. [`Self::is_passing`] tells those where trying again may help from those
/// where something must be changed first.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not the URL of a server. From [`crate::Client::new`].
    #[error("{url:?} is no URL of a server: {why}")]
    Url {
        /// As given.
        url: String,
        /// What to do.
        why: String,
    },
    /// The URL names something that is not a topic. From [`crate::Client::new`].
    #[error(transparent)]
    Topic(#[from] TopicError),
    /// A subscription to nothing. From [`crate::Client::subscribe`].
    #[error("name at least one topic to subscribe to")]
    NoTopic,
    /// A token that cannot stand in a header. From [`crate::Client::new`].
    #[error("a token has visible ASCII characters only: look at its quotes and line breaks")]
    Token,
    /// Certificates that cannot be read or used, of [`crate::Options::cacert`] or of the
    /// machine. From [`crate::Client::new`].
    #[error("{0}")]
    Certificates(String),
    /// The server's certificate is not trusted. Name its authority in
    /// [`crate::Options::cacert`].
    #[error("{0}")]
    Untrusted(String),
    /// The server speaks no TLS, or another version of it, or nothing but TLS: the URL or
    /// the server's settings must be changed.
    #[error("{0}")]
    Tls(String),
    /// No connection, or one that ended before the answer had come: whether the request was
    /// carried out is then not known. Trying again may help. A subscription tries again by
    /// itself.
    #[error("{0}")]
    Connection(String),
    /// The server has refused the request; [`Refusal::code`] says why. Trying again may help
    /// for some statuses, such as 503 `busy`: see [`Self::is_passing`].
    #[error("{0}")]
    Refused(Box<Refusal>),
    /// The WebSocket was asked for and is not to be had here: its handshake was answered
    /// with this status, by somebody who is no Thalweg server. If no transport was asked for,
    /// a subscription takes HTTP streaming instead.
    #[error(
        "no WebSocket here (status {0}; is there a proxy between?): use another transport, such \
         as HTTP streaming"
    )]
    NoWebSocket(u16),
    /// Something answered that does not speak Thalweg's wire.
    #[error("{0}: is this the URL of a Thalweg server?")]
    Stranger(String),
    /// A publish was tried for as long as it is safe to repeat it (four minutes), and nobody
    /// knows whether it was appended. From [`crate::Client::publish`].
    #[error("not answered in {attempts} attempts, and it may or may not be published ({last})")]
    Unanswered {
        /// How often it was tried.
        attempts: u32,
        /// What the last attempt met.
        last: Box<Error>,
    },
    /// [`crate::Subscription::next`] after the end.
    #[error("the subscription has ended: make a new one")]
    Ended,
}

/// A server's refusal, or that of a proxy before it.
#[derive(Debug)]
pub struct Refusal {
    /// HTTP status; 0 if a WebSocket's command was refused.
    pub status: u16,
    /// Its name in `docs/wire.md`, "Errors", such as `no_such_topic`; `None` if no Thalweg
    /// server answered.
    pub code: Option<String>,
    /// One sentence for people, with the remedy.
    pub message: String,
    /// Of [`crate::Client::publish_lines`]: what had been appended before the line that was
    /// refused.
    pub published: Option<Published>,
    /// How long the response asks to wait before the next attempt (`Retry-After`), at most a day.
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
    /// Whether trying the same again may help.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Connection(_) => true,
            Self::Refused(refusal) => {
                matches!(refusal.status, 408 | 429 | 500 | 502..=504)
            }
            _ => false,
        }
    }

    /// How long the server, or a proxy before it, asks to wait before the next attempt.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused(refusal) => refusal.retry_after,
            _ => None,
        }
    }

    /// One clause that says why, without the remedy where it is tried again anyway.
    pub(crate) fn connection(what: &str, why: impl std::fmt::Display) -> Self {
        Self::Connection(format!("{what}: {why}"))
    }
}

impl Refusal {
    /// Reads the body of an answer that is no success.
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

    /// Reads a WebSocket's `error` object.
    pub(crate) fn of_command(error: &str) -> Self {
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
    fn what_may_pass_is_tried_again() {
        let check = |status, expected| {
            let error = Error::from(Refusal::read(status, b""));
            assert_eq!(error.is_passing(), expected, "{status}");
        };
        for status in [408, 429, 500, 502, 503, 504] {
            check(status, true);
        }
        for status in [301, 400, 401, 403, 404, 406, 409, 413, 421, 422, 426, 501] {
            check(status, false);
        }
        assert!(Error::Connection("reset".into()).is_passing());
        assert!(!Error::Untrusted("expired".into()).is_passing());
    }
}
