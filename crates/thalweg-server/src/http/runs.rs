use std::rc::Rc;

use http::{HeaderValue, Method, StatusCode, header, request::Parts};
use thalweg_wire::ErrorCode;

use super::{
    content::{Content, FileBody},
    context::{Http, RequestConnection},
    pages::harden,
    respond::{Answer, ErrorResponse, json, text},
};
use crate::{
    access::ViewRuns,
    connection_limits::Requester,
    refusal::Refusal,
    runs::{FILES, REPORT, RunFile},
    transport::Query,
};

/// A report contains all its styles and scripts, and is shown without an origin: a script that got into it cannot send
/// requests to this server.
const REPORT_POLICY: &str = "sandbox allow-scripts; default-src 'none'; \
     script-src 'unsafe-inline'; style-src 'unsafe-inline'; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'self'";

/// Returns the rest of a path after `/runs`.
pub(super) fn path(path: &str) -> Option<&str> {
    let rest = path.strip_prefix("/runs")?;
    (rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

/// Returns the list of runs, or a file of one, to everybody who may subscribe.
pub(super) async fn answer(
    http: &Rc<Http>,
    connection: &RequestConnection,
    parts: &Parts,
    rest: &str,
    requester: &Requester,
) -> Result<Answer, ErrorResponse> {
    if parts.method != Method::GET {
        return Err(ErrorResponse::method("GET, HEAD"));
    }
    // Frames and links cannot send a token, but their URL can have a ticket.
    let query = Query::from_request_with(parts, &["ticket"])?;
    let allowed = http.allow(ViewRuns, parts, &query, requester).await?;
    let Some(runs) = http.runs(&allowed) else {
        let message = "this server serves no runs: start it with --runs thalweg-runs, the folder \
                       to which thalweg-lab bench writes them";
        return Err(Refusal::new(ErrorCode::NotFound, message).into());
    };
    Ok(match wanted(rest) {
        Some(None) => json(StatusCode::OK, runs.list().await?),
        Some(Some((name, file))) => {
            let RunFile { file: opened, bytes, is_compressed } = runs.file(name, file).await?;
            let body = FileBody::new(opened, bytes, &connection.account);
            let mut answer = text(content_type(file), Content::File(Box::new(body)));
            harden(&mut answer, REPORT_POLICY);
            let headers = answer.headers_mut();
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
            if is_compressed {
                headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            }
            answer
        }
        None => {
            let message = "a run has /runs/NAME/report.html, manifest.json and summary.json: \
                           GET /runs lists the runs";
            return Err(Refusal::new(ErrorCode::NotFound, message).into());
        }
    })
}

/// Returns the run and the file that a path names; `Some(None)` is the list of runs.
fn wanted(rest: &str) -> Option<Option<(&str, &'static str)>> {
    if rest.is_empty() {
        return Some(None);
    }
    let (name, file) = rest.strip_prefix('/')?.split_once('/')?;
    Some(Some((name, FILES.into_iter().find(|known| *known == file)?)))
}

fn content_type(file: &str) -> &'static str {
    if file == REPORT { "text/html; charset=utf-8" } else { "application/json" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_can_name_only_three_files_of_a_run() {
        let check = |asked: &str, expected| {
            assert_eq!(path(asked).and_then(wanted), expected, "{asked}");
        };
        check("/runs", Some(None));
        check("/runs/a/report.html", Some(Some(("a", REPORT))));
        check("/runs/a/summary.json", Some(Some(("a", "summary.json"))));
        check("/runs/../manifest.json", Some(Some(("..", "manifest.json"))));
        for other in [
            "/runsa",
            "/runs/",
            "/runs/a",
            "/runs/a/",
            "/runs/a/plan.json",
            "/runs/a/b/report.html",
        ] {
            check(other, None);
        }
    }
}
