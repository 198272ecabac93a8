use std::{borrow::Cow, time::Duration};

use http::{HeaderMap, header, request::Parts};
use thalweg_wire::{ErrorCode, Framing, StartAt, Topic, websocket::accept_key};

use super::head;
use crate::{
    config::{nearest, parse_duration},
    fanout::Policy,
    refusal::Refusal,
};

/// A request to subscribe, checked.
#[derive(Debug)]
pub(crate) struct Ask {
    /// How frames are framed.
    pub framing: Framing,
    /// The response head to begin with.
    pub head: Vec<u8>,
    /// Each topic and where to start.
    pub topics: Vec<(Topic, StartAt)>,
    /// What to do when it falls behind.
    pub policy: Policy,
    /// At least this long between two sends of a topic, in µs.
    pub interval_us: u64,
}

/// Reads a request to subscribe. `path_topic` is what follows `/v1/topics/`.
///
/// # Errors
/// A refusal that says what to change.
pub(crate) fn negotiate(request: &Parts, path_topic: Option<&str>) -> Result<Ask, Refusal> {
    let query = Query::parse(request.uri.query().unwrap_or_default())?;
    let transport = Transport::of(&request.headers, query.transport)?;
    let topics = topics(&query, path_topic, transport)?;
    let topics = with_starts(&query, topics, &request.headers)?;
    let (framing, head) = match transport {
        Transport::WebSocket => (Framing::WebSocket, websocket_head(&request.headers)?),
        Transport::Sse if topics.len() == 1 => (Framing::Sse, head::sse()),
        Transport::Sse => (Framing::SseMany, head::sse()),
        Transport::HttpStreaming => (Framing::Ndjson, head::http_streaming()),
    };
    Ok(Ask { framing, head, topics, policy: query.policy, interval_us: query.interval_us })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transport {
    WebSocket,
    Sse,
    HttpStreaming,
}

const TRANSPORTS: [&str; 3] = ["websocket", "sse", "http-streaming"];
const PARAMETERS: [&str; 5] = ["topic", "cursor", "policy", "interval", "transport"];
const POLICIES: [&str; 3] = ["skip", "latest", "close"];

/// A connection that ends leaves its timer behind until it is due.
const INTERVAL_MAX: Duration = Duration::from_secs(300);

#[derive(Default)]
struct Query<'a> {
    topics: Vec<Cow<'a, str>>,
    cursors: Vec<Cow<'a, str>>,
    policy: Policy,
    interval_us: u64,
    transport: Option<Transport>,
}

impl<'a> Query<'a> {
    /// Decoded as browsers encode it (`URLSearchParams` writes `/` as `%2F`).
    fn parse(text: &'a str) -> Result<Self, Refusal> {
        let mut query = Self::default();
        for (key, value) in form_urlencoded::parse(text.as_bytes()) {
            match &*key {
                "topic" => query.topics.push(value),
                "cursor" => query.cursors.push(value),
                "policy" => query.policy = policy(&value)?,
                "interval" => {
                    let interval = parse_duration(&value)
                        .map_err(|error| bad_parameter(format!("interval: {error}")))?;
                    if interval > INTERVAL_MAX {
                        return Err(bad_parameter("interval: at most 5m".into()));
                    }
                    query.interval_us = interval.as_micros() as u64;
                }
                "transport" => query.transport = Some(named_transport(&value)?),
                _ if key.starts_with('_') => {}
                _ => {
                    let nearest = nearest(&key, &PARAMETERS);
                    return Err(bad_parameter(format!("unknown parameter {key:?}{nearest}")));
                }
            }
        }
        Ok(query)
    }
}

impl Transport {
    fn of(headers: &HeaderMap, named: Option<Self>) -> Result<Self, Refusal> {
        let upgrades = has_token(headers, header::UPGRADE, "websocket");
        if named == Some(Self::WebSocket) && !upgrades {
            return Err(Refusal {
                code: ErrorCode::UpgradeRequired,
                message: "a WebSocket needs the headers of its handshake (RFC 6455 §4.1)".into(),
            });
        }
        if upgrades {
            return Ok(Self::WebSocket);
        }
        if let Some(named) = named {
            return Ok(named);
        }
        if has_token(headers, header::ACCEPT, "text/event-stream") {
            return Ok(Self::Sse);
        }
        if has_token(headers, header::ACCEPT, "application/x-ndjson") {
            return Ok(Self::HttpStreaming);
        }
        Err(Refusal {
            code: ErrorCode::NotAcceptable,
            message: "choose a transport: Upgrade: websocket, Accept: text/event-stream or \
                      Accept: application/x-ndjson (or ?transport=sse, ?transport=http-streaming)"
                .into(),
        })
    }
}

fn topics(
    query: &Query<'_>,
    path_topic: Option<&str>,
    transport: Transport,
) -> Result<Vec<Topic>, Refusal> {
    let names = match path_topic {
        Some(_) if !query.topics.is_empty() => {
            return Err(bad_parameter("name the topic in the path or as topic=, not both".into()));
        }
        Some(name) => vec![name],
        None => query.topics.iter().map(|name| &**name).collect(),
    };
    if names.is_empty() && transport != Transport::WebSocket {
        return Err(bad_parameter("name a topic: /v1/topics/cars or /v1/topics?topic=cars".into()));
    }
    if names.len() > 256 {
        return Err(Refusal {
            code: ErrorCode::TooManyTopics,
            message: format!("a connection has at most 256 topics: open another"),
        });
    }
    let mut topics: Vec<Topic> = Vec::with_capacity(names.len());
    for name in names {
        let topic: Topic = name.parse()?;
        if topics.contains(&topic) {
            return Err(bad_parameter(format!("topic {topic} is named twice")));
        }
        topics.push(topic);
    }
    Ok(topics)
}

fn with_starts(
    query: &Query<'_>,
    topics: Vec<Topic>,
    headers: &HeaderMap,
) -> Result<Vec<(Topic, StartAt)>, Refusal> {
    let last_event_id = match (topics.len(), headers.get("last-event-id")) {
        (1, Some(value)) => Some(value.to_str().unwrap_or_default()),
        _ => None,
    };
    let cursors = match last_event_id {
        Some(id) if !id.is_empty() => vec![id],
        _ => query.cursors.iter().map(|cursor| &**cursor).collect(),
    };
    let mut starts = Vec::with_capacity(cursors.len());
    for cursor in cursors {
        starts.push(
            cursor.parse::<StartAt>().map_err(|error| Refusal {
                code: ErrorCode::BadCursor,
                message: error.to_string(),
            })?,
        );
    }
    match starts.as_slice() {
        [] => Ok(topics.into_iter().map(|topic| (topic, StartAt::Latest)).collect()),
        [one] => Ok(topics.into_iter().map(|topic| (topic, *one)).collect()),
        each if each.len() == topics.len() => Ok(topics.into_iter().zip(starts).collect()),
        each => Err(Refusal {
            code: ErrorCode::BadCursor,
            message: format!("{} cursors for {} topics: one or all", each.len(), topics.len()),
        }),
    }
}

fn websocket_head(headers: &HeaderMap) -> Result<Vec<u8>, Refusal> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    if text(header::SEC_WEBSOCKET_VERSION) != Some("13") {
        return Err(Refusal {
            code: ErrorCode::UpgradeRequired,
            message: "only Sec-WebSocket-Version: 13 is spoken here (RFC 6455)".into(),
        });
    }
    if !has_token(headers, header::CONNECTION, "upgrade") {
        return Err(bad_parameter("a WebSocket handshake needs Connection: Upgrade".into()));
    }
    let accept = accept_key(text(header::SEC_WEBSOCKET_KEY).unwrap_or_default())
        .map_err(|error| bad_parameter(error.to_string()))?;
    Ok(head::websocket(&accept))
}

fn policy(value: &str) -> Result<Policy, Refusal> {
    match value {
        "skip" => Ok(Policy::Skip),
        "latest" => Ok(Policy::Latest),
        "close" => Ok(Policy::Close),
        _ => {
            let nearest = nearest(value, &POLICIES);
            Err(bad_parameter(format!("unknown policy {value:?}{nearest}")))
        }
    }
}

fn named_transport(value: &str) -> Result<Transport, Refusal> {
    match value {
        "websocket" => Ok(Transport::WebSocket),
        "sse" => Ok(Transport::Sse),
        "http-streaming" => Ok(Transport::HttpStreaming),
        _ => {
            let nearest = nearest(value, &TRANSPORTS);
            Err(bad_parameter(format!("unknown transport {value:?}{nearest}")))
        }
    }
}

/// Whether a list header has `token` (RFC 9110 §5.6.1), parameters aside.
fn has_token(headers: &HeaderMap, name: header::HeaderName, token: &str) -> bool {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values
        .flat_map(|value| value.split(','))
        .map(|item| item.split(';').next().unwrap_or_default().trim())
        .any(|item| item.eq_ignore_ascii_case(token))
}

fn bad_parameter(message: String) -> Refusal {
    Refusal { code: ErrorCode::BadParameter, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(uri: &str, headers: &[(&str, &str)]) -> Result<Ask, Refusal> {
        let mut request = http::Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let path_topic = parts.uri.path().strip_prefix("/v1/topics/").map(str::to_owned);
        negotiate(&parts, path_topic.as_deref())
    }

    const SSE: &[(&str, &str)] = &[("accept", "text/html, text/event-stream;q=0.9")];

    fn refused(uri: &str, headers: &[(&str, &str)], expected: ErrorCode, says: &str) {
        let refusal = ask(uri, headers).unwrap_err();
        assert_eq!(refusal.code, expected, "{uri}");
        assert!(refusal.message.contains(says), "{}", refusal.message);
    }

    #[test]
    fn the_transport_is_what_the_request_accepts() {
        assert_eq!(ask("/v1/topics/a", SSE).unwrap().framing, Framing::Sse);
        assert_eq!(ask("/v1/topics?topic=a&topic=b", SSE).unwrap().framing, Framing::SseMany);
        let ndjson = &[("accept", "application/x-ndjson")];
        assert_eq!(ask("/v1/topics/a", ndjson).unwrap().framing, Framing::Ndjson);
        let named = ask("/v1/topics/a?transport=http-streaming", &[]).unwrap();
        assert_eq!(named.framing, Framing::Ndjson);
        refused("/v1/topics/a", &[("accept", "*/*")], ErrorCode::NotAcceptable, "Accept:");
        refused("/v1/topics/a?transport=websocket", &[], ErrorCode::UpgradeRequired, "headers");
        refused("/v1/topics/a?transport=ssh", &[], ErrorCode::BadParameter, "\"sse\"");
    }

    #[test]
    fn each_topic_gets_its_cursor() {
        let one = ask("/v1/topics?topic=a&topic=b&cursor=earliest", SSE).unwrap();
        assert!(one.topics.iter().all(|(_, start)| *start == StartAt::Earliest));
        let each = ask("/v1/topics?topic=a&topic=b&cursor=earliest&cursor=latest", SSE).unwrap();
        assert_eq!(each.topics[1].1, StartAt::Latest);
        let resumed = [SSE[0], ("last-event-id", "ab.7")];
        let resumed = ask("/v1/topics/a?cursor=earliest", &resumed).unwrap();
        assert_eq!(resumed.topics[0].1, "ab.7".parse().unwrap());
        refused("/v1/topics/a?cursor=soon", SSE, ErrorCode::BadCursor, "earliest");
        let three = "/v1/topics?topic=a&cursor=latest&cursor=latest";
        refused(three, SSE, ErrorCode::BadCursor, "2 cursors for 1 topics");
    }

    #[test]
    fn what_is_wrong_is_said_with_the_remedy() {
        refused("/v1/topics/a?polcy=skip", SSE, ErrorCode::BadParameter, "\"policy\"");
        refused("/v1/topics/a?policy=lates", SSE, ErrorCode::BadParameter, "\"latest\"");
        refused("/v1/topics/a?interval=5", SSE, ErrorCode::BadParameter, "250ms");
        refused("/v1/topics/a?topic=b", SSE, ErrorCode::BadParameter, "not both");
        refused("/v1/topics?topic=a&topic=a", SSE, ErrorCode::BadParameter, "twice");
        refused("/v1/topics/a%20b", SSE, ErrorCode::BadTopic, "'%'");
        refused("/v1/topics", SSE, ErrorCode::BadParameter, "name a topic");
        assert!(ask("/v1/topics/a?_=123", SSE).is_ok());
    }

    #[test]
    fn a_query_may_be_encoded_as_browsers_encode_it() {
        let ask = ask("/v1/topics?topic=matches%2F8", SSE).unwrap();
        assert_eq!(ask.topics[0].0.as_str(), "matches/8");
    }
}
