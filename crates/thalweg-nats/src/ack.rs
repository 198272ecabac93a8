//! What a stream answers to a message that is to be stored.

use serde::Deserialize;

use crate::api::code;

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ack {
    /// It is stored.
    Stored {
        sequence: u64,
        /// Whether it was before: the stream knows a message with its id.
        is_duplicate: bool,
    },
    /// It is not stored, and may be a little later.
    NotNow,
    /// One with the same id is being stored, and may be or not.
    InProcess,
    /// It is not stored: another message of its subject has come.
    Outdated,
    /// It is not stored, and will not be: one sentence.
    Refused(String),
    /// The answer cannot be read.
    Unreadable,
}

impl Ack {
    pub(crate) fn read(body: &[u8]) -> Self {
        #[derive(Deserialize)]
        struct Raw {
            #[serde(default)]
            seq: u64,
            #[serde(default)]
            duplicate: bool,
            error: Option<RawError>,
        }
        #[derive(Deserialize)]
        struct RawError {
            #[serde(default)]
            err_code: u64,
            #[serde(default)]
            description: String,
        }
        match serde_json::from_slice(body) {
            Ok(Raw { error: Some(RawError { err_code, description }), .. }) => match err_code {
                code::CLUSTER_NOT_AVAILABLE
                | code::CLUSTER_NOT_LEADER
                | code::STREAM_OFFLINE
                | code::TOO_MANY_REQUESTS => Self::NotNow,
                code::DUPLICATE_IN_PROCESS => Self::InProcess,
                code::WRONG_LAST_SEQUENCE | code::WRONG_LAST_SEQUENCE_CONSTANT => Self::Outdated,
                _ => Self::Refused(format!("NATS does not store it: {description} ({err_code})")),
            },
            Ok(Raw { seq: 0, .. }) | Err(_) => Self::Unreadable,
            Ok(Raw { seq, duplicate, .. }) => {
                Self::Stored { sequence: seq, is_duplicate: duplicate }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(err_code: u64) -> Ack {
        let error = serde_json::json!({ "code": 500, "err_code": err_code, "description": "so" });
        Ack::read(
            serde_json::json!({ "error": error, "stream": "s", "seq": 0 }).to_string().as_bytes(),
        )
    }

    #[test]
    fn answers_are_told_apart() {
        let stored = |sequence, is_duplicate| Ack::Stored { sequence, is_duplicate };
        assert_eq!(Ack::read(br#"{"stream":"s","seq":7}"#), stored(7, false));
        assert_eq!(Ack::read(br#"{"stream":"s","seq":7,"duplicate": true}"#), stored(7, true));
        assert_eq!(error(10158), Ack::InProcess);
        for not_now in [10008, 10009, 10118, 10167] {
            assert_eq!(error(not_now), Ack::NotNow);
        }
        assert_eq!((error(10071), error(10164)), (Ack::Outdated, Ack::Outdated));
        for refused in [10054, 10060, 10077, 10109, 0] {
            let sentence = format!("NATS does not store it: so ({refused})");
            assert_eq!(error(refused), Ack::Refused(sentence));
        }
        for unreadable in ["", "{}", "{\"seq\":0}", "+OK"] {
            assert_eq!(Ack::read(unreadable.as_bytes()), Ack::Unreadable, "{unreadable}");
        }
    }
}
