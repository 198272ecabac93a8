//! Requests to JetStream's API. Configurations are JSON as the server sends it, so that an update keeps fields that this
//! release does not know.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use async_nats::{HeaderMap, Message, StatusCode};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{
    message,
    requests::{Requests, Unanswered},
};

/// The pause between two attempts while JetStream does not answer.
pub(crate) const RETRY_PAUSE: Duration = Duration::from_millis(250);

/// The time after which a new leader knows all messages that were stored before it led.
const LEADER_SETTLED: Duration = Duration::from_secs(2);

pub(crate) mod code {
    /// Too few servers are up or have room.
    pub(crate) const NO_PEERS: u64 = 10005;
    pub(crate) const CLUSTER_NOT_AVAILABLE: u64 = 10008;
    /// The server that got the request is no longer the leader.
    pub(crate) const CLUSTER_NOT_LEADER: u64 = 10009;
    pub(crate) const NO_MESSAGE_FOUND: u64 = 10037;
    pub(crate) const STREAM_NAME_IN_USE: u64 = 10058;
    pub(crate) const STREAM_NOT_FOUND: u64 = 10059;
    pub(crate) const SUBJECTS_OVERLAP: u64 = 10065;
    /// The last message of the subject is not the expected one.
    pub(crate) const WRONG_LAST_SEQUENCE: u64 = 10071;
    pub(crate) const STREAM_OFFLINE: u64 = 10118;
    /// A message with the same id is being stored.
    pub(crate) const DUPLICATE_IN_PROCESS: u64 = 10158;
    /// The same as [`WRONG_LAST_SEQUENCE`].
    pub(crate) const WRONG_LAST_SEQUENCE_CONSTANT: u64 = 10164;
    pub(crate) const TOO_MANY_REQUESTS: u64 = 10167;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ApiError {
    Unanswered(Unanswered),
    Refused { code: u64, description: String },
    Unreadable(String),
}

impl ApiError {
    /// Returns whether a retry may succeed soon.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Unanswered(Unanswered::TooLarge) | Self::Unreadable(_) => false,
            Self::Unanswered(_) => true,
            Self::Refused { code, .. } => matches!(
                *code,
                code::NO_PEERS
                    | code::CLUSTER_NOT_AVAILABLE
                    | code::CLUSTER_NOT_LEADER
                    | code::STREAM_OFFLINE
                    | code::TOO_MANY_REQUESTS
            ),
        }
    }

    pub(crate) fn is_not_found(&self) -> bool {
        self.has_code(code::STREAM_NOT_FOUND)
    }

    pub(crate) fn has_code(&self, wanted: u64) -> bool {
        matches!(self, Self::Refused { code, .. } if *code == wanted)
    }
}

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unanswered(Unanswered::NotSent) => f.write_str("there is no connection"),
            Self::Unanswered(Unanswered::NoResponders) => {
                f.write_str("JetStream does not answer: enable it, and check that it has a leader")
            }
            Self::Unanswered(Unanswered::Lost) => f.write_str("the connection was lost"),
            Self::Unanswered(Unanswered::Timeout) => f.write_str("no answer within the timeout"),
            Self::Unanswered(Unanswered::TooLarge) => f.write_str("the request is too large"),
            Self::Refused { code, description } => write!(f, "{description} ({code})"),
            Self::Unreadable(why) => write!(f, "the answer cannot be read: {why}"),
        }
    }
}

/// A stream's configuration and state, as JetStream reports them.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct StreamInfo {
    pub(crate) config: Value,
    #[serde(deserialize_with = "time")]
    pub(crate) created: SystemTime,
    pub(crate) state: SequenceRange,
    /// The time of the report, by the leader's clock.
    #[serde(default, rename = "ts", deserialize_with = "optional_time")]
    pub(crate) reported: Option<SystemTime>,
    #[serde(default)]
    pub(crate) cluster: Cluster,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub(crate) struct Cluster {
    /// Since when the stream has had its leader, by the leader's clock.
    #[serde(default, deserialize_with = "optional_time")]
    leader_since: Option<SystemTime>,
}

impl StreamInfo {
    pub(crate) fn leader_age(&self) -> Option<Duration> {
        self.reported?.duration_since(self.cluster.leader_since?).ok()
    }

    /// Returns whether the stream may have a message that this report lacks: a leader that was elected just now may not
    /// know all stored messages yet.
    pub(crate) fn may_lack(&self, sequence: u64) -> bool {
        let is_new = self.leader_age().is_some_and(|age| age < LEADER_SETTLED);
        is_new && sequence > self.state.last_seq
    }
}

#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) struct SequenceRange {
    /// 0 if the stream has never had a message.
    pub(crate) first_seq: u64,
    pub(crate) last_seq: u64,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct ConsumerInfo {
    pub(crate) delivered: Delivered,
    pub(crate) num_pending: u64,
}

#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) struct Delivered {
    pub(crate) stream_seq: u64,
}

/// An answer whose result is not used.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) struct Done {}

fn time<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<SystemTime, D::Error> {
    let text = String::deserialize(deserializer)?;
    humantime::parse_rfc3339(&text).map_err(serde::de::Error::custom)
}

fn optional_time<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SystemTime>, D::Error> {
    time(deserializer).map(Some)
}

/// Parses an answer: an object with the member `error`, or the result.
fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    #[derive(Deserialize)]
    struct ErrorAnswer {
        error: Option<Description>,
    }
    #[derive(Deserialize)]
    struct Description {
        #[serde(default)]
        err_code: u64,
        #[serde(default)]
        description: String,
    }
    let unreadable = |error: serde_json::Error| ApiError::Unreadable(error.to_string());
    let failed: ErrorAnswer = serde_json::from_slice(body).map_err(unreadable)?;
    if let Some(Description { err_code, description }) = failed.error {
        return Err(ApiError::Refused { code: err_code, description });
    }
    serde_json::from_slice(body).map_err(unreadable)
}

#[derive(Debug, Clone)]
pub(crate) struct Api {
    requests: Requests,
    timeout: Duration,
}

impl Api {
    pub(crate) fn new(requests: Requests, timeout: Duration) -> Self {
        Self { requests, timeout }
    }

    pub(crate) fn with_timeout(&self, timeout: Duration) -> Self {
        Self { requests: self.requests.clone(), timeout }
    }

    pub(crate) async fn stream_info(&self, stream: &str) -> Result<StreamInfo, ApiError> {
        self.ask(format!("STREAM.INFO.{stream}"), None).await
    }

    /// Returns the subjects of a stream's messages from the subject with the index `offset` on, and how many there are in all.
    pub(crate) async fn subjects(
        &self,
        stream: &str,
        offset: u64,
    ) -> Result<(Vec<String>, u64), ApiError> {
        #[derive(Deserialize)]
        struct SubjectInfo {
            #[serde(default)]
            total: u64,
            state: SubjectState,
        }
        #[derive(Deserialize)]
        struct SubjectState {
            #[serde(default)]
            subjects: BTreeMap<String, u64>,
        }
        let body = json!({ "subjects_filter": ">", "offset": offset });
        let SubjectInfo { total, state } =
            self.ask(format!("STREAM.INFO.{stream}"), Some(&body)).await?;
        Ok((state.subjects.into_keys().collect(), total))
    }

    /// Asks the leader whether the last message of a subject ends its topic. `None` if the subject has no message.
    pub(crate) async fn is_ended(
        &self,
        stream: &str,
        subject: &str,
    ) -> Result<Option<bool>, ApiError> {
        #[derive(Deserialize)]
        struct FoundHeaders {
            message: RawHeaders,
        }
        #[derive(Deserialize)]
        struct RawHeaders {
            #[serde(default)]
            hdrs: String,
        }
        let body = json!({ "last_by_subj": subject });
        match self.ask::<FoundHeaders>(format!("STREAM.MSG.GET.{stream}"), Some(&body)).await {
            Ok(FoundHeaders { message }) => Ok(Some(message::is_end(&base64(&message.hdrs)?))),
            Err(error) if error.has_code(code::NO_MESSAGE_FOUND) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Creates a stream. Succeeds if the stream exists with the same configuration.
    pub(crate) async fn create_stream(
        &self,
        stream: &str,
        config: &Value,
    ) -> Result<StreamInfo, ApiError> {
        self.ask(format!("STREAM.CREATE.{stream}"), Some(config)).await
    }

    pub(crate) async fn update_stream(
        &self,
        stream: &str,
        config: &Value,
    ) -> Result<Done, ApiError> {
        self.ask(format!("STREAM.UPDATE.{stream}"), Some(config)).await
    }

    pub(crate) async fn create_consumer(
        &self,
        stream: &str,
        consumer: &str,
        config: &Value,
    ) -> Result<ConsumerInfo, ApiError> {
        let request = json!({ "stream_name": stream, "config": config, "action": "create" });
        self.ask(format!("CONSUMER.CREATE.{stream}.{consumer}"), Some(&request)).await
    }

    pub(crate) async fn delete_consumer(
        &self,
        stream: &str,
        consumer: &str,
    ) -> Result<Done, ApiError> {
        self.ask(format!("CONSUMER.DELETE.{stream}.{consumer}"), None).await
    }

    /// Returns a message from any replica; `None` if the replica does not have it, or not yet.
    pub(crate) async fn message(
        &self,
        stream: &str,
        sequence: u64,
    ) -> Result<Option<Message>, ApiError> {
        self.direct_get(stream, &json!({ "seq": sequence })).await
    }

    async fn direct_get(&self, stream: &str, body: &Value) -> Result<Option<Message>, ApiError> {
        let subject = format!("$JS.API.DIRECT.GET.{stream}");
        let body = body.to_string().into();
        let answer = self.requests.send(subject, HeaderMap::new(), body, self.timeout).await;
        let message = answer.map_err(ApiError::Unanswered)?;
        match message.status {
            None => Ok(Some(message)),
            Some(StatusCode::NOT_FOUND) => Ok(None),
            Some(status) => Err(ApiError::Unreadable(format!("status {status}"))),
        }
    }

    pub(crate) async fn has_after(&self, stream: &str, from: u64) -> Result<bool, ApiError> {
        let body = json!({ "seq": from, "next_by_subj": ">" });
        Ok(self.direct_get(stream, &body).await?.is_some())
    }

    /// Asks the leader for the first message of a subject from `from` on. Returns its sequence number, and whether it
    /// ends its topic; `None` if there is no such message.
    pub(crate) async fn next_message(
        &self,
        stream: &str,
        from: u64,
        subject: &str,
    ) -> Result<Option<(u64, bool)>, ApiError> {
        #[derive(Deserialize)]
        struct FoundHeaders {
            message: RawHeaders,
        }
        #[derive(Deserialize)]
        struct RawHeaders {
            seq: u64,
            /// The headers in base64; absent if there are none.
            #[serde(default)]
            hdrs: String,
        }
        let body = json!({ "seq": from, "next_by_subj": subject });
        match self.ask::<FoundHeaders>(format!("STREAM.MSG.GET.{stream}"), Some(&body)).await {
            Ok(FoundHeaders { message: RawHeaders { seq, hdrs } }) => {
                let headers = base64(&hdrs)?;
                Ok(Some((seq, message::is_end(&headers))))
            }
            Err(error) if error.has_code(code::NO_MESSAGE_FOUND) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn purge(
        &self,
        stream: &str,
        subject: &str,
        before: u64,
    ) -> Result<Done, ApiError> {
        let body = json!({ "filter": subject, "seq": before });
        self.ask(format!("STREAM.PURGE.{stream}"), Some(&body)).await
    }

    /// Asks the leader for the last message of a subject. Returns its sequence number and its body.
    pub(crate) async fn last_message(
        &self,
        stream: &str,
        subject: &str,
    ) -> Result<Option<(u64, Vec<u8>)>, ApiError> {
        #[derive(Deserialize)]
        struct FoundBody {
            message: RawBody,
        }
        #[derive(Deserialize)]
        struct RawBody {
            seq: u64,
            /// The body in base64; absent if it is empty.
            #[serde(default)]
            data: String,
        }
        let body = json!({ "last_by_subj": subject });
        match self.ask::<FoundBody>(format!("STREAM.MSG.GET.{stream}"), Some(&body)).await {
            Ok(FoundBody { message: RawBody { seq, data } }) => Ok(Some((seq, base64(&data)?))),
            Err(error) if error.has_code(code::NO_MESSAGE_FOUND) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        what: String,
        body: Option<&Value>,
    ) -> Result<T, ApiError> {
        let body = body.map_or_else(String::new, Value::to_string).into();
        let subject = format!("$JS.API.{what}");
        let answer = self.requests.send(subject, HeaderMap::new(), body, self.timeout).await;
        read(&answer.map_err(ApiError::Unanswered)?.payload)
    }
}

fn base64(text: &str) -> Result<Vec<u8>, ApiError> {
    let bytes = BASE64_STANDARD.decode(text);
    bytes.map_err(|error| ApiError::Unreadable(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn an_answer_is_a_result_or_an_error() {
        let info: StreamInfo = read(
            br#"{"type":"t","config":{"name":"a"},"created":"2023-11-14T22:13:20.123456789Z",
                "state":{"messages":1,"first_seq":3,"last_seq":3},"ts":"2023-11-14T22:13:23Z",
                "cluster":{"leader":"n1","leader_since":"2023-11-14T22:13:21.5Z"}}"#,
        )
        .unwrap();
        assert_eq!(info.leader_age(), Some(Duration::from_millis(1500)));
        assert_eq!(info.created, UNIX_EPOCH + Duration::from_nanos(1_700_000_000_123_456_789));
        assert_eq!((info.state.first_seq, info.state.last_seq), (3, 3));
        assert_eq!((info.may_lack(3), info.may_lack(4)), (false, true));
        let alone = StreamInfo { cluster: Cluster::default(), ..info };
        assert!(!alone.may_lack(4), "it has always led");

        let error = read::<StreamInfo>(
            br#"{"error":{"code":404,"err_code":10059,"description":"stream not found"}}"#,
        );
        let error = error.unwrap_err();
        assert!(error.is_not_found() && !error.is_transient());
        assert_eq!(error.to_string(), "stream not found (10059)");
        assert!(matches!(read::<StreamInfo>(b"{}"), Err(ApiError::Unreadable(_))));
        assert!(matches!(read::<Done>(b"nonsense"), Err(ApiError::Unreadable(_))));
    }
}
