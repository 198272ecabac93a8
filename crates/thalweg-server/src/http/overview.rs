//! The activity of all topics, the settings and subscribers of one, and the traces of subjects, for the overview page.

use std::rc::Rc;

use http::{HeaderValue, Method, StatusCode, header, request::Parts};
use serde_json::json;
use thalweg_token::Topics;
use thalweg_wire::{Excerpt, Topic};

use super::{
    content::Content,
    context::{Http, RequestConnection},
    respond::{Answer, ErrorResponse, json, json_line, text},
    trace_body::TraceBody,
};
use crate::{
    access::{Allowed, TraceSubject, ViewTopic},
    config::{RANKED_MAX, nearest},
    connection_limits::Requester,
    refusal::Refusal,
    shard::{OverviewLimits, Ranking, TopicOrder},
    traces::Trace,
    transport::{Query, parameter, parameters},
};

pub(super) const TOPICS: &str = "/overview/topics";

pub(super) const TRACE: &str = "/overview/trace";

/// Topics in an answer if the request has no `limit`.
const LIMIT: usize = 100;

pub(super) fn settings_topic(path: &str) -> Option<&str> {
    path.strip_prefix("/overview/settings/")
}

pub(super) fn subscribed_topic(path: &str) -> Option<&str> {
    path.strip_prefix("/overview/subscribers/")
}

/// Returns the topics of a ranking, the totals of all topics, and the limits of the server.
pub(super) async fn answer(
    http: &Rc<Http>,
    connection: &RequestConnection,
    parts: &Parts,
    requester: &Requester,
) -> Result<Answer, ErrorResponse> {
    if parts.method != Method::GET {
        return Err(ErrorResponse::method("GET, HEAD"));
    }
    let query = Query::from_request_with(parts, &["search", "sort", "limit", "ticket"])?;
    let holder = http.identify(parts, &query, requester).await?;
    let ranking = ranking(parts, &query, http.access().shown_to(&holder))?;
    let ranking = http.access().allow(&holder, ranking)?;
    let limits = OverviewLimits::new(http.config(), connection.permit.connections_max());
    Ok(json(StatusCode::OK, http.shard.overview(ranking, limits).await?))
}

fn ranking(parts: &Parts, query: &Query<'_>, shown: Topics) -> Result<Ranking, Refusal> {
    let sort = parameter(parts, "sort").unwrap_or("-events_per_s".into());
    let name = sort.strip_prefix('-').unwrap_or(&sort);
    let order = TopicOrder::parse(name).ok_or_else(|| {
        let nearest = nearest(name, &TopicOrder::NAMES);
        parameters::bad(format!("unknown sort {:?}{nearest}", Excerpt(name)))
    })?;
    let limit = query.limit.unwrap_or(LIMIT);
    if limit > RANKED_MAX {
        return Err(parameters::bad(format!("limit must be at most {RANKED_MAX} here")));
    }
    let search = parameter(parts, "search").unwrap_or_default().into_owned();
    Ok(Ranking { search, order, descends: name.len() < sort.len(), limit, shown })
}

/// Returns the subscribers of a topic.
pub(super) async fn topic_subscribers(
    http: &Http,
    parts: &Parts,
    topic: &str,
    requester: &Requester,
) -> Result<Answer, ErrorResponse> {
    let topic = viewed(http, parts, topic, requester).await?;
    Ok(json(StatusCode::OK, http.shard.topic_subscribers(&topic).await?))
}

/// Returns the topic of a request that its client may inspect.
async fn viewed(
    http: &Http,
    parts: &Parts,
    topic: &str,
    requester: &Requester,
) -> Result<Allowed<ViewTopic>, ErrorResponse> {
    if parts.method != Method::GET {
        return Err(ErrorResponse::method("GET, HEAD"));
    }
    let topic = Topic::from_path(topic).map_err(Refusal::from)?;
    let query = Query::from_request_with(parts, &["ticket"])?;
    Ok(http.allow(ViewTopic(topic), parts, &query, requester).await?)
}

/// Returns the stream of what a subject does from now on.
pub(super) async fn trace(
    http: &Http,
    parts: &Parts,
    requester: &Requester,
) -> Result<Answer, ErrorResponse> {
    if parts.method != Method::GET {
        return Err(ErrorResponse::method("GET, HEAD"));
    }
    let query = Query::from_request_with(parts, &["subject", "ticket"])?;
    let subject = parameter(parts, "subject").filter(|subject| !subject.is_empty());
    let subject = subject.ok_or_else(|| {
        parameters::bad("a trace needs a subject: request /overview/trace?subject=alice".into())
    })?;
    let wanted = TraceSubject(Box::from(&*subject));
    let wanted = http.allow(wanted, parts, &query, requester).await?;
    let counts = &http.shard.counts;
    let trace = Trace::open(&http.shard.common.traces, wanted);
    let trace = trace.inspect_err(|_| counts.traces_refused.add(1))?;
    let body = TraceBody::new(trace, counts, http.config().heartbeat());
    let mut answer = text("application/x-ndjson", Content::Trace(Box::new(body)));
    answer.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(answer)
}

/// Returns the settings of a topic, and where each comes from.
pub(super) async fn topic_settings(
    http: &Http,
    parts: &Parts,
    topic: &str,
    requester: &Requester,
) -> Result<Answer, ErrorResponse> {
    let topic = viewed(http, parts, topic, requester).await?;
    let ViewTopic(topic) = &*topic;
    let config = http.config();
    let described = json!({
        "topic": topic.as_str(),
        "origin": config.origin_of(topic, &http.shard.common.shared_topics),
        "settings": config.described(topic),
    });
    let mut line = described.to_string();
    line.push('\n');
    Ok(json_line(StatusCode::OK, line.into_bytes()))
}
