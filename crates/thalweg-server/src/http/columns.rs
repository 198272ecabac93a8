use http::{Method, StatusCode, request::Parts};
use serde_json::json;
use thalweg_columns::Column;
use thalweg_wire::Topic;

use super::{
    context::Http,
    respond::{Answer, ErrorResponse, json_line},
};
use crate::{access::Reading, connection_limits::Requester, refusal::Refusal, transport::Query};

pub(super) fn path_topic(path: &str) -> Option<&str> {
    // Not `/v1/topics/cars/columns`, because `cars/columns` may be a topic itself.
    path.strip_prefix("/v1/columns/")
}

/// Returns the columns of a topic, for everybody who may subscribe to it.
pub(super) async fn answer(
    http: &Http,
    parts: &Parts,
    topic: &str,
    requester: &Requester,
) -> Result<Answer, ErrorResponse> {
    if parts.method != Method::GET {
        return Err(ErrorResponse::method("GET, HEAD"));
    }
    let topic = Topic::from_path(topic).map_err(Refusal::from)?;
    let query = Query::from_request_with(parts, &["ticket"])?;
    let reading = http.allow(Reading::all(topic), parts, &query, requester).await?;
    let columns = http.shard.topic_columns(&reading, requester.into()).await?;
    let Reading { topic, .. } = reading.into_inner();
    let columns = columns.iter().flat_map(|columns| columns.iter());
    let line = described(&topic, columns);
    Ok(json_line(StatusCode::OK, line))
}

/// Returns a topic and its columns as JSON.
pub(super) fn described<'a>(topic: &Topic, columns: impl Iterator<Item = &'a Column>) -> Vec<u8> {
    let columns = columns.map(|column| json!({ "name": column.name, "type": column.type_name() }));
    let columns: Vec<_> = columns.collect();
    let mut line = json!({ "topic": topic.as_str(), "columns": columns }).to_string();
    line.push('\n');
    line.into_bytes()
}
