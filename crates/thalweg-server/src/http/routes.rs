//! Answers a request: checks host and origin, identifies the holder, and routes the path to a subscription, the request of a
//! session, or an answer.

use std::rc::Rc;

use http::{HeaderName, HeaderValue, Method, Request, StatusCode, Version, request::Parts};
use hyper::{ext::Protocol, upgrade::OnUpgrade};
use thalweg_wire::{Condition, ErrorCode, Excerpt, StartAt, Topic};

use super::{
    administer,
    body::RequestBody,
    columns,
    content::{Content, HistoryBody},
    context::{Http, RequestConnection},
    discard::{ResponseRules, finish_answer, reject_get_body},
    inspect, overview, pages,
    paths::topics_path,
    post::{self, Publisher},
    respond::{Answer, ErrorResponse, empty, json_line, text},
    runs,
    sessions::{self, OpenRequest},
    takeover::{Granted, Outlet, TakeoverSlot, subscribe},
    traced_request::TracedRequest,
};
use crate::{
    access::{Admitted, Reading, ViewMetrics, Writing},
    audit::{RequestOrigin, is_audited},
    connection_limits::{Address, ConnectionPermit, Forwarded, Requester},
    protocol::{Accepted, Mount, Opening, thalweg::Thalweg},
    refusal::Refusal,
    shard::{AdHocQuery, Subscription},
    traces::Action,
    transport::{self, Client, Query, Transport, negotiate, parameters},
};

/// The outcome of `begin`: a subscription, the request of a session, or an answer.
enum Routed {
    Subscription(Granted),
    Session(OpenRequest),
    Answer(Answer),
}

/// Identifies a request in logs of proxies and of this server.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest accepted id.
const REQUEST_ID_BYTES_MAX: usize = 64;

/// The longest part of a path in the log.
const PATH_BYTES_MAX: usize = 256;

const EMPTY: HeaderValue = HeaderValue::from_static("");

/// The description of a request for the log.
struct RequestInfo {
    address: Address,
    path: Box<str>,
    /// The id in the request.
    id: Option<HeaderValue>,
    /// The request for a trace, if a subject is traced.
    traced: Option<TracedRequest>,
}

impl RequestInfo {
    fn new(parts: &Parts, address: Address) -> Self {
        let id = parts.headers.get(REQUEST_ID).filter(|id| {
            id.len() <= REQUEST_ID_BYTES_MAX && id.as_bytes().iter().all(u8::is_ascii_graphic)
        });
        let path = parts.uri.path();
        // The path may have characters beyond ASCII: cut it between two characters.
        let mut ends = (0..=path.len().min(PATH_BYTES_MAX)).rev();
        let end = ends.find(|end| path.is_char_boundary(*end)).unwrap_or(0);
        let path = path[..end].into();
        Self { address, path, id: id.cloned(), traced: None }
    }
}

/// The number of events that a read without `limit` returns.
const LIMIT: usize = 1_000;

/// Answers a request. With a `slot`, the request may take the socket of its connection.
pub(super) async fn answer(
    http: &Rc<Http>,
    slot: Option<&TakeoverSlot>,
    connection: &RequestConnection,
    request: Request<RequestBody>,
) -> Answer {
    let (mut parts, mut body) = request.into_parts();
    let rules = ResponseRules::from_request(&parts);
    let has_mount =
        || http.shared.mounts.iter().any(|mount| mount.rest(parts.uri.path()).is_some());
    if rules.is_head && !has_mount() {
        // HEAD is answered like GET, without a body (RFC 9110 §9.3.2). A GET of another protocol may take messages, which
        // a HEAD would drop.
        parts.method = Method::GET;
    }
    let (forwarded, admitted) = match http.admit(&connection.permit, &parts) {
        Ok(admitted) => admitted,
        Err(refusal) => {
            let info = RequestInfo::new(&parts, connection.permit.address());
            drop(parts);
            let answer = http.refuse(refusal.into(), &info);
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
        let info = RequestInfo::new(&parts, connection.permit.address());
        let inspected = Box::pin(inspect::answer(http, parts, &mut body)).await;
        let answer = http.finish(inspected, &admitted, &info);
        return finish_answer(http, rules, body, answer).await;
    }
    // Made before the limits are checked: a refusal of a proxy's client names that client.
    let mut info = RequestInfo::new(&parts, connection.permit.client(&forwarded));
    info.traced = TracedRequest::begin(http, &mut parts);
    let checked = match connection.permit.requester(&forwarded) {
        Ok(requester) => {
            connection.address.set(requester.address);
            let begun = match http.take_handshake(&parts, &requester) {
                Ok(()) => match check_method(&parts, &body) {
                    Ok(()) => begin(http, connection, &parts, &requester).await,
                    Err(error) => Err(error),
                },
                Err(refusal) => Err(refusal.into()),
            };
            begun.map(|checked| (checked, requester))
        }
        Err(refusal) => Err(refusal.into()),
    };
    let routed = match checked {
        Ok((Some(Routed::Subscription(granted)), _)) if rules.is_head => granted.head(),
        Ok((Some(Routed::Subscription(granted)), requester)) => {
            let outlet = match (slot, parts.extensions.remove::<OnUpgrade>()) {
                (Some(slot), _) => Outlet::Socket(slot),
                (None, Some(upgrade)) => Outlet::Tunnel(upgrade),
                (None, None) => Outlet::Response,
            };
            // This may take a long time, so the request's header and body are dropped first.
            drop((parts, body));
            let subscribed =
                subscribe(http, outlet, connection, granted, &admitted, requester).await;
            return subscribed.unwrap_or_else(|error| http.finish(Err(error), &admitted, &info));
        }
        Ok(_) if transport::is_tunnel(&parts) => Err(no_websocket().into()),
        Ok((Some(Routed::Session(request)), requester)) => {
            // Boxed because it is rare: it must not enlarge the future of every request.
            let answered =
                Box::pin(sessions::answer(http, request, &requester, &parts, &mut body)).await;
            if let (Some(traced), Ok(_)) = (&info.traced, &answered) {
                // Its connection adds lines for the commands.
                traced.leave();
            }
            answered
        }
        Ok((Some(Routed::Answer(answer)), _)) => Ok(answer),
        Ok((None, requester)) => route(http, connection, requester, &mut parts, &mut body).await,
        Err(error) => {
            drop(parts);
            Err(error)
        }
    };
    finish_answer(http, rules, body, http.finish(routed, &admitted, &info)).await
}

/// Rejects a GET with a body, and a CONNECT for a protocol other than WebSocket (RFC 9220 §3).
fn check_method(parts: &Parts, body: &RequestBody) -> Result<(), ErrorResponse> {
    if parts.method == Method::CONNECT
        && let Some(protocol) = parts.extensions.get::<Protocol>()
    {
        let name = Excerpt(protocol.as_str());
        let message = format!("{name} is not supported: :protocol must be websocket");
        return Err(Refusal::new(ErrorCode::UnsupportedProtocol, message).into());
    }
    reject_get_body(parts, body)
}

/// Returns the refusal of a tunnel without a WebSocket: a success would leave a tunnel that nobody uses.
fn no_websocket() -> Refusal {
    Refusal::new(ErrorCode::NotFound, "there is no WebSocket at this path: see /v1/topics")
}

impl Granted {
    /// Returns the response to HEAD, without opening the topics.
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
    /// Checks that a request is admitted, and parses a trusted proxy's headers about its client.
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
        info: &RequestInfo,
    ) -> Answer {
        if let Some(traced) = &info.traced {
            traced.finish(self, answered.as_ref().err().map(|error| &error.refusal));
        }
        let mut answer = answered.unwrap_or_else(|error| self.refuse(error, info));
        answer.headers_mut().extend(admitted.headers());
        answer
    }

    fn refuse(&self, error: ErrorResponse, info: &RequestInfo) -> Answer {
        let RequestInfo { address, path, id, .. } = info;
        let id = id.clone().unwrap_or_else(|| {
            // Any number will do: it only identifies the request in the log.
            let random = self.access().random().unwrap_or_default();
            HeaderValue::try_from(format!("{:016x}", random as u64)).unwrap_or(EMPTY)
        });
        let request = id.to_str().unwrap_or_default();
        self.shard
            .counts
            .refuse(&error.refusal, RequestOrigin { address: Some(*address), what: path, request });
        let is_in_log = is_audited(error.refusal.code);
        let mut answer = error.into_answer();
        if is_in_log {
            answer.headers_mut().insert(REQUEST_ID, id);
        }
        answer
    }
}

/// Begins a subscription, if the request asks for one. Its feeds are opened later.
async fn begin(
    http: &Http,
    connection: &RequestConnection,
    parts: &Parts,
    requester: &Requester,
) -> Result<Option<Routed>, ErrorResponse> {
    let path = parts.uri.path();
    let mut mounts = http.shared.mounts.iter();
    if let Some((mount, rest)) = mounts.find_map(|mount| Some((mount, mount.rest(path)?))) {
        // Boxed because it is rare: it must not enlarge the future of every request.
        return Box::pin(begin_at(http, connection, mount, rest, parts, requester)).await;
    }
    if parts.method != Method::GET {
        return Ok(None);
    }
    let Some(path_topic) = topics_path(path) else { return Ok(None) };
    let query = Query::from_request(parts)?;
    if query.sql.is_some() && (path_topic.is_some() || !query.topics.is_empty()) {
        return Err(
            parameters::bad("the query names its topic after FROM: remove the topic from the path, or the parameter topic".into()).into()
        );
    }
    let names_none = path_topic.is_none() && query.topics.is_empty();
    let reads = names_none || query.limit.is_some() || query.newest.is_some();
    if query.explains || reads && Transport::asked(parts, &query).is_none() {
        return Ok(None);
    }
    let ad_hoc = match &query.sql {
        Some(sql) => Some(Box::pin(http.shard.read_ad_hoc(sql, requester.into())).await?),
        None => None,
    };
    if ad_hoc.as_ref().is_some_and(|ad_hoc| ad_hoc.query().is_explain()) {
        return Ok(None);
    }
    if http.shard.is_draining() {
        return Err(Refusal::draining().into());
    }
    let path_topic = ad_hoc.as_ref().map(|ad_hoc| ad_hoc.topic().as_str()).or(path_topic);
    let config = (http.config(), &*http.shard.common.shared_topics);
    let request = negotiate(parts, &query, path_topic, config, &http.access())?;
    // Boxed before it waits, which keeps the future of every request small.
    let wanted = Box::new(Subscription { request, protocol: Box::new(Thalweg), ad_hoc });
    if let Some(traced) = TracedRequest::find(http, parts) {
        let first = wanted.request.topics.first();
        let action = first.map(|(topic, start)| Action::subscription(topic, *start));
        traced.set(action.unwrap_or_else(|| Action::new("connect")));
    }
    let holder = http.identify(parts, &query, requester).await?;
    let subscription = http.access().allow(&holder, wanted)?;
    Ok(Some(Routed::Subscription(Granted { subscription, holder })))
}

/// Begins a request to a mount. It passes the same checks as a request for topics.
async fn begin_at(
    http: &Http,
    connection: &RequestConnection,
    mount: &Mount,
    rest: &str,
    parts: &Parts,
    requester: &Requester,
) -> Result<Option<Routed>, ErrorResponse> {
    let access = http.access();
    let (config, sessions) = (http.config(), &http.shared.sessions);
    let connection_us = connection.opened_us;
    let opening =
        Opening { request: parts, rest, config, access: &access, sessions, connection_us };
    let Some(accepted) = (mount.accept)(&opening)? else { return Ok(None) };
    // This check comes first, because `identify` redeems the ticket. Sessions may still send and poll their last messages; a
    // negotiation would only lead to a connection that is refused.
    if !matches!(accepted, Accepted::Session(_)) && http.shard.is_draining() {
        return Err(Refusal::draining().into());
    }
    let credentials = Query::from_credentials(parts, mount.token_parameter);
    let holder = http.identify(parts, &credentials, requester).await?;
    Ok(Some(match accepted {
        Accepted::Session(session) => Routed::Session(OpenRequest { session, holder }),
        Accepted::Answer(answer) => Routed::Answer(answer.map(Content::from)),
        Accepted::Connection(request, protocol) => {
            let wanted = Box::new(Subscription { request, protocol, ad_hoc: None });
            // The policy may have changed since.
            let subscription = http.access().allow(&holder, wanted)?;
            Routed::Subscription(Granted { subscription, holder })
        }
    }))
}

async fn route(
    http: &Rc<Http>,
    connection: &RequestConnection,
    // Keeps its permit until the answer is made.
    requester: Requester,
    parts: &mut Parts,
    body: &mut RequestBody,
) -> Result<Answer, ErrorResponse> {
    let path = parts.uri.path();
    if let Some(path_topic) = topics_path(path) {
        return match (&parts.method, path_topic) {
            (&Method::GET, _) => read(http, connection, &requester, parts, path_topic).await,
            (&Method::POST, Some(topic)) => {
                let publisher = Publisher::new(http, &requester, topic, parts).await?;
                // A long time may pass between lines, as between a subscriber's events: such a publisher needs a
                // permit, like a subscriber.
                let is_beside = publisher.is_ndjson() && parts.version == Version::HTTP_2;
                // This may take a long time, so the request's URL and headers are dropped first.
                (parts.uri, parts.headers) = Default::default();
                let _permit =
                    if is_beside { Some(connection.permit.for_stream(requester)?) } else { None };
                if let Some(traced) = TracedRequest::find(http, parts) {
                    // The publisher adds lines for its parts.
                    traced.leave();
                }
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
    if let Some(topic) = overview::settings_topic(path) {
        return Box::pin(overview::topic_settings(http, parts, topic, &requester)).await;
    }
    if let Some(topic) = overview::subscribed_topic(path) {
        return Box::pin(overview::topic_subscribers(http, parts, topic, &requester)).await;
    }
    let shown = &http.config().pages;
    match path {
        // Boxed because it is rare: it must not enlarge the future of every request.
        overview::TRACE => Box::pin(overview::trace(http, parts, &requester)).await,
        overview::TOPICS => Box::pin(overview::answer(http, connection, parts, &requester)).await,
        "/v1/commands" | "/v1/tickets" | administer::DISCONNECT if parts.method != Method::POST => {
            Err(ErrorResponse::method("POST"))
        }
        "/v1/commands" => post::command(http, &requester, parts, body).await,
        "/v1/tickets" => post::ticket(http, parts, &requester).await,
        // Boxed because it is rare: it must not enlarge the future of every request.
        administer::DISCONNECT => {
            Box::pin(async {
                let holder = http.identify(parts, &Query::from_request(parts)?, &requester).await?;
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

/// Returns the explanation of a query, or its topic and columns.
async fn read_query(
    http: &Rc<Http>,
    requester: &Requester,
    parts: &Parts,
    query: &Query<'_>,
    ad_hoc: Box<AdHocQuery>,
) -> Result<Answer, ErrorResponse> {
    let holder = http.identify(parts, query, requester).await?;
    let ad_hoc = http.access().allow(&holder, ad_hoc)?;
    if query.explains || ad_hoc.query().is_explain() {
        let explained = http.shard.explain(&ad_hoc).await?;
        let explained = format!("topic     {}\n{explained}", ad_hoc.topic());
        return Ok(text("text/plain; charset=utf-8", explained.into_bytes()));
    }
    let client = Client::new(&holder, requester);
    let plan = http.shard.ask(&ad_hoc, client.counted()).await?;
    let results = plan.results().iter();
    Ok(json_line(StatusCode::OK, columns::described(ad_hoc.topic(), results)))
}

async fn delete(
    http: &Http,
    topic: &str,
    parts: &Parts,
    requester: &Requester,
) -> Result<Answer, ErrorResponse> {
    let topic = Topic::from_path(topic).map_err(Refusal::from)?;
    let query = Query::from_publish(parts)?;
    let holder = http.identify(parts, &query, requester).await?;
    let key = query.keys.first().map(|key| Box::from(&**key));
    let topic = http.access().allow(&holder, Writing { topic, key })?;
    match &topic.key {
        _ if query.ttl_us.is_some() => {
            return Err(parameters::bad("ttl is for publishes: remove it".into()).into());
        }
        Some(_) if query.condition == Some(Condition::New) => {
            let message = "a key that is new cannot be removed: use if=exists or a position";
            return Err(parameters::bad(message.into()).into());
        }
        Some(_) => http.shard.remove_key(&holder, &topic, query.condition).await?,
        None if query.condition.is_some() => {
            return Err(parameters::bad("if needs a key: name it with key=".into()).into());
        }
        None => http.shard.delete(topic).await?,
    }
    Ok(empty(StatusCode::NO_CONTENT))
}

/// Returns a topic's history, or the list of topics.
async fn read(
    http: &Rc<Http>,
    connection: &RequestConnection,
    requester: &Requester,
    parts: &Parts,
    path_topic: Option<&str>,
) -> Result<Answer, ErrorResponse> {
    let query = Query::from_request(parts)?;
    if let Some(sql) = &query.sql {
        let ad_hoc = Box::pin(http.shard.read_ad_hoc(sql, requester.into())).await?;
        return Box::pin(read_query(http, requester, parts, &query, ad_hoc)).await;
    }
    if query.limit.is_some() && query.newest.is_some() {
        return Err(parameters::bad(
            "newest and limit both set how many events to read: remove one of them".into(),
        )
        .into());
    }
    let named = path_topic
        .map(|path| {
            let topic = Topic::from_path(path).map_err(Refusal::from);
            topic.and_then(|topic| Ok((topic, query.filter()?)))
        })
        .or_else(|| query.first_topic());
    let Some(named) = named else {
        if !query.keys.is_empty() {
            return Err(parameters::bad(
                "key needs a topic: request /v1/topics/vehicles?key=bus".into(),
            )
            .into());
        }
        if query.newest.is_some() {
            return Err(parameters::bad(
                "newest needs a topic: request /v1/topics/cars?newest=5".into(),
            )
            .into());
        }
        let holder = http.identify(parts, &query, requester).await?;
        let listing = inspect::listing(&query, http.access().shown_to(&holder));
        return inspect::list(http, http.access().allow(&holder, listing)?).await;
    };
    if query.topics.len() + usize::from(path_topic.is_some()) > 1 {
        return Err(parameters::bad("a read has one topic: name only one".into()).into());
    }
    let (topic, filter) = named?;
    let start = match query.starts()?.as_slice() {
        [] => StartAt::Earliest,
        [start] => *start,
        _ => {
            return Err(
                parameters::bad("a read takes only one cursor: remove the others".into()).into()
            );
        }
    };
    let holder = http.identify(parts, &query, requester).await?;
    let topic = http.access().allow(&holder, Reading { topic, filter })?;
    if query.newest.is_some() && http.config().has_keys(&topic.topic) {
        let message =
            format!("newest is for logs: read {} in pages with limit and cursor", topic.topic);
        return Err(parameters::bad(message).into());
    }
    let limit = query.newest.map_or(query.limit.unwrap_or(LIMIT), |count| count as usize);
    let client = Client::new(&holder, requester);
    let page = http.shard.read(client, &connection.account, &topic, start, limit).await?;
    let history = HistoryBody::new(page, &connection.account);
    Ok(json_line(StatusCode::OK, Content::History(Box::new(history))))
}
