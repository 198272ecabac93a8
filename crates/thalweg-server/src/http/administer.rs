//! Disconnects clients for administrators.

use std::rc::Rc;

use http::{StatusCode, request::Parts};
use serde::Deserialize;
use serde_json::json;
use thalweg_wire::{ErrorCode, Pattern};

use super::{
    body::RequestBody,
    context::Http,
    respond::{Answer, ErrorResponse, json},
};
use crate::{
    access::{AccessPolicy, Administering, Holder},
    config::ADMIN_BODY_BYTES,
    refusal::Refusal,
    shard::Disconnect,
};

pub(super) const DISCONNECT: &str = "/v1/admin/disconnect";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WantedClients {
    subject: Option<Box<str>>,
    token: Option<Box<str>>,
    topics: Option<String>,
}

/// Closes the connections that a body names, for an administrator.
pub(super) async fn disconnect(
    http: &Rc<Http>,
    parts: &Parts,
    access: &AccessPolicy,
    holder: &Holder,
    body: &mut RequestBody,
) -> Result<Answer, ErrorResponse> {
    // A client without the right is refused before the body is read.
    access.allow(holder, Administering)?;
    let bad = |message: String| Refusal::new(ErrorCode::BadCommand, message);
    let too_large = || bad(format!("the body is longer than {ADMIN_BODY_BYTES} bytes: send fewer"));
    let body = http.whole(body, ADMIN_BODY_BYTES, too_large).await?;
    let form = r#"{"subject":"alice"}, {"token":"orders"} or {"topics":"rooms/7/**"}"#;
    let wanted: WantedClients = serde_json::from_slice(&body)
        .map_err(|_| bad(format!("the body must name the connections to close: {form}")))?;
    let wanted = match (wanted.subject, wanted.token, wanted.topics) {
        (Some(subject), None, None) => Disconnect::Subject(subject),
        (None, Some(name), None) => Disconnect::Token(name),
        (None, None, Some(topics)) => {
            let pattern: Pattern =
                topics.parse().map_err(|error| bad(format!("topics: {error}")))?;
            Disconnect::Topics(pattern)
        }
        _ => return Err(bad(format!("the body must name the connections to close: {form}")).into()),
    };
    let said = format!("{wanted:?}");
    let ended = http.shard.disconnect(access.allow(holder, wanted)?).await?;
    let (subject, token, what) = (holder.subject(), holder.token(), parts.uri.path());
    tracing::info!(target: "audit", subject, token, what, wanted = said, ended, "disconnected");
    Ok(json(StatusCode::OK, json!({ "disconnected": ended }).to_string().into_bytes()))
}
