use http::{HeaderMap, HeaderName, Version, header, request::Parts};
use thalweg_wire::{
    ErrorCode, Excerpt, Format, StartAt, Topic,
    websocket::{accept_key, deflate_offer},
};

use super::{
    Query, Transport,
    head::{self, Head},
    parameters::{self, bad},
};
use crate::{
    access::AccessPolicy,
    config::{Config, H2_INTERVAL_US},
    fanout::{ResponseMode, Terms},
    refusal::Refusal,
};

/// A request to subscribe, checked.
#[derive(Debug)]
pub(crate) struct SubscribeRequest {
    /// What frames are.
    pub(crate) format: Format,
    /// The response head to begin with.
    pub(crate) head: Head,
    /// Each topic and where to start.
    pub(crate) topics: Vec<(Topic, StartAt)>,
    /// What holds for all of them.
    pub(crate) terms: Terms,
    /// When the response ends by itself.
    pub(crate) mode: ResponseMode,
    /// How long a long poll waits, in µs.
    pub(crate) wait_us: u64,
    /// It is not a subscription: messages are sent back.
    pub(crate) echoes: bool,
    /// An EventSource returns by itself, as it does after each end of its stream.
    pub(crate) is_return: bool,
}

impl SubscribeRequest {
    /// A WebSocket that sends every message back: for conformance tests.
    ///
    /// # Errors
    /// When the handshake is not valid.
    pub(crate) fn echo(request: &Parts) -> Result<Self, Refusal> {
        Ok(Self {
            format: Format::WEBSOCKET,
            head: websocket(request, false)?.1,
            topics: Vec::new(),
            terms: Terms::default(),
            mode: ResponseMode::Endless,
            wait_us: 0,
            echoes: true,
            is_return: false,
        })
    }
}

/// A forever frame is loaded again after this many bytes, because browsers keep the whole
/// document.
const DOCUMENT_BYTES: u64 = 4 << 20;

/// The position that an EventSource has reached (WHATWG HTML §9.2.3).
const LAST_EVENT_ID: &str = "last-event-id";

/// How long a long poll waits unless it says otherwise, in µs: less than the 30 s after which
/// proxies time out.
const WAIT_US: u64 = 25_000_000;

/// Reads a request to subscribe. `path_topic` is what follows `/v1/topics/`.
///
/// # Errors
/// A refusal that says what to change.
pub(crate) fn negotiate(
    request: &Parts,
    query: &Query<'_>,
    path_topic: Option<&str>,
    config: &Config,
    access: &AccessPolicy,
) -> Result<SubscribeRequest, Refusal> {
    let transport = Transport::of(request, query)?;
    if query.terms.window_bytes.is_some() && transport != Transport::WebSocket {
        return Err(bad("window: only a WebSocket can ack, leave it away".into()));
    }
    if query.wait_us.is_some() && transport != Transport::LongPolling {
        return Err(bad("wait: only long polling waits, leave it away".into()));
    }
    if query.limit.is_some() || query.after.is_some() || query.prefix.is_some() {
        return Err(bad(
            "limit, after and prefix read, and do not subscribe: leave them away".into()
        ));
    }
    let topics = topics(query, path_topic, transport, config.limits.subscriptions)?;
    let topics = with_starts(query, topics, &request.headers)?;
    let gzips = config.compression && takes(&request.headers, header::ACCEPT_ENCODING, "gzip");
    let encoded = |format: Format, head: Head| match format.compressed() {
        Some(compressed) if gzips => (compressed, head::gzipped(head)),
        _ => (format, head),
    };
    let mut mode = ResponseMode::Endless;
    let (format, head) = match transport {
        Transport::WebSocket => websocket(request, config.compression)?,
        Transport::Sse if topics.len() > 1 => (Format::SSE_MANY, head::sse()),
        Transport::Sse => encoded(Format::SSE, head::sse()),
        Transport::HttpStreaming if takes(&request.headers, header::ACCEPT, head::ARROW) => {
            check_columns(&topics, config)?;
            mode = ResponseMode::columns();
            (Format::ARROW, head::arrow())
        }
        Transport::HttpStreaming => encoded(Format::NDJSON, head::lines()),
        Transport::LongPolling if accepts_only_columns(&request.headers) => {
            return Err(bad(
                "wait: columns come as a stream: leave it away, or accept application/x-ndjson"
                    .into(),
            ));
        }
        Transport::LongPolling => {
            mode = ResponseMode::Once;
            (Format::NDJSON, head::lines())
        }
        Transport::ForeverFrame => {
            let nonce = format!("{:032x}", access.random()?);
            // `null` is an origin, but it cannot frame a page.
            let framing = |origin: &&String| *origin != "null";
            let ancestors: Vec<&str> =
                config.access.origins.iter().filter(framing).map(String::as_str).collect();
            let head = head::forever_frame(&nonce, &ancestors.join(" "));
            mode = ResponseMode::Document { nonce: nonce.into(), bytes_left: DOCUMENT_BYTES };
            (Format::FOREVER_FRAME, head)
        }
    };
    // HTTP/1.0 has no chunks, HTTP/2 needs none, and hyper itself delimits a poll's answer.
    let is_in_chunks = request.version == Version::HTTP_11 && mode != ResponseMode::Once;
    let format = format.chunked().filter(|_| is_in_chunks).unwrap_or(format);
    let format = if query.takes_patches { format.with_patches() } else { format };
    let wait_us = query.wait_us.unwrap_or(WAIT_US);
    let mut terms = query.terms;
    let is_held_back = request.version == Version::HTTP_2 && is_of_chromium(&request.headers);
    if is_held_back && mode != ResponseMode::Once {
        terms.interval_us = terms.interval_us.max(H2_INTERVAL_US);
    }
    let is_return = transport == Transport::Sse && request.headers.contains_key(LAST_EVENT_ID);
    let echoes = false;
    Ok(SubscribeRequest { format, head, topics, terms, mode, wait_us, echoes, is_return })
}

/// Whether a request is of Chromium or a browser made of it: no other sends this header, and over TLS,
/// without which no browser speaks HTTP/2, they send it with each request (User-Agent Client Hints).
fn is_of_chromium(headers: &HeaderMap) -> bool {
    headers.contains_key("sec-ch-ua")
}

/// Whether a client names columns in Accept, and nothing that is JSON.
fn accepts_only_columns(headers: &HeaderMap) -> bool {
    let accepts = |media| takes(headers, header::ACCEPT, media);
    accepts(head::ARROW)
        && !["application/x-ndjson", "*/*", "application/*"].into_iter().any(accepts)
}

/// Whether a stream of columns can have these topics.
fn check_columns(topics: &[(Topic, StartAt)], config: &Config) -> Result<(), Refusal> {
    let [(topic, _)] = topics else {
        return Err(
            bad("a stream of columns has one topic: ask for each of them by itself".into()),
        );
    };
    match config.has_values(topic) {
        false => Ok(()),
        true => Err(bad(format!(
            "{} is a value topic, and columns are of topics in which every event counts: ask for \
             JSON",
            Excerpt(topic.as_str())
        ))),
    }
}

fn topics(
    query: &Query<'_>,
    path_topic: Option<&str>,
    transport: Transport,
    subscriptions_max: usize,
) -> Result<Vec<Topic>, Refusal> {
    let names = match path_topic {
        Some(_) if !query.topics.is_empty() => {
            return Err(bad("name the topic in the path or as topic=, not both".into()));
        }
        Some(name) => vec![name],
        None => query.topics.iter().map(|name| &**name).collect(),
    };
    if names.is_empty() && transport != Transport::WebSocket {
        return Err(bad("name a topic: /v1/topics/cars or /v1/topics?topic=cars".into()));
    }
    if names.len() > subscriptions_max {
        return Err(Refusal::too_many_subscriptions(subscriptions_max));
    }
    let mut topics: Vec<Topic> = Vec::with_capacity(names.len());
    for name in names {
        let topic: Topic = name.parse()?;
        if topics.contains(&topic) {
            return Err(bad(format!("topic {} is named twice", Excerpt(topic.as_str()))));
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
    let last_event_id = headers.get(LAST_EVENT_ID).map(|id| id.to_str().unwrap_or_default());
    let cursors: Vec<&str> = match last_event_id {
        Some(id) if !id.is_empty() => id.split(',').collect(),
        _ => query.cursors.iter().map(|cursor| &**cursor).collect(),
    };
    let starts = cursors.into_iter().map(parameters::start).collect::<Result<Vec<_>, _>>()?;
    match starts.as_slice() {
        [] => Ok(topics.into_iter().map(|topic| (topic, StartAt::Latest)).collect()),
        [one] => Ok(topics.into_iter().map(|topic| (topic, *one)).collect()),
        each if each.len() == topics.len() => Ok(topics.into_iter().zip(starts).collect()),
        each => {
            let message = format!("{} cursors for {} topics: one or all", each.len(), topics.len());
            Err(Refusal::new(ErrorCode::BadCursor, message))
        }
    }
}

/// Whether a client accepts `value`: it must name it in `header` with a weight above 0 (RFC
/// 9110 §12.4.2): `text/html` in Accept, `gzip` in Accept-Encoding.
pub(crate) fn takes(headers: &HeaderMap, header: HeaderName, value: &str) -> bool {
    let said = headers.get_all(header).into_iter();
    let mut items = said.filter_map(|said| said.to_str().ok()).flat_map(|said| said.split(','));
    items.any(|item| {
        let mut parameters = item.split(';').map(str::trim);
        let is_it = parameters.next().is_some_and(|named| named.eq_ignore_ascii_case(value));
        let weight = parameters.find_map(|parameter| parameter.strip_prefix("q="));
        is_it && weight.and_then(|weight| weight.parse::<f32>().ok()).is_none_or(|q| q > 0.0)
    })
}

fn websocket(request: &Parts, compresses: bool) -> Result<(Format, Head), Refusal> {
    let headers = &request.headers;
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    if request.version < Version::HTTP_11 {
        return Err(bad("a WebSocket handshake needs HTTP/1.1 (RFC 6455 §4.1)".into()));
    }
    if text(header::SEC_WEBSOCKET_VERSION) != Some("13") {
        return Err(Refusal::new(
            ErrorCode::UpgradeRequired,
            "only Sec-WebSocket-Version: 13 is spoken here (RFC 6455)",
        ));
    }
    if !super::has_token(headers, header::CONNECTION, "upgrade") {
        return Err(bad("a WebSocket handshake needs Connection: Upgrade".into()));
    }
    let accept = accept_key(text(header::SEC_WEBSOCKET_KEY).unwrap_or_default())
        .map_err(|error| bad(error.to_string()))?;
    let offered = headers.get_all(header::SEC_WEBSOCKET_EXTENSIONS).into_iter();
    let offered: Vec<&str> = offered.filter_map(|value| value.to_str().ok()).collect();
    let granted = if compresses { deflate_offer(&offered.join(",")) } else { None };
    let format = granted.and_then(|_| Format::WEBSOCKET.compressed()).unwrap_or(Format::WEBSOCKET);
    Ok((format, head::websocket(&accept, granted)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(uri: &str, headers: &[(&str, &str)]) -> Result<SubscribeRequest, Refusal> {
        asked_over(Version::HTTP_11, uri, headers)
    }

    fn asked_over(
        version: Version,
        uri: &str,
        headers: &[(&str, &str)],
    ) -> Result<SubscribeRequest, Refusal> {
        let mut request = http::Request::builder().uri(uri).version(version);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let path_topic = parts.uri.path().strip_prefix("/v1/topics/").map(str::to_owned);
        let (config, listen) = (Config::default(), ([127, 0, 0, 1], 80).into());
        let access =
            AccessPolicy::new(&config.access, listen, crate::access::MadeOf::default(), None)
                .unwrap();
        let query = Query::of(&parts)?;
        negotiate(&parts, &query, path_topic.as_deref(), &config, &access)
    }

    const SSE: &[(&str, &str)] = &[("accept", "text/html, text/event-stream;q=0.9")];

    fn refused(uri: &str, headers: &[(&str, &str)], expected: ErrorCode, says: &str) {
        let refusal = asked(uri, headers).unwrap_err();
        assert_eq!(refusal.code, expected, "{uri}");
        assert!(refusal.message.contains(says), "{}", refusal.message);
    }

    #[test]
    fn the_transport_is_what_the_request_accepts() {
        assert_eq!(Some(asked("/v1/topics/a", SSE).unwrap().format), Format::SSE.chunked());
        assert_eq!(
            Some(asked("/v1/topics?topic=a&topic=b", SSE).unwrap().format),
            Format::SSE_MANY.chunked()
        );
        let ndjson = &[("accept", "application/x-ndjson")];
        assert_eq!(Some(asked("/v1/topics/a", ndjson).unwrap().format), Format::NDJSON.chunked());
        let named = asked("/v1/topics/a?transport=http-streaming", &[]).unwrap();
        assert_eq!(Some(named.format), Format::NDJSON.chunked());
        refused("/v1/topics/a", &[("accept", "*/*")], ErrorCode::NotAcceptable, "Accept:");
        refused("/v1/topics/a?transport=websocket", &[], ErrorCode::UpgradeRequired, "headers");
        refused("/v1/topics/a?transport=ssh", &[], ErrorCode::BadParameter, "\"sse\"");
    }

    #[test]
    fn over_http_2_sends_are_apart_for_chromium_would_hold_them_back() {
        let hint = ("sec-ch-ua", "\"Chromium\";v=\"156\"");
        let of_chromium = [SSE[0], hint];
        let over = |version, headers: &[_], uri| {
            asked_over(version, uri, headers).unwrap().terms.interval_us
        };
        assert_eq!(over(Version::HTTP_11, &of_chromium, "/v1/topics/a"), 0);
        assert_eq!(over(Version::HTTP_2, SSE, "/v1/topics/a"), 0);
        let interval_us = |uri| over(Version::HTTP_2, &of_chromium, uri);
        assert_eq!(interval_us("/v1/topics/a"), H2_INTERVAL_US);
        assert_eq!(interval_us("/v1/topics/a?interval=1ms"), H2_INTERVAL_US);
        assert_eq!(interval_us("/v1/topics/a?interval=1s"), 1_000_000);
        assert_eq!(over(Version::HTTP_2, &[hint], "/v1/topics/a?transport=long-polling"), 0);
    }

    #[test]
    fn each_topic_gets_its_cursor() {
        let one = asked("/v1/topics?topic=a&topic=b&cursor=earliest", SSE).unwrap();
        assert!(one.topics.iter().all(|(_, start)| *start == StartAt::Earliest));
        let each = asked("/v1/topics?topic=a&topic=b&cursor=earliest&cursor=latest", SSE).unwrap();
        assert_eq!(each.topics[1].1, StartAt::Latest);
        let resumed = [SSE[0], ("last-event-id", "ab.7")];
        let resumed = asked("/v1/topics/a?cursor=earliest", &resumed).unwrap();
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
        assert!(asked("/v1/topics/a?_=123", SSE).is_ok());
    }

    #[test]
    fn a_query_may_be_encoded_as_browsers_encode_it() {
        let request = asked("/v1/topics?topic=matches%2F8", SSE).unwrap();
        assert_eq!(request.topics[0].0.as_str(), "matches/8");
    }
}
