//! Messages of a client after the handshake ("JSON Encoding").

use std::borrow::Cow;

use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;

use super::record;
use crate::limits::ID_BYTES_MAX;

/// A message of a client.
#[derive(Debug)]
pub enum HubMessage<'a> {
    /// Types 1 and 4.
    Invocation(Invocation<'a>),
    /// Type 5: the client wants no more items of the stream with this invocation id, a JSON string.
    Cancel(&'a RawValue),
    /// Type 6.
    Ping,
    /// Type 7: the client closes the connection.
    Close,
    /// A message that concerns nothing that the server offers: items of an upload that was refused, a completion, a
    /// stateful reconnect, or a type of a later version ("Upload streaming": the callee may ignore them).
    Ignored,
}

/// An invocation, or the invocation of a stream.
#[derive(Debug)]
pub struct Invocation<'a> {
    /// The id, a JSON string that the answer repeats. `None`: the client expects no answer ("Non-Blocking Invocations").
    pub id: Option<&'a RawValue>,
    /// Whether the invocation begins a stream (type 4).
    pub is_stream: bool,
    /// The name of the method.
    pub target: Cow<'a, str>,
    /// The arguments, unparsed.
    pub arguments: Vec<&'a RawValue>,
    /// Whether the client also uploads streams.
    pub has_uploads: bool,
}

/// A record that is not a message: a protocol error, after which the server closes the connection ("Errors").
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a hub message")]
pub struct HubError;

/// All members of all types. Members that a client may add, such as `headers`, are ignored ("Message Headers").
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MessageFields<'a> {
    r#type: u64,
    #[serde(borrow)]
    invocation_id: Option<&'a RawValue>,
    #[serde(borrow)]
    target: Option<Cow<'a, str>>,
    #[serde(borrow)]
    arguments: Option<Vec<&'a RawValue>>,
    stream_ids: Option<Vec<IgnoredAny>>,
}

impl<'a> HubMessage<'a> {
    /// Parses a record, with its separator.
    ///
    /// # Errors
    /// If it is unfinished or no JSON object, lacks a required member, or has a longer id than the server repeats
    /// ("Invocations": a callee may limit ids, and close the connection).
    pub fn parse(record: &'a str) -> Result<Self, HubError> {
        // serde reads a list's elements as an object's members in declared order.
        let json = record::content(record).filter(|json| json.trim_ascii_start().starts_with('{'));
        let fields = json.and_then(|json| serde_json::from_str::<MessageFields<'a>>(json).ok());
        let fields = fields.ok_or(HubError)?;
        let id = fields.invocation_id;
        let is_id = |id: &RawValue| {
            // An empty string is no id: clients reject it.
            (3..=ID_BYTES_MAX).contains(&id.get().len()) && id.get().starts_with('"')
        };
        if !id.is_none_or(is_id) {
            return Err(HubError);
        }
        Ok(match fields.r#type {
            1 | 4 => {
                let is_stream = fields.r#type == 4;
                if is_stream && id.is_none() {
                    return Err(HubError);
                }
                Self::Invocation(Invocation {
                    id,
                    is_stream,
                    target: fields.target.ok_or(HubError)?,
                    arguments: fields.arguments.ok_or(HubError)?,
                    has_uploads: fields.stream_ids.is_some_and(|ids| !ids.is_empty()),
                })
            }
            5 => Self::Cancel(id.ok_or(HubError)?),
            6 => Self::Ping,
            7 => Self::Close,
            _ => Self::Ignored,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> String {
        match HubMessage::parse(&format!("{json}\u{1e}")) {
            Ok(HubMessage::Invocation(Invocation {
                id,
                is_stream,
                target,
                arguments,
                has_uploads,
            })) => {
                let id = id.map_or("none", RawValue::get);
                let arguments: Vec<&str> = arguments.iter().map(|raw| raw.get()).collect();
                let kind = if is_stream { "stream" } else { "invoke" };
                let uploads = if has_uploads { " with uploads" } else { "" };
                format!("{kind} {id} {target}({}){uploads}", arguments.join(";"))
            }
            Ok(HubMessage::Cancel(id)) => format!("cancel {}", id.get()),
            Ok(other) => format!("{other:?}"),
            Err(HubError) => "error".to_owned(),
        }
    }

    #[test]
    fn messages_of_the_official_client_are_understood() {
        let check = |json: &str, expected: &str| assert_eq!(parse(json), expected, "{json}");
        check(
            r#"{"arguments":["cars","latest"],"invocationId":"0","target":"Subscribe","type":4}"#,
            r#"stream "0" Subscribe("cars";"latest")"#,
        );
        check(r#"{"arguments":[{"a": 1}],"target":"T","type":1}"#, r#"invoke none T({"a": 1})"#);
        check(
            r#"{"target":"T","arguments":[],"streamIds":["1"],"invocationId":"2","type":1}"#,
            r#"invoke "2" T() with uploads"#,
        );
        check(r#"{"type":5,"invocationId":"7"}"#, r#"cancel "7""#);
        check(r#"{"type":6}"#, "Ping");
        check(r#"{"type":7,"error":"bye"}"#, "Close");
        check(r#"{"type":1,"headers":{"a":"b"},"target":"T","arguments":[]}"#, "invoke none T()");
    }

    #[test]
    fn messages_without_a_meaning_here_are_ignored() {
        for json in [
            r#"{"type":2,"invocationId":"1","item":5}"#,
            r#"{"type":3,"invocationId":"1","result":5}"#,
            r#"{"type":8,"sequenceId":5}"#,
            r#"{"type":9,"sequenceId":5}"#,
            r#"{"type":99,"arguments":[]}"#,
        ] {
            assert_eq!(parse(json), "Ignored", "{json}");
        }
    }

    #[test]
    fn records_that_break_the_protocol_are_errors() {
        let long = format!(r#"{{"type":5,"invocationId":"{}"}}"#, "1".repeat(ID_BYTES_MAX));
        for json in [
            "",
            "[1]",
            "{}",
            r#"{"type":"1"}"#,
            r#"{"type":-1}"#,
            r#"{"type":1,"arguments":[]}"#,
            r#"{"type":1,"target":"T"}"#,
            r#"{"type":4,"target":"T","arguments":[]}"#,
            r#"{"type":5}"#,
            r#"{"type":5,"invocationId":""}"#,
            r#"{"type":5,"invocationId":100}"#,
            r#"{"type":6,"type":6}"#,
            &long,
        ] {
            assert_eq!(parse(json), "error", "{json}");
        }
        assert!(HubMessage::parse(r#"{"type":6}"#).is_err(), "the record may continue");
    }
}
