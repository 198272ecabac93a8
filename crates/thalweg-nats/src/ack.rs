//! Answers of a stream to requests to store a message (publish acknowledgements).

use serde::Deserialize;

use crate::api::code;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ack {
    Stored {
        sequence: u64,
        /// Whether an earlier message with the same id was stored.
        is_duplicate: bool,
    },
    /// The message is not stored, and a retry may succeed soon.
    NotNow,
    /// A message with the same id is being stored; the outcome is open.
    InProcess,
    /// The message is not stored, because its subject has a newer one.
    Outdated,
    /// The message is not stored, and a retry does not help. Holds the reason, one sentence.
    Refused(String),
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
                _ => {
                    Self::Refused(format!("NATS rejected the message: {description} ({err_code})"))
                }
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
            let sentence = format!("NATS rejected the message: so ({refused})");
            assert_eq!(error(refused), Ack::Refused(sentence));
        }
        for unreadable in ["", "{}", "{\"seq\":0}", "+OK"] {
            assert_eq!(Ack::read(unreadable.as_bytes()), Ack::Unreadable, "{unreadable}");
        }
    }
}
