//! Headers for pages of other origins (Fetch standard §3.3).
//!
//! The server never sends `Access-Control-Allow-Credentials`, because a client adds its token to the request itself. Credentials
//! that a browser adds automatically (a proxy's cookies, a client certificate) would give a page rights that are not its own.

use http::{HeaderName, HeaderValue, Method, header, request::Parts};

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Admitted {
    /// The origin that may read the answer, if the request comes from a page of another origin.
    pub(super) cors: Option<HeaderValue>,
}

type Header = (HeaderName, HeaderValue);

/// Response headers that a page may read.
const EXPOSED: &str =
    "idempotency-replayed, retry-after, thalweg-position, thalweg-resume, x-request-id";
/// Methods that a page may use.
const METHODS: &str = "GET, POST, DELETE";
/// Headers that a page may send.
const HEADERS: &str = "authorization, content-type, idempotency-key, last-event-id, cache-control, x-request-id, \
     x-requested-with, x-signalr-user-agent";
/// How long a browser may cache the answer to a preflight, in seconds. Chromium caches it for at most two hours, but the
/// allowed origins may change at the next start.
const PREFLIGHT_LIFE_S: &str = "600";

impl Admitted {
    /// Returns headers for every answer, refusals included, so that a page can read the reason.
    pub(crate) fn headers(&self) -> impl Iterator<Item = Header> {
        let cors = self.cors.iter().flat_map(|origin| {
            [
                (header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone()),
                fixed(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED),
            ]
        });
        // Even without CORS, because the answer to the same URL depends on the origin.
        cors.chain([fixed(header::VARY, "Origin")])
    }

    /// Returns headers for the answer to a preflight (Fetch standard §4.8). The answer is 204 without a body, and a preflight
    /// needs no token. Returns `None` if the request is not a preflight.
    pub(crate) fn preflight(&self, request: &Parts) -> Option<impl Iterator<Item = Header>> {
        let is_preflight = request.method == Method::OPTIONS
            && request.headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
        is_preflight.then(|| {
            self.headers().chain([
                fixed(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS),
                fixed(header::ACCESS_CONTROL_ALLOW_HEADERS, HEADERS),
                fixed(header::ACCESS_CONTROL_MAX_AGE, PREFLIGHT_LIFE_S),
            ])
        })
    }
}

fn fixed(name: HeaderName, value: &'static str) -> Header {
    (name, HeaderValue::from_static(value))
}
