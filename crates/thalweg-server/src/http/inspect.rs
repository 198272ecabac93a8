use std::{rc::Rc, sync::atomic::Ordering::Relaxed};

use http::{HeaderMap, HeaderValue, Method, StatusCode, header, request::Parts};
use thalweg_token::Topics;
use thalweg_wire::ErrorCode;

use super::{
    administer::{DISCONNECT, disconnect},
    body::RequestBody,
    context::Http,
    discard::reject_get_body,
    respond::{Answer, ErrorResponse, json, text},
};
use crate::{
    access::{Allowed, ViewMetrics},
    metrics::{self, ExpositionFormat},
    refusal::Refusal,
    shard::TopicListing,
    transport::{Query, prefers},
};

/// Topics in a list if the request has no `limit`.
const LIMIT: usize = 1_000;

/// Answers a request on the admin listener.
pub(super) async fn answer(
    http: &Rc<Http>,
    parts: Parts,
    body: &mut RequestBody,
) -> Result<Answer, ErrorResponse> {
    reject_get_body(&parts, body)?;
    let path = parts.uri.path();
    // On this listener everybody has the rights of a separate policy.
    let Some(access) = http.shared.admin.clone() else { return Err(Refusal::draining().into()) };
    let everybody = access.holders.everybody();
    if path == DISCONNECT {
        return match parts.method {
            Method::POST => disconnect(http, &parts, &access, &everybody, body).await,
            _ => Err(ErrorResponse::method("POST")),
        };
    }
    if !matches!(path, "/healthz" | "/readyz" | "/metrics" | "/v1/topics") {
        let message = "this address has only /metrics, /v1/topics, /v1/admin/disconnect, /healthz \
                       and /readyz: for everything else, use the server's main address (--listen)";
        return Err(Refusal::new(ErrorCode::NotFound, message).into());
    }
    if parts.method != Method::GET {
        return Err(ErrorResponse::method("GET, HEAD"));
    }
    match path {
        "/healthz" => Ok(healthy()),
        "/readyz" => ready(http),
        "/metrics" => {
            let allowed = access.allow(&everybody, ViewMetrics)?;
            Ok(metrics(http, &parts.headers, &allowed))
        }
        _ => {
            let listing = listing(&Query::from_request(&parts)?, access.shown_to(&everybody));
            list(http, access.allow(&everybody, listing)?).await
        }
    }
}

pub(super) fn healthy() -> Answer {
    text("text/plain; charset=utf-8", "ok\n")
}

pub(super) fn ready(http: &Http) -> Result<Answer, ErrorResponse> {
    if http.shared.shutdown.is_announced.load(Relaxed) {
        return Err(Refusal::draining().into());
    }
    match http.shard.common.has_caught_up() {
        Some(false) => Err(Refusal::catching_up().into()),
        Some(true) | None => Ok(healthy()),
    }
}

pub(super) fn metrics(http: &Http, headers: &HeaderMap, _: &Allowed<ViewMetrics>) -> Answer {
    let form = match prefers(headers, &header::ACCEPT, metrics::OPEN_METRICS, "text/plain") {
        true => ExpositionFormat::OpenMetrics,
        false => ExpositionFormat::Text,
    };
    let mut answer = text(form.content_type(), http.shard.common.metrics.text(form).into_bytes());
    answer.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept"));
    answer
}

/// Returns the parameters of a list of topics, restricted to those shown to its reader.
pub(super) fn listing(query: &Query<'_>, shown: Topics) -> TopicListing {
    let text = |text: &Option<std::borrow::Cow<'_, str>>| text.as_deref().unwrap_or("").into();
    let limit = query.limit.unwrap_or(LIMIT);
    TopicListing { after: text(&query.after), prefix: text(&query.prefix), limit, shown }
}

pub(super) async fn list(
    http: &Rc<Http>,
    listing: Allowed<TopicListing>,
) -> Result<Answer, ErrorResponse> {
    Ok(json(StatusCode::OK, http.shard.list(listing).await?))
}
