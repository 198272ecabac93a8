//! What browsers are told about pages of other origins (Fetch standard §3.3).
//!
//! `Access-Control-Allow-Credentials` is never sent: a token is put into a request by
//! whoever has it. What a browser would add by itself (a proxy's cookies, a client
//! certificate) would lend a page rights that are not its own.

use http::{HeaderName, HeaderValue, Method, header, request::Parts};

/// A request that was let in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Admitted {
    /// If it is of a page of another origin, who may read the answer.
    pub(super) cors: Option<HeaderValue>,
}

type Header = (HeaderName, HeaderValue);

/// Headers of ours that a page may read.
const EXPOSED: &str = "idempotency-replayed, retry-after";
/// What a page may ask with.
const METHODS: &str = "GET, POST";
/// Headers that a page may send.
const HEADERS: &str = "authorization, content-type, idempotency-key, last-event-id, cache-control";
/// How long a browser need not ask again, in seconds: Chromium forgets after two
/// hours at most, and a list of origins may change with the next start.
const PREFLIGHT_LIFE_S: &str = "600";

impl Admitted {
    /// Headers for every answer to it, later refusals included: a page should be able
    /// to read why.
    pub(crate) fn headers(&self) -> impl Iterator<Item = Header> {
        let cors = self.cors.iter().flat_map(|origin| {
            [
                (header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone()),
                fixed(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED),
            ]
        });
        // Also without CORS: from another origin the same URL is answered otherwise.
        cors.chain([fixed(header::VARY, "Origin")])
    }

    /// If the request is a preflight, a browser asking if it may send another (Fetch
    /// standard §4.8): headers of the answer, which is 204 without a body. It was
    /// admitted like that other one would be, and needs no token.
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
