use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header, request::Parts};
use thalweg_wire::ErrorCode;

use super::{
    content::Content,
    respond::{Answer, ErrorResponse, empty, text},
};
use crate::{
    pages::{BOOK, File, PAGE_PATHS, Pages},
    refusal::Refusal,
    transport::{takes, takes_gzip},
};

/// A page loads scripts and styles only from files of this server: published data never becomes a script.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     connect-src 'self'; img-src 'self' data:; worker-src 'self' blob:; frame-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'self'";

/// The answer to `GET /` for clients that are not browsers, and for servers without pages. Its lines fit a narrow window.
const HELLO: &str = "Thalweg pushes live data.\n\n\
    POST /v1/topics/{topic}  publish JSON\n\
    GET  /v1/topics/{topic}  subscribe, with\n\
    \x20  Upgrade: websocket\n\
    \x20  Accept: text/event-stream\n\
    \x20  Accept: application/x-ndjson\n\
    \x20  ?wait=25s\n\
    \x20  ?transport=forever-frame\n\
    \x20  or read, with ?limit=100\n\
    GET  /v1/topics          list the topics\n\
    POST /v1/commands        a command\n\
    POST /v1/tickets         a ticket for a URL\n\
    GET  /docs/              the documentation\n\
    GET  /healthz  /readyz  /metrics\n";

/// Returns the page at a path; `None` if there is none. It needs no token, because it contains no data. Fails for methods other
/// than GET and HEAD, and for the documentation of a server that was built without it.
pub(super) fn at(pages: &Pages, parts: &Parts) -> Result<Option<Answer>, ErrorResponse> {
    let path = parts.uri.path();
    if path == "/docs" {
        // Relative, because a proxy may serve this server below a path of its own.
        let mut answer = empty(StatusCode::PERMANENT_REDIRECT);
        insert(&mut answer, header::LOCATION, "docs/");
        return Ok(Some(answer));
    }
    let Some(file) = pages.at(path) else {
        if path == BOOK {
            let message = "this server was built without its documentation: run make docs, then \
                           build the server again, or read docs/README.md in its repository";
            return Err(Refusal::new(ErrorCode::NotFound, message).into());
        }
        if PAGE_PATHS.contains(&path) {
            let message = "this server was built without its pages: start it with make run, or run \
                           npm ci and npm run build in web/, and then cargo build";
            return Err(Refusal::new(ErrorCode::NotFound, message).into());
        }
        return Ok(None);
    };
    if parts.method != Method::GET {
        return Err(ErrorResponse::method("GET, HEAD"));
    }
    Ok(Some(answer(file, &parts.headers)))
}

/// Returns the page at `/` for clients that accept HTML by name, as browsers do. Other tools get a text about the API.
pub(super) fn at_root(pages: &Pages, parts: &Parts) -> Result<Option<Answer>, ErrorResponse> {
    match takes(&parts.headers, &header::ACCEPT, "text/html") {
        true => at(pages, parts),
        false => Ok(None),
    }
}

/// Returns the answer at `/` for all other clients.
pub(super) fn hello() -> Answer {
    let mut answer = text("text/plain; charset=utf-8", HELLO);
    answer.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept"));
    answer
}

/// Adds security headers to an answer that a browser may show as a page.
pub(super) fn harden(answer: &mut Answer, policy: &'static str) {
    insert(answer, header::CONTENT_SECURITY_POLICY, policy);
    // The page's URL may contain a ticket.
    insert(answer, header::REFERRER_POLICY, "no-referrer");
    insert(answer, HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
}

fn answer(file: &File, headers: &HeaderMap) -> Answer {
    let form = file.form(takes_gzip(headers));
    let mut answer = match is_known(headers, &form.etag) {
        true => empty(StatusCode::NOT_MODIFIED),
        false => {
            let mut answer = text(file.content_type, Content::Shared(form.bytes.clone()));
            if form.is_gzip {
                insert(&mut answer, header::CONTENT_ENCODING, "gzip");
            }
            answer
        }
    };
    harden(&mut answer, POLICY);
    let caching = match file.is_immutable {
        true => "public, max-age=31536000, immutable",
        // A browser may store it, but must ask each time whether it is current.
        false => "no-cache",
    };
    insert(&mut answer, header::CACHE_CONTROL, caching);
    // At `/` the answer depends on Accept.
    insert(&mut answer, header::VARY, "Accept, Accept-Encoding");
    if let Ok(etag) = HeaderValue::from_str(&form.etag) {
        answer.headers_mut().insert(header::ETAG, etag);
    }
    answer
}

fn insert(answer: &mut Answer, name: HeaderName, value: &'static str) {
    answer.headers_mut().insert(name, HeaderValue::from_static(value));
}

/// Returns whether the client already has the version with this tag (RFC 9110 §13.1.2, compared weakly).
fn is_known(headers: &HeaderMap, etag: &str) -> bool {
    let known = headers.get_all(header::IF_NONE_MATCH).into_iter();
    let mut known = known.filter_map(|value| value.to_str().ok()).flat_map(|v| v.split(','));
    known.any(|tag| {
        let tag = tag.trim();
        tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())])
    }

    #[test]
    fn a_browser_accepts_html_by_name() {
        let check = |accept: &str, expected| {
            assert_eq!(
                takes(&headers(header::ACCEPT, accept), &header::ACCEPT, "text/html"),
                expected,
                "{accept}"
            );
        };
        check("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", true);
        check("application/json, TEXT/HTML; q=0.1", true);
        check("*/*", false);
        check("text/*", false);
        check("text/html;q=0", false);
        check("text/html-sandboxed", false);
        check("", false);
        assert!(!takes(&HeaderMap::new(), &header::ACCEPT, "text/html"));
    }

    #[test]
    fn a_known_etag_is_recognised() {
        let check = |tags: &str, expected| {
            let is_known = is_known(&headers(header::IF_NONE_MATCH, tags), "\"a1\"");
            assert_eq!(is_known, expected, "{tags}");
        };
        check("\"a1\"", true);
        check("W/\"a1\"", true);
        check("\"b2\", \"a1\"", true);
        check("*", true);
        check("\"b2\"", false);
        check("a1", false);
        check("\"a1-gzip\"", false);
        check("", false);
    }
}
