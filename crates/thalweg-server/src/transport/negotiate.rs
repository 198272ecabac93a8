use std::{borrow::Cow, sync::Arc};

use http::{HeaderMap, HeaderValue, Version, header, request::Parts};
use thalweg_core::fanout::{ConnectionFraming, ResponseMode, Terms};
use thalweg_wire::{
    ContextWindow, ErrorCode, Excerpt, Format, KeyFilter, Position, StartAt, Topic,
    websocket::{accept_key, deflate_offer},
};

use super::{
    MemberRequest, Query, Transport,
    accept::{allowed, preferred, takes, takes_gzip},
    head::{self, Head},
    parameters::{self, bad},
    query::TopicFilter,
};
use crate::{
    access::AccessPolicy,
    config::{Config, H2_INTERVAL_US, SSE_RETRY_MS_MIN, SSE_RETRY_SPREAD_MS, SharedTopics},
    refusal::Refusal,
};

/// A checked request to subscribe.
#[derive(Debug)]
pub(crate) struct SubscribeRequest {
    pub(crate) format: Format,
    pub(crate) head: Head,
    /// Each topic and its start.
    pub(crate) topics: Vec<(Topic, StartAt)>,
    pub(crate) terms: Terms,
    /// The filter of the keys of each topic. Empty if no topic has one.
    pub(crate) filters: Vec<Option<Arc<KeyFilter>>>,
    /// When the response ends by itself.
    pub(crate) mode: ResponseMode,
    /// The connection's additions to frames.
    pub(crate) framing: ConnectionFraming,
    /// The wait of a long poll, in µs.
    pub(crate) wait_us: u64,
    /// Whether an EventSource has reconnected by itself, as it does after each end of its stream.
    pub(crate) is_return: bool,
    /// The client's description of itself, for the members of its topics.
    pub(crate) member: Option<Box<MemberRequest>>,
}

impl SubscribeRequest {
    /// Returns the topics and the filters of their keys.
    pub(crate) fn filtered(&self) -> impl Iterator<Item = (&Topic, Option<&Arc<KeyFilter>>)> {
        let filters = self.filters.iter().map(Option::as_ref).chain(std::iter::repeat(None));
        self.topics.iter().map(|(topic, _)| topic).zip(filters)
    }

    /// Returns a WebSocket without topics, for a protocol whose client sends them. Fails when the handshake is not valid.
    pub(crate) fn websocket(request: &Parts, config: &Config) -> Result<Self, Refusal> {
        super::check_upgrade(request)?;
        let (format, head) = websocket(request, config)?;
        Ok(Self::without_topics(format, head))
    }

    /// Returns this WebSocket with SignalR's messages.
    pub(crate) fn with_signalr(self) -> Self {
        Self { format: self.format.with_signalr(), ..self }
    }

    /// Returns Server-Sent Events with SignalR's messages.
    pub(crate) fn signalr_stream(request: &Parts) -> Self {
        // HTTP/1.0 has no chunks, and HTTP/2 needs none.
        let chunked = Format::SIGNALR_SSE.chunked().filter(|_| request.version == Version::HTTP_11);
        Self::without_topics(chunked.unwrap_or(Format::SIGNALR_SSE), head::event_data())
    }

    /// Returns a connection whose polls get SignalR's messages. The first poll is answered at once.
    pub(crate) fn signalr_polls() -> Self {
        Self::without_topics(Format::SIGNALR_POLLS, head::messages())
    }

    /// Returns whether the connection sends in the answers to polls, and outlives this answer.
    pub(crate) fn is_polled(&self) -> bool {
        self.format == Format::SIGNALR_POLLS
    }

    fn without_topics(format: Format, head: Head) -> Self {
        Self {
            format,
            head,
            topics: Vec::new(),
            terms: Terms::default(),
            filters: Vec::new(),
            mode: ResponseMode::Endless,
            framing: ConnectionFraming::new(format),
            wait_us: 0,
            is_return: false,
            member: None,
        }
    }
}

/// A forever frame reloads after this many bytes, because browsers keep the whole document.
const DOCUMENT_BYTES: u64 = 4 << 20;

/// One object per line: the form of polls, and of streams to clients that prefer no other.
const LINES: (&str, Format) = Format::STREAMED[Format::STREAMED.len() - 1];

/// The header with an EventSource's position (WHATWG HTML §9.2.3).
const LAST_EVENT_ID: &str = "last-event-id";

/// The default wait of a long poll, in µs: less than the 30 s after which proxies time out.
const WAIT_US: u64 = 25_000_000;

/// Parses a request to subscribe. `path_topic` follows `/v1/topics/`. The error has the remedy.
pub(crate) fn negotiate(
    request: &Parts,
    query: &Query<'_>,
    path_topic: Option<&str>,
    (config, shared): (&Config, &SharedTopics),
    access: &AccessPolicy,
) -> Result<SubscribeRequest, Refusal> {
    let transport = Transport::from_request(request, query)?;
    if query.terms.window_bytes.is_some() && transport != Transport::WebSocket {
        return Err(bad("the parameter window works only over a WebSocket: remove it".into()));
    }
    if query.wait_us.is_some() && transport != Transport::LongPolling {
        return Err(bad("the parameter wait works only for long polling: remove it".into()));
    }
    if query.limit.is_some() || query.after.is_some() {
        return Err(
            bad("limit and after are for reads, not for subscriptions: remove them".into()),
        );
    }
    let (topics, filters) = topics(query, path_topic, transport, config.limits.subscriptions)?;
    let topics = with_starts(query, topics, &request.headers)?;
    let gzips = config.compression && takes_gzip(&request.headers);
    // Only a stream of one topic has a context for compression.
    let window = window(config).filter(|_| topics.len() == 1);
    let encoded = |format: Format, head: Head| match compressed(format, window) {
        Some(compressed) if gzips => (compressed, head::gzipped(head)),
        _ => (format, head),
    };
    let mode = match transport {
        Transport::LongPolling => ResponseMode::Once,
        Transport::WebSocket
        | Transport::Sse
        | Transport::HttpStreaming
        | Transport::ForeverFrame => ResponseMode::Endless,
    };
    let mut document = None;
    let (format, head) = match transport {
        Transport::WebSocket => websocket(request, config)?,
        Transport::Sse if topics.len() > 1 => (Format::SSE_MANY, head::sse(retry_ms(access)?)),
        Transport::Sse => encoded(Format::SSE, head::sse(retry_ms(access)?)),
        Transport::HttpStreaming => {
            let (media_type, format) = streamed(&request.headers);
            if format.has_columns() {
                check_columns(&topics, config, shared)?;
            }
            encoded(format, head::stream(media_type))
        }
        Transport::LongPolling if accepts_only_columns(&request.headers) => {
            return Err(bad(
                "columns cannot be long-polled: remove the parameter wait, or accept application/x-ndjson"
                    .into(),
            ));
        }
        Transport::LongPolling => (LINES.1, head::stream(LINES.0)),
        Transport::ForeverFrame => {
            let nonce = format!("{:032x}", access.random()?);
            // `null` is an origin, but it cannot frame a page.
            let framing = |origin: &&String| *origin != "null";
            let ancestors: Vec<&str> =
                config.access.origins.iter().filter(framing).map(String::as_str).collect();
            let head = head::forever_frame(&nonce, &ancestors.join(" "));
            document = Some(ConnectionFraming::document(&nonce, DOCUMENT_BYTES));
            (Format::FOREVER_FRAME, head)
        }
    };
    let framing = document.unwrap_or_else(|| ConnectionFraming::new(format));
    // HTTP/1.0 has no chunks, HTTP/2 needs none, and hyper itself delimits a poll's answer.
    let is_in_chunks = request.version == Version::HTTP_11 && mode != ResponseMode::Once;
    let format = format.chunked().filter(|_| is_in_chunks).unwrap_or(format);
    let format = if query.takes_patches { format.with_patches() } else { format };
    let wait_us = query.wait_us.unwrap_or(WAIT_US);
    let mut terms = query.terms;
    let is_held_back = request.version == Version::HTTP_2 && is_of_chromium(&request.headers);
    // Chromium does not hold back messages of a WebSocket.
    let is_awaited = mode == ResponseMode::Once || transport == Transport::WebSocket;
    if is_held_back && !is_awaited {
        terms.interval_us = terms.interval_us.max(H2_INTERVAL_US);
    }
    let is_return = transport == Transport::Sse && last_event_id(query, &request.headers).is_some();
    let member = query.member.clone().map(Box::new);
    Ok(SubscribeRequest {
        format,
        head,
        topics,
        terms,
        filters,
        mode,
        framing,
        wait_us,
        is_return,
        member,
    })
}

/// Returns the time after which one EventSource reconnects, in ms: each has its own, so that not all reconnect together.
fn retry_ms(access: &AccessPolicy) -> Result<u64, Refusal> {
    let spread = access.random()? % u128::from(SSE_RETRY_SPREAD_MS + 1);
    Ok(SSE_RETRY_MS_MIN + spread as u64)
}

/// Returns whether a request is from Chromium or a browser based on it. Only these send this header. Over TLS,
/// without which no browser uses HTTP/2, they send it with each request (User-Agent Client Hints).
fn is_of_chromium(headers: &HeaderMap) -> bool {
    headers.contains_key("sec-ch-ua")
}

/// Returns the format of HTTP streaming that a client prefers, and its media type.
fn streamed(headers: &HeaderMap) -> (&'static str, Format) {
    let media_types = Format::STREAMED.into_iter().map(|(media_type, _)| media_type);
    let preferred = preferred(headers, &header::ACCEPT, media_types);
    let is_its = |(media_type, _): &(&str, Format)| Some(*media_type) == preferred;
    Format::STREAMED.into_iter().find(is_its).unwrap_or(LINES)
}

/// Returns whether a client names columns in Accept, and no media type that means JSON.
fn accepts_only_columns(headers: &HeaderMap) -> bool {
    let mut columns = Format::STREAMED.into_iter().filter(|(_, format)| format.has_columns());
    columns.any(|(media_type, _)| takes(headers, &header::ACCEPT, media_type))
        && allowed(headers, &header::ACCEPT, LINES.0) == 0
}

/// Checks that a stream of columns can have these topics.
fn check_columns(
    topics: &[(Topic, StartAt)],
    config: &Config,
    shared: &SharedTopics,
) -> Result<(), Refusal> {
    let [(topic, _)] = topics else {
        return Err(bad("a stream of columns has one topic: request each topic separately".into()));
    };
    match config.has_rows(shared, topic) {
        true => Ok(()),
        false => Err(bad(format!(
            "{} is a value topic or a keyed topic, which has no columns: \
             request JSON",
            Excerpt(topic.as_str())
        ))),
    }
}

fn topics(
    query: &Query<'_>,
    path_topic: Option<&str>,
    transport: Transport,
    subscriptions_max: usize,
) -> Result<(Vec<Topic>, Vec<TopicFilter>), Refusal> {
    let has_filter = !query.keys.is_empty() || query.prefix.is_some();
    let named: Vec<Result<(Topic, TopicFilter), Refusal>> = match path_topic {
        Some(_) if !query.topics.is_empty() => {
            return Err(bad("name the topic in the path or as topic=, not both".into()));
        }
        Some(path) => {
            let topic = Topic::from_path(path).map_err(Refusal::from);
            vec![topic.and_then(|topic| Ok((topic, query.filter()?)))]
        }
        None if query.topics.len() > subscriptions_max => {
            return Err(Refusal::too_many_subscriptions(subscriptions_max));
        }
        None if query.topics.len() == 1 => query.first_topic().into_iter().collect(),
        None if has_filter => {
            return Err(bad(
                "key and prefix select keys of one topic: write topic=vehicles%3Fkey%3Dbus for each topic"
                    .into(),
            ));
        }
        None => query.topics.iter().map(|name| parameters::filtered_topic(name)).collect(),
    };
    if named.is_empty() && transport != Transport::WebSocket {
        return Err(bad("name a topic: /v1/topics/cars or /v1/topics?topic=cars".into()));
    }
    let mut topics: Vec<Topic> = Vec::with_capacity(named.len());
    let mut filters = Vec::new();
    for named in named {
        let (topic, filter) = named?;
        if topics.contains(&topic) {
            return Err(bad(format!(
                "topic {} is in the request twice: remove one",
                Excerpt(topic.as_str())
            )));
        }
        topics.push(topic);
        filters.push(filter);
    }
    if filters.iter().all(Option::is_none) {
        filters.clear();
    }
    Ok((topics, filters))
}

/// Returns the id of the client's last event, from the header or, for clients that cannot set headers, from the query.
/// An empty id does not count (WHATWG HTML §9.2.3).
fn last_event_id<'a>(query: &'a Query<'_>, headers: &'a HeaderMap) -> Option<Cow<'a, str>> {
    let header = headers.get(LAST_EVENT_ID).map(|id| String::from_utf8_lossy(id.as_bytes()));
    let parameter = query.last_event_id.as_deref().map(Cow::Borrowed);
    let is_one = |id: &Cow<'_, str>| !id.is_empty();
    header.filter(is_one).or(parameter.filter(is_one))
}

/// Returns where each of `count` topics resumes after the event with this id. The id may be of another server, or of
/// another list of topics, because a client repeats any id: such a topic begins with a gap.
fn resumed(id: &str, count: usize) -> Vec<StartAt> {
    let elsewhere = StartAt::After(Position::ELSEWHERE);
    let starts: Vec<StartAt> =
        id.split(',').take(count + 1).map(|cursor| cursor.parse().unwrap_or(elsewhere)).collect();
    match starts.len() {
        1 => starts,
        len if len == count => starts,
        _ => vec![elsewhere],
    }
}

fn with_starts(
    query: &Query<'_>,
    topics: Vec<Topic>,
    headers: &HeaderMap,
) -> Result<Vec<(Topic, StartAt)>, Refusal> {
    let starts = match last_event_id(query, headers) {
        Some(id) => resumed(&id, topics.len()),
        None => query.starts()?,
    };
    match starts.as_slice() {
        [_] if query.newest.is_some() && topics.is_empty() => {
            Err(bad("newest needs a topic: request /v1/topics/cars?newest=5".into()))
        }
        [_] if query.since.is_some() && topics.is_empty() => {
            Err(bad("since: name a topic, as in /v1/topics/cars".into()))
        }
        [] => Ok(topics.into_iter().map(|topic| (topic, StartAt::Latest)).collect()),
        [one] => Ok(topics.into_iter().map(|topic| (topic, *one)).collect()),
        each if each.len() == topics.len() => Ok(topics.into_iter().zip(starts).collect()),
        each => {
            let message = format!(
                "{} cursors for {} topics: send one, or one for each topic",
                each.len(),
                topics.len()
            );
            Err(Refusal::new(ErrorCode::BadCursor, message))
        }
    }
}

/// Returns the size of the context of compressed messages. `None`: each is compressed alone.
fn window(config: &Config) -> Option<ContextWindow> {
    let bytes = config.limits.compression_context_bytes;
    (bytes > 0).then(|| ContextWindow::within(bytes))
}

/// Returns the format with compression; `None` if it has none.
fn compressed(format: Format, window: Option<ContextWindow>) -> Option<Format> {
    window.map_or_else(|| format.compressed(), |window| format.compressed_in_context(window))
}

fn websocket(request: &Parts, config: &Config) -> Result<(Format, Head), Refusal> {
    let headers = &request.headers;
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    if request.version < Version::HTTP_11 {
        return Err(bad(
            "a WebSocket handshake needs HTTP/1.1 (RFC 6455 §4.1): use this version".into()
        ));
    }
    if text(header::SEC_WEBSOCKET_VERSION) != Some("13") {
        return Err(Refusal::new(
            ErrorCode::UpgradeRequired,
            "the header Sec-WebSocket-Version is missing or not 13: send \"Sec-WebSocket-Version: 13\" (RFC 6455)",
        ));
    }
    // A tunnel has neither an upgrade nor a key (RFC 8441 §5).
    let accept = if super::is_tunnel(request) {
        None
    } else {
        if !super::has_token(headers, header::CONNECTION, "upgrade") {
            return Err(bad(
                "the WebSocket handshake has no Connection: Upgrade: send it, or let the proxy pass it"
                    .into(),
            ));
        }
        let key = text(header::SEC_WEBSOCKET_KEY).unwrap_or_default();
        Some(accept_key(key).map_err(|error| bad(error.to_string()))?)
    };
    let offered = headers.get_all(header::SEC_WEBSOCKET_EXTENSIONS).into_iter();
    let offered: Vec<&str> = offered.filter_map(|value| value.to_str().ok()).collect();
    let window = window(config);
    let offer = || deflate_offer(&offered.join(","), window.is_some());
    let granted = config.compression.then(offer).flatten();
    let window = window.filter(|_| granted.is_some_and(|granted| granted.has_context));
    let format = granted.and_then(|_| compressed(Format::WEBSOCKET, window));
    let format = format.unwrap_or(Format::WEBSOCKET);
    let mut head = head::websocket(accept.as_deref(), granted.map(|granted| granted.header));
    if let Some(protocol) =
        config.websocket_protocols.iter().find(|protocol| offers(headers, protocol))
        && let Ok(protocol) = HeaderValue::from_str(protocol)
    {
        head.headers_mut().insert(header::SEC_WEBSOCKET_PROTOCOL, protocol);
    }
    Ok((format, head))
}

/// Returns whether a handshake offers a subprotocol, whose name is compared exactly (RFC 6455 §4.1).
fn offers(headers: &HeaderMap, protocol: &str) -> bool {
    let offered = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).into_iter();
    let mut offered = offered.filter_map(|value| value.to_str().ok()).flat_map(|v| v.split(','));
    offered.any(|offered| offered.trim() == protocol)
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
        let query = Query::from_request(&parts)?;
        negotiate(
            &parts,
            &query,
            path_topic.as_deref(),
            (&config, &SharedTopics::default()),
            &access,
        )
    }

    const SSE: &[(&str, &str)] = &[("accept", "text/html, text/event-stream;q=0.9")];

    fn refused(uri: &str, headers: &[(&str, &str)], expected: ErrorCode, says: &str) {
        let refusal = asked(uri, headers).unwrap_err();
        assert_eq!(refusal.code, expected, "{uri}");
        assert!(refusal.message.contains(says), "{}", refusal.message);
    }

    #[test]
    fn the_accept_header_selects_the_transport() {
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
    fn over_http_2_sends_are_spaced_because_chromium_would_delay_them() {
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
    fn mistakes_are_refused_with_the_remedy() {
        refused("/v1/topics/a?polcy=skip", SSE, ErrorCode::BadParameter, "\"policy\"");
        refused("/v1/topics/a?policy=lates", SSE, ErrorCode::BadParameter, "\"latest\"");
        refused("/v1/topics/a?interval=5", SSE, ErrorCode::BadParameter, "250ms");
        refused("/v1/topics/a?topic=b", SSE, ErrorCode::BadParameter, "not both");
        refused("/v1/topics?topic=a&topic=a", SSE, ErrorCode::BadParameter, "twice");
        refused("/v1/topics?topic=a%3F", SSE, ErrorCode::BadParameter, "without key=");
        refused("/v1/topics/a%20b", SSE, ErrorCode::BadTopic, "' '");
        refused("/v1/topics/a%2Fb", SSE, ErrorCode::BadTopic, "%2F");
        refused("/v1/topics/a%252Fb", SSE, ErrorCode::BadTopic, "'%'");
        refused("/v1/topics?topic=a+b", SSE, ErrorCode::BadTopic, "write %2B");
        refused("/v1/topics", SSE, ErrorCode::BadParameter, "name a topic");
        assert!(asked("/v1/topics/a?_=123", SSE).is_ok());
    }

    #[test]
    fn a_query_may_be_encoded_as_browsers_encode_it() {
        let request = asked("/v1/topics?topic=matches%2F8", SSE).unwrap();
        assert_eq!(request.topics[0].0.as_str(), "matches/8");
    }
}
