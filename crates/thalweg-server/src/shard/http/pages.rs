use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header, request::Parts};
use thalweg_wire::ErrorCode;

use super::respond::{Answer, Refused, empty, text, without_body};
use crate::{
    pages::{File, Pages, VIEWS},
    refusal::Refusal,
    transport::accepts_gzip,
};

/// Everything that a page is made of is the server's own and in files: what somebody
/// publishes never becomes a script.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     connect-src 'self'; img-src 'self' data:; worker-src 'self' blob:; frame-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'self'";

/// What is shown at a path; nothing, if there is nothing to be shown. It needs no token,
/// because it holds no data.
///
/// # Errors
/// Methods other than GET and HEAD; the document of a server that has none.
pub(super) fn at(pages: &Pages, parts: &Parts) -> Result<Option<Answer>, Refused> {
    let path = parts.uri.path();
    let Some(file) = pages.at(path) else {
        if VIEWS.contains(&path) {
            let message = "this server was built without its pages: make run builds both, or \
                           npm ci and npm run build in web/ and then cargo build";
            return Err(Refusal::new(ErrorCode::NotFound, message).into());
        }
        return Ok(None);
    };
    if !is_read(&parts.method) {
        return Err(Refused::method("GET, HEAD"));
    }
    let mut answer = answer(file, &parts.headers);
    if parts.method == Method::HEAD && answer.status() == StatusCode::OK {
        answer = without_body(answer);
    }
    Ok(Some(answer))
}

/// What is shown at `/`, to browsers alone: whoever asks for no HTML is told of the API.
pub(super) fn at_root(pages: &Pages, parts: &Parts) -> Result<Option<Answer>, Refused> {
    match accepts_html(&parts.headers) {
        true => at(pages, parts),
        false => Ok(None),
    }
}

/// Whether a method only reads.
pub(super) fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// Headers of everything that a browser may show as a page.
pub(super) fn harden(answer: &mut Answer, policy: &'static str) {
    insert(answer, header::CONTENT_SECURITY_POLICY, policy);
    // A ticket may stand in the address.
    insert(answer, header::REFERRER_POLICY, "no-referrer");
    insert(answer, HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
}

fn answer(file: &File, headers: &HeaderMap) -> Answer {
    let form = file.form(accepts_gzip(headers));
    let mut answer = match is_known(headers, &form.etag) {
        true => empty(StatusCode::NOT_MODIFIED),
        false => {
            let mut answer = text(file.content_type, form.bytes.clone());
            if form.is_gzip {
                insert(&mut answer, header::CONTENT_ENCODING, "gzip");
            }
            answer
        }
    };
    harden(&mut answer, POLICY);
    let caching = match file.is_lasting {
        true => "public, max-age=31536000, immutable",
        // It may be kept and is asked for all the same.
        false => "no-cache",
    };
    insert(&mut answer, header::CACHE_CONTROL, caching);
    // `/` is something else for others.
    insert(&mut answer, header::VARY, "Accept, Accept-Encoding");
    if let Ok(etag) = HeaderValue::from_str(&form.etag) {
        answer.headers_mut().insert(header::ETAG, etag);
    }
    answer
}

fn insert(answer: &mut Answer, name: HeaderName, value: &'static str) {
    answer.headers_mut().insert(name, HeaderValue::from_static(value));
}

/// Whether a client has what bears this tag (RFC 9110 §13.1.2, compared weakly).
fn is_known(headers: &HeaderMap, etag: &str) -> bool {
    let known = headers.get_all(header::IF_NONE_MATCH).into_iter();
    let mut known = known.filter_map(|value| value.to_str().ok()).flat_map(|v| v.split(','));
    known.any(|tag| {
        let tag = tag.trim();
        tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag
    })
}

/// Whether somebody asks for HTML in so many words, as browsers do and tools do not.
fn accepts_html(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).into_iter();
    let mut ranges = accepted.filter_map(|value| value.to_str().ok()).flat_map(|v| v.split(','));
    ranges.any(|range| {
        let mut parameters = range.split(';').map(str::trim);
        let is_html = parameters.next().is_some_and(|it| it.eq_ignore_ascii_case("text/html"));
        let weight = parameters.find_map(|parameter| parameter.strip_prefix("q="));
        is_html && weight.and_then(|weight| weight.parse::<f32>().ok()).is_none_or(|q| q > 0.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())])
    }

    #[test]
    fn a_browser_is_told_by_what_it_accepts() {
        let check = |accept: &str, expected| {
            assert_eq!(accepts_html(&headers(header::ACCEPT, accept)), expected, "{accept}");
        };
        check("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", true);
        check("application/json, TEXT/HTML; q=0.1", true);
        check("*/*", false);
        check("text/*", false);
        check("text/html;q=0", false);
        check("text/html-sandboxed", false);
        check("", false);
        assert!(!accepts_html(&HeaderMap::new()));
    }

    #[test]
    fn what_a_client_has_is_told_by_its_tag() {
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
