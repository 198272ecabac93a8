use std::{
    cell::Cell,
    future::{pending, poll_fn},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use http::{HeaderName, HeaderValue, Method, Request, StatusCode, Version, header, request::Parts};
use hyper::body::Incoming;
use thalweg_wire::{ErrorCode, Excerpt, StartAt, StreamStart, Topic};
use tokio::time::{Instant, sleep, timeout_at};

use super::{
    Http, RequestConnection, administer, columns,
    content::{Content, History},
    discard::{ResponseRules, finish_answer, reject_get_body},
    inspect, pages,
    post::{self, Publisher},
    respond::{Answer, ErrorResponse, empty, json_line, text},
    runs,
};
use crate::{
    access::{Admitted, Allowed, Holder, Reading, ViewMetrics, Writing},
    audit::{Asker, is_audited},
    connection_limits::{Address, ConnectionPermit, Forwarded, Requester},
    refusal::Refusal,
    shard::{Asked, NewSubscriber, SubscriberId, Subscription},
    transport::{
        Client, PipeEvent, Query, SubscribeRequest, Transport, Writer, head, negotiate, parameters,
        pipe,
    },
};
use thalweg_core::fanout::{FeedKey, ResponseMode};

/// What is needed to take the socket over after hyper has released it.
pub(super) struct Takeover {
    pub(super) request: SubscribeRequest,
    pub(super) feeds: Vec<FeedKey>,
    pub(super) client: Client,
    pub(super) holder: Arc<Holder>,
    pub(super) requester: Requester,
}

/// A request to subscribe that is granted.
struct Granted {
    subscription: Allowed<Box<Subscription>>,
    holder: Arc<Holder>,
}

/// What tells one request from others, in logs of proxies and of this server.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest that is taken over.
const REQUEST_ID_BYTES_MAX: usize = 64;

/// So much of a path is said.
const PATH_BYTES_MAX: usize = 256;

const EMPTY: HeaderValue = HeaderValue::from_static("");

/// What is said of a request when it is refused.
struct Asking {
    address: Address,
    path: Box<str>,
    /// As the request has it.
    id: Option<HeaderValue>,
}

impl Asking {
    fn of(parts: &Parts, address: Address) -> Self {
        let id = parts.headers.get(REQUEST_ID).filter(|id| {
            id.len() <= REQUEST_ID_BYTES_MAX && id.as_bytes().iter().all(u8::is_ascii_graphic)
        });
        let path = parts.uri.path();
        // It may have bytes above ASCII.
        let mut ends = (0..=path.len().min(PATH_BYTES_MAX)).rev();
        let end = ends.find(|end| path.is_char_boundary(*end)).unwrap_or(0);
        let path = path[..end].into();
        Self { address, path, id: id.cloned() }
    }
}

/// Events of a read without a limit.
const LIMIT: usize = 1_000;

/// Time between two checks whether a poll that does not wait has begun.
const FIRST_REPLY_POLL: Duration = Duration::from_millis(1);

/// The longest time between two checks whether a stream of columns has begun.
const STREAM_START_POLL_MAX: Duration = Duration::from_millis(20);

/// How long that may take: a topic's home is another shard.
const BEGUN_WAIT: Duration = Duration::from_secs(2);

/// Answers a request. `takeover` is there if its connection's socket may be taken over.
pub(super) async fn answer(
    http: &Rc<Http>,
    takeover: Option<&Cell<Option<Takeover>>>,
    connection: &RequestConnection,
    request: Request<Incoming>,
) -> Answer {
    let (mut parts, mut body) = request.into_parts();
    let rules = ResponseRules::of(&parts);
    if rules.is_head {
        // It is answered as GET is, without the body (RFC 9110 §9.3.2).
        parts.method = Method::GET;
    }
    let (forwarded, admitted) = match http.admit(&connection.permit, &parts) {
        Ok(admitted) => admitted,
        Err(refusal) => {
            let asker = Asking::of(&parts, connection.permit.address());
            drop(parts);
            let answer = http.refuse(refusal.into(), &asker);
            return finish_answer(http, rules, body, answer).await;
        }
    };
    if let Some(headers) = admitted.preflight(&parts) {
        let mut answer = empty(StatusCode::NO_CONTENT);
        answer.headers_mut().extend(headers);
        return answer;
    }
    if connection.permit.is_admin() {
        // Boxed because it is rare: it must not enlarge the future of every request.
        let asking = Asking::of(&parts, connection.permit.address());
        let inspected = Box::pin(inspect::answer(http, parts, &mut body)).await;
        let answer = http.finish(inspected, &admitted, &asking);
        return finish_answer(http, rules, body, answer).await;
    }
    // Also of a client that its proxy names and that has no place any more.
    let asking = Asking::of(&parts, connection.permit.client(&forwarded));
    let checked = match connection.permit.requester(&forwarded) {
        Ok(requester) => {
            connection.address.set(requester.address);
            let begun = match http.take_handshake(&parts, &requester) {
                Ok(()) => match reject_get_body(&parts, &body) {
                    Ok(()) => begin(http, &parts, &requester).await,
                    Err(error) => Err(error),
                },
                Err(refusal) => Err(refusal.into()),
            };
            begun.map(|checked| (checked, requester))
        }
        Err(refusal) => Err(refusal.into()),
    };
    let routed = match checked {
        Ok((Some(checked), _)) if rules.is_head => checked.head(),
        Ok((Some(granted), requester)) => {
            // This may take long, so the request's head and body are dropped now.
            drop((parts, body));
            let subscribed =
                subscribe(http, takeover, connection, granted, &admitted, requester).await;
            return subscribed.unwrap_or_else(|error| http.finish(Err(error), &admitted, &asking));
        }
        Ok((None, requester)) => route(http, connection, requester, &mut parts, &mut body).await,
        Err(error) => {
            drop(parts);
            Err(error)
        }
    };
    finish_answer(http, rules, body, http.finish(routed, &admitted, &asking)).await
}

impl Granted {
    /// The answer to HEAD. Nothing is opened.
    fn head(self) -> Result<Answer, ErrorResponse> {
        let Subscription { request, .. } = *self.subscription.into_inner();
        let answer = request.head.map(|_| Content::Nothing);
        match answer.status() {
            // RFC 6455 §4.1.
            StatusCode::SWITCHING_PROTOCOLS => Err(ErrorResponse::method("GET")),
            _ => Ok(answer),
        }
    }
}

impl Http {
    /// Checks whether a request is admitted, and reads what a trusted proxy says about its
    /// client.
    fn admit(
        &self,
        permit: &ConnectionPermit,
        parts: &Parts,
    ) -> Result<(Forwarded, Admitted), Refusal> {
        let forwarded = permit.forwarded(&parts.headers)?;
        let admin = self.shared.admin.as_ref().filter(|_| permit.is_admin());
        let is_https = self.shared.tls.is_some() && admin.is_none();
        let is_https = forwarded.is_https.unwrap_or(is_https);
        let admitted = match admin {
            Some(admin) => admin.admit(parts, is_https)?,
            None => self.access().admit(parts, is_https)?,
        };
        Ok((forwarded, admitted))
    }

    #[inline]
    fn finish(
        &self,
        answered: Result<Answer, ErrorResponse>,
        admitted: &Admitted,
        asking: &Asking,
    ) -> Answer {
        let mut answer = answered.unwrap_or_else(|error| self.refuse(error, asking));
        answer.headers_mut().extend(admitted.headers());
        answer
    }

    fn refuse(&self, error: ErrorResponse, asking: &Asking) -> Answer {
        let Asking { address, path, id } = asking;
        let id = id.clone().unwrap_or_else(|| {
            // As good as any: it is only to be found in the log again.
            let random = self.access().random().unwrap_or_default();
            HeaderValue::try_from(format!("{:016x}", random as u64)).unwrap_or(EMPTY)
        });
        let request = id.to_str().unwrap_or_default();
        self.shard
            .counts
            .refuse(&error.refusal, Asker { address: Some(*address), what: path, request });
        let is_in_log = is_audited(error.refusal.code);
        let mut answer = error.into_answer();
        if is_in_log {
            answer.headers_mut().insert(REQUEST_ID, id);
        }
        answer
    }
}

/// What a path names: `Some(None)` is all topics, `Some(Some(…))` is one, `None` is something
/// else.
fn topics_path(path: &str) -> Option<Option<&str>> {
    let rest = path.strip_prefix("/v1/topics")?;
    match rest.strip_prefix('/') {
        None if rest.is_empty() => Some(None),
        topic => topic.map(Some),
    }
}

/// Begins a subscription, if the request asks for one. Its feeds are opened later.
async fn begin(
    http: &Http,
    parts: &Parts,
    requester: &Requester,
) -> Result<Option<Granted>, ErrorResponse> {
    if parts.method != Method::GET {
        return Ok(None);
    }
    let path = parts.uri.path();
    if http.config().echo_path.as_deref() == Some(path) {
        let request = SubscribeRequest::echo(parts, &http.config().websocket_protocols)?;
        let holder = http.access().holders.everybody();
        let echo = Box::new(Subscription { request, asked: None });
        let subscription = http.access().allow(&holder, echo)?;
        return Ok(Some(Granted { subscription, holder }));
    }
    let Some(path_topic) = topics_path(path) else { return Ok(None) };
    let query = Query::of(parts)?;
    if query.sql.is_some() && (path_topic.is_some() || !query.topics.is_empty()) {
        return Err(
            parameters::bad("query: it names its topic behind FROM: remove topic".into()).into()
        );
    }
    let names_none = path_topic.is_none() && query.topics.is_empty();
    let reads = names_none || query.limit.is_some() || query.newest.is_some();
    if query.explains || reads && Transport::asked(parts, &query).is_none() {
        return Ok(None);
    }
    let asked = match &query.sql {
        Some(sql) => Some(Box::pin(http.shard.read_asked(sql, requester.into())).await?),
        None => None,
    };
    if asked.as_ref().is_some_and(|asked| asked.query().is_explain()) {
        return Ok(None);
    }
    if http.shard.is_draining() {
        return Err(Refusal::draining().into());
    }
    let path_topic = asked.as_ref().map(|asked| asked.topic().as_str()).or(path_topic);
    let request = negotiate(parts, &query, path_topic, http.config(), &http.access())?;
    // Boxed before it waits, so that the future of every request stays small.
    let wanted = Box::new(Subscription { request, asked });
    let holder = http.identify(parts, &query, requester).await?;
    let subscription = http.access().allow(&holder, wanted)?;
    Ok(Some(Granted { subscription, holder }))
}

async fn subscribe(
    http: &Rc<Http>,
    takeover: Option<&Cell<Option<Takeover>>>,
    connection: &RequestConnection,
    Granted { subscription, holder }: Granted,
    admitted: &Admitted,
    requester: Requester,
) -> Result<Answer, ErrorResponse> {
    let is_poll = subscription.request.mode == ResponseMode::Once;
    let client = Client::new(&holder, &requester);
    let mut requester = Some(requester);
    // A subscriber that has the HTTP/1.1 socket alone uses the connection's permit.
    let permit = match takeover {
        Some(_) => None,
        None => {
            requester.take().map(|requester| connection.permit.for_stream(requester)).transpose()?
        }
    };
    // Only now, so that a subscriber without a place leaves no topic behind.
    let feeds = http.shard.open_feeds(&subscription, client.counted()).await?;
    let Subscription { mut request, .. } = *subscription.into_inner();
    if request.is_return && http.shard.has_lost_all(&request).await {
        // It was told why by an `end`; only this keeps it from returning (WHATWG HTML §9.2.3).
        return Ok(empty(StatusCode::NO_CONTENT));
    }
    request.head.headers_mut().extend(admitted.headers());
    if let Some(takeover) = takeover.filter(|_| !is_poll)
        && let Some(requester) = requester.take()
    {
        takeover.set(Some(Takeover { request, feeds, client, holder, requester }));
        // The task that polls this takes the socket away instead.
        return pending().await;
    }
    let (end, mut body) = pipe(http.limits().stream_buffer_bytes, &connection.retired);
    let new = NewSubscriber {
        writer: Writer::Pipe(end),
        head: &head::first(&request.head, request.format),
        request: &request,
        feeds: &feeds,
        client,
        holder,
        permit,
    };
    // This cannot fail for a pipe: it needs nothing from the system.
    let Ok(id) = http.shard.subscribe(new, &[]) else {
        return Err(Refusal::busy("connections").into());
    };
    let shard = Rc::clone(&http.shard);
    body.listener = Some(Box::new(move |news| match news {
        PipeEvent::Room => shard.unblock(id),
        PipeEvent::Gone => shard.remove(id),
    }));
    if is_poll {
        http.shard.leave_if_untold(id, connection.opened_us);
        let deadline = Instant::now() + Duration::from_micros(request.wait_us);
        let settled =
            timeout_at(deadline, poll_fn(|context| body.poll_full_or_finished(context))).await;
        if settled.is_err() {
            let has_begun = begun_at_least(http, id).await;
            body.finish_now();
            http.shard.remove(id);
            if !has_begun {
                return Err(Refusal::catching_up().into());
            }
        }
    }
    let mut head = request.head;
    if connection.retired.get() && takeover.is_some() {
        // HTTP/2 says it for all streams.
        head.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    if request.format.has_columns() {
        // The rest of its beginning waits for the head.
        let begun = stream_start(http, id, &request.mode).await?;
        let fields = begun.fields();
        let fields = fields.filter_map(|(name, value)| {
            Some((HeaderName::from_static(name), HeaderValue::try_from(value).ok()?))
        });
        head.headers_mut().extend(fields);
    }
    let content = match is_poll {
        true => Content::poll(body, &connection.account, http.limits().stream_buffer_bytes),
        false => Content::Pipe(body, None),
    };
    Ok(head.map(|_| content))
}

/// Waits until a poll has its start position: each answer has one. Returns whether it has.
async fn begun_at_least(http: &Http, id: SubscriberId) -> bool {
    let deadline = Instant::now() + BEGUN_WAIT;
    loop {
        if http.shard.has_begun(id) {
            return true;
        }
        if Instant::now() > deadline {
            return false;
        }
        sleep(FIRST_REPLY_POLL).await;
    }
}

/// Where a stream of columns begins. It may wait for as long as its client does: the head of a
/// response always names a position.
///
/// # Errors
/// If it ends before it has begun.
async fn stream_start(
    http: &Http,
    id: SubscriberId,
    mode: &ResponseMode,
) -> Result<StreamStart, Refusal> {
    let mut pause = FIRST_REPLY_POLL;
    loop {
        if let Some(begun) = mode.stream_start() {
            return Ok(begun);
        }
        if http.shard.has_begun(id) {
            // It is gone.
            return Err(match http.shard.is_draining() {
                true => Refusal::draining(),
                false => Refusal::busy("streams that begin"),
            });
        }
        sleep(pause).await;
        pause = (pause * 2).min(STREAM_START_POLL_MAX);
    }
}

async fn route(
    http: &Rc<Http>,
    connection: &RequestConnection,
    // Keeps its place until the answer is made.
    requester: Requester,
    parts: &mut Parts,
    body: &mut Incoming,
) -> Result<Answer, ErrorResponse> {
    let path = parts.uri.path();
    if let Some(path_topic) = topics_path(path) {
        return match (&parts.method, path_topic) {
            (&Method::GET, _) => read(http, connection, &requester, parts, path_topic).await,
            (&Method::POST, Some(topic)) => {
                let publisher = Publisher::new(http, &requester, topic, parts).await?;
                // A long time may pass between lines, as between a subscriber's events. So it
                // needs a place as a subscriber does.
                let is_beside = publisher.is_ndjson() && parts.version == Version::HTTP_2;
                // This may take long, so the request's URL and headers are dropped now.
                (parts.uri, parts.headers) = Default::default();
                let _permit =
                    if is_beside { Some(connection.permit.for_stream(requester)?) } else { None };
                publisher.publish(http, body, &connection.repolls).await
            }
            (&Method::DELETE, Some(topic)) => delete(http, topic, parts, &requester).await,
            (_, Some(_)) => Err(ErrorResponse::method("GET, HEAD, POST, DELETE")),
            (_, None) => Err(ErrorResponse::method("GET, HEAD")),
        };
    }
    if let Some(topic) = columns::path_topic(path) {
        // Boxed because it is rare: it must not enlarge the future of every request.
        return Box::pin(columns::answer(http, parts, topic, &requester)).await;
    }
    if let Some(rest) = runs::path(path) {
        return runs::answer(http, connection, parts, rest, &requester).await;
    }
    let shown = &http.config().pages;
    match path {
        "/v1/commands" | "/v1/tickets" | administer::DISCONNECT if parts.method != Method::POST => {
            Err(ErrorResponse::method("POST"))
        }
        "/v1/commands" => post::command(http, &requester, parts, body).await,
        "/v1/tickets" => post::ticket(http, parts, &requester).await,
        // Boxed because it is rare: it must not enlarge the future of every request.
        administer::DISCONNECT => {
            Box::pin(async {
                let holder = http.identify(parts, &Query::of(parts)?, &requester).await?;
                administer::disconnect(http, parts, &http.access(), &holder, body).await
            })
            .await
        }
        "/" | "/healthz" | "/readyz" | "/metrics" if parts.method != Method::GET => {
            Err(ErrorResponse::method("GET, HEAD"))
        }
        "/" => Ok(pages::at_root(shown, parts)?.unwrap_or_else(pages::hello)),
        "/healthz" => Ok(inspect::healthy()),
        "/readyz" => inspect::ready(http),
        "/metrics" => {
            let metrics = http.allow(ViewMetrics, parts, &Query::default(), &requester).await?;
            Ok(inspect::metrics(http, &parts.headers, &metrics))
        }
        _ => pages::at(shown, parts)?.ok_or_else(|| {
            let path = Excerpt(path);
            let message = format!("there is nothing at {path}: topics are at /v1/topics/{{topic}}");
            Refusal::new(ErrorCode::NotFound, message).into()
        }),
    }
}

/// What a query does, or its topic and columns.
async fn read_query(
    http: &Rc<Http>,
    requester: &Requester,
    parts: &Parts,
    query: &Query<'_>,
    asked: Box<Asked>,
) -> Result<Answer, ErrorResponse> {
    let holder = http.identify(parts, query, requester).await?;
    let asked = http.access().allow(&holder, asked)?;
    if query.explains || asked.query().is_explain() {
        let explained = http.shard.explain(&asked).await?;
        let explained = format!("topic     {}\n{explained}", asked.topic());
        return Ok(text("text/plain; charset=utf-8", explained.into_bytes()));
    }
    let client = Client::new(&holder, requester);
    let plan = http.shard.ask(&asked, client.counted()).await?;
    let results = plan.results().iter();
    Ok(json_line(StatusCode::OK, columns::described(asked.topic(), results)))
}

/// Deletes a topic.
async fn delete(
    http: &Http,
    topic: &str,
    parts: &Parts,
    requester: &Requester,
) -> Result<Answer, ErrorResponse> {
    let topic = Topic::from_path(topic).map_err(Refusal::from)?;
    let topic = http.allow(Writing(topic), parts, &Query::of(parts)?, requester).await?;
    http.shard.delete(topic).await?;
    Ok(empty(StatusCode::NO_CONTENT))
}

/// A topic's history, or the list of topics.
async fn read(
    http: &Rc<Http>,
    connection: &RequestConnection,
    requester: &Requester,
    parts: &Parts,
    path_topic: Option<&str>,
) -> Result<Answer, ErrorResponse> {
    let query = Query::of(parts)?;
    if let Some(sql) = &query.sql {
        let asked = Box::pin(http.shard.read_asked(sql, requester.into())).await?;
        return Box::pin(read_query(http, requester, parts, &query, asked)).await;
    }
    if query.limit.is_some() && query.newest.is_some() {
        return Err(parameters::bad(
            "newest and limit both say how many events are read: remove one of them".into(),
        )
        .into());
    }
    let named = path_topic
        .map(|path| Topic::from_path(path).map_err(Refusal::from))
        .or_else(|| query.topics.first().map(|name| parameters::topic(name)));
    let Some(topic) = named else {
        if query.newest.is_some() {
            return Err(
                parameters::bad("newest: name a topic, as in /v1/topics/cars".into()).into()
            );
        }
        let holder = http.identify(parts, &query, requester).await?;
        let listing = inspect::listing(&query, http.access().shown_to(&holder));
        return inspect::list(http, http.access().allow(&holder, listing)?).await;
    };
    if query.topics.len() + usize::from(path_topic.is_some()) > 1 {
        return Err(parameters::bad("one topic is read at a time".into()).into());
    }
    let topic = topic?;
    let start = match query.starts()?.as_slice() {
        [] => StartAt::Earliest,
        [start] => *start,
        _ => return Err(parameters::bad("one topic is read from one cursor".into()).into()),
    };
    let holder = http.identify(parts, &query, requester).await?;
    let topic = http.access().allow(&holder, Reading(topic))?;
    let limit = query.newest.map_or(query.limit.unwrap_or(LIMIT), |count| count as usize);
    let client = Client::new(&holder, requester);
    let page = http.shard.read(client, &connection.account, &topic, start, limit).await?;
    let history = History::new(page, &connection.account);
    Ok(json_line(StatusCode::OK, Content::History(Box::new(history))))
}
