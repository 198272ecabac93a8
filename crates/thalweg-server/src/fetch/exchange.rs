//! One fetch: the request, and the result of its response.

use std::{
    hash::{BuildHasher, RandomState},
    rc::Rc,
    time::{Duration, SystemTime},
};

use bytes::Buf;
use http::{HeaderMap, HeaderName, HeaderValue, Request, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use thalweg_core::stream::Payloads;
use thalweg_wire::{Topic, event};
use tokio::time::timeout;

use super::{
    body::{ACCEPTED, Body, BodyError},
    freshness::{Outcome, next_fetch, outcome, retry_after},
    host::{HostError, UpstreamHost},
    redirect::followed,
};
use crate::{
    clock::now_us,
    config::{REDIRECTS_MAX, UpstreamConfig},
};

/// The User-Agent of requests (RFC 9110 §10.1.5).
pub(super) const USER_AGENT: &str = concat!("thalweg/", env!("CARGO_PKG_VERSION"));

pub(super) struct Upstream {
    pub(super) config: UpstreamConfig,
    /// The index of the host's limit.
    pub(super) host_index: usize,
    host: Rc<UpstreamHost>,
    /// Recognizes a document without keeping it. The hasher's key is random, so nobody can make two documents with the same hash.
    hasher: RandomState,
}

/// A known document: enough to request a newer one, to compare it, and to compute its freshness.
#[derive(Debug, Clone)]
pub(super) struct Known {
    /// The response's headers among [`KEPT`].
    headers: [Option<HeaderValue>; 4],
    hash: u64,
}

/// Response headers that a 304 need not repeat (RFC 9111 §4.3.4).
const KEPT: [HeaderName; 4] =
    [header::ETAG, header::LAST_MODIFIED, header::CACHE_CONTROL, header::EXPIRES];

/// A longer header is not kept, because each topic keeps its own copy.
const KEPT_BYTES_MAX: usize = 256;

/// Request headers that make a request conditional.
const VALIDATORS: [HeaderName; 2] = [header::IF_NONE_MATCH, header::IF_MODIFIED_SINCE];

#[derive(Debug)]
pub(super) struct Report {
    /// Received bytes of the body, before decoding.
    pub(super) received: usize,
    pub(super) result: Result<FetchOutcome, FetchFailure>,
}

#[derive(Debug)]
pub(super) enum FetchOutcome {
    /// A new document. Fetch again after this time.
    New(Payloads, Known, Duration),
    /// The document is unchanged, by the response's status or by its text.
    Unchanged(Unchanged, Known, Duration),
    Gone,
}

#[derive(Debug)]
pub(super) enum Unchanged {
    NotModified,
    /// The upstream sent the same document again.
    Same,
}

/// The reason for a failed fetch, and the earliest time of the next one.
#[derive(Debug)]
pub(super) struct FetchFailure {
    pub(super) why: Why,
    pub(super) retry_after: Option<Duration>,
}

#[derive(Debug)]
pub(super) enum Why {
    Host(HostError),
    Late,
    TooLarge,
    /// The body has a wrong or an unsupported coding.
    Coding,
    Json(String),
    /// A redirect to another host, too many redirects, or an invalid one.
    Redirect,
    /// A status that asks to retry later.
    Status(u16),
}

impl Upstream {
    pub(super) fn new(config: UpstreamConfig, host_index: usize, host: Rc<UpstreamHost>) -> Self {
        Self { config, host_index, host, hasher: RandomState::new() }
    }

    /// Closes idle connections.
    pub(super) fn sweep(&self, now_us: u64) {
        self.host.sweep(now_us);
    }

    /// Fetches a document, conditionally if one is known.
    pub(super) async fn fetch(&self, topic: &Topic, known: Option<&Known>) -> Report {
        let mut received = 0;
        let target = self.config.url.target(topic);
        let asking = timeout(self.config.timeout, self.ask(target, known, &mut received));
        let result = asking.await.unwrap_or_else(|_| Err(Why::Late.into()));
        Report { received, result }
    }

    async fn ask(
        &self,
        mut target: String,
        known: Option<&Known>,
        received: &mut usize,
    ) -> Result<FetchOutcome, FetchFailure> {
        for _ in 0..=REDIRECTS_MAX {
            let request = self.request(&target, known)?;
            let (response, connection) =
                self.host.send(&request, now_us()).await.map_err(Why::Host)?;
            if let 301 | 302 | 303 | 307 | 308 = response.status().as_u16() {
                // The connection ends, because the body of the response is not read.
                let location = followed(&self.config.url, &target, response.headers());
                target = location.ok_or(Why::Redirect)?;
                continue;
            }
            let (head, body) = response.into_parts();
            let (status, mut headers, now) = (head.status, head.headers, SystemTime::now());
            let conditional = known.filter(|known| known.is_conditional());
            let answer = match (outcome(status, conditional.is_some()), conditional) {
                (Outcome::Document, _) => {
                    let next = next_fetch(&headers, now, self.config.pace);
                    let whole = self.read(&headers, body, received).await?;
                    self.document(&whole, &headers, known, next)?
                }
                (Outcome::Unchanged, Some(known)) => {
                    let known = known.updated(&mut headers);
                    let next = next_fetch(&headers, now, self.config.pace);
                    FetchOutcome::Unchanged(Unchanged::NotModified, known, next)
                }
                (Outcome::Gone, _) => return Ok(FetchOutcome::Gone),
                (Outcome::Failed | Outcome::Unchanged, _) => {
                    let retry_after = retry_after(&headers, now);
                    return Err(FetchFailure { why: Why::Status(status.as_u16()), retry_after });
                }
            };
            self.host.keep(connection, now_us());
            return Ok(answer);
        }
        Err(Why::Redirect.into())
    }

    fn request(&self, target: &str, known: Option<&Known>) -> Result<Request<()>, FetchFailure> {
        let mut request = Request::get(target)
            .header(header::HOST, self.config.url.authority())
            .header(header::USER_AGENT, USER_AGENT)
            .header(header::ACCEPT, "application/json")
            .header(header::ACCEPT_ENCODING, ACCEPTED);
        for (name, value) in
            VALIDATORS.into_iter().zip(known.iter().flat_map(|known| &known.headers))
        {
            if let Some(value) = value {
                request = request.header(name, value);
            }
        }
        // The target comes from a checked URL and a topic, or from a parsed redirect.
        request.body(()).map_err(|_| Why::Redirect.into())
    }

    async fn read(
        &self,
        headers: &HeaderMap,
        mut body: Incoming,
        received: &mut usize,
    ) -> Result<Vec<u8>, Why> {
        let mut whole = Body::new(headers, self.config.body_bytes)?;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| Why::Host(HostError::Http(error)))?;
            let Ok(piece) = frame.into_data() else { continue };
            *received += piece.len();
            // The compressed bytes have the same limit: a decoder might read any number of bytes and return none.
            if *received > self.config.body_bytes {
                return Err(Why::TooLarge);
            }
            whole.push(piece.chunk())?;
        }
        Ok(whole.finish()?)
    }

    fn document(
        &self,
        whole: &[u8],
        headers: &HeaderMap,
        known: Option<&Known>,
        next: Duration,
    ) -> Result<FetchOutcome, Why> {
        let mut payloads = Payloads::default();
        payloads
            .push(|out| event::push_json(whole, self.config.body_bytes, out))
            .map_err(|error| Why::Json(error.to_string()))?;
        let hash = self.hasher.hash_one(payloads.joined());
        let now_known = Known::from_headers(headers, hash);
        Ok(match known {
            Some(known) if known.hash == hash => {
                FetchOutcome::Unchanged(Unchanged::Same, now_known, next)
            }
            _ => FetchOutcome::New(payloads, now_known, next),
        })
    }
}

impl Known {
    fn from_headers(headers: &HeaderMap, hash: u64) -> Self {
        // A copy, because the response's own value would keep the whole head in memory.
        let copied = |name: HeaderName| {
            let lines: Vec<_> = headers.get_all(name).iter().map(HeaderValue::as_bytes).collect();
            let line = Some(lines.join(&b", "[..])).filter(|line| line.len() <= KEPT_BYTES_MAX)?;
            HeaderValue::from_bytes(&line).ok().filter(|value| !value.is_empty())
        };
        Self { headers: KEPT.map(copied), hash }
    }

    fn is_conditional(&self) -> bool {
        self.headers.iter().zip(VALIDATORS).any(|(value, _)| value.is_some())
    }

    /// Returns the document after a 304 with these headers. Adds to `headers` those that the 304 did not repeat.
    fn updated(&self, headers: &mut HeaderMap) -> Self {
        for (name, value) in KEPT.into_iter().zip(&self.headers) {
            if let Some(value) = value
                && !headers.contains_key(&name)
            {
                headers.insert(name, value.clone());
            }
        }
        Self::from_headers(headers, self.hash)
    }
}

impl From<Why> for FetchFailure {
    fn from(why: Why) -> Self {
        Self { why, retry_after: None }
    }
}

impl From<BodyError> for Why {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::TooLarge => Self::TooLarge,
            BodyError::Coding => Self::Coding,
        }
    }
}

impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Host(HostError::Connect(error)) => write!(f, "no connection: {error}"),
            Self::Host(HostError::Http(error)) => write!(f, "no response: {error}"),
            Self::Late => f.write_str("the fetch took longer than timeout= allows"),
            Self::TooLarge => f.write_str("the document is larger than max-body= allows"),
            Self::Coding => write!(f, "the body's Content-Encoding is wrong, or not {ACCEPTED}"),
            Self::Json(error) => write!(f, "the document is {error}"),
            Self::Redirect => f.write_str("the upstream redirects to another host, or in a loop"),
            Self::Status(status) => write!(f, "status {status}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_304_changes_only_the_fields_that_it_has() {
        let headers = |lines: &[(&'static str, &'static str)]| -> HeaderMap {
            let header =
                |&(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value));
            lines.iter().map(header).collect()
        };
        let first = headers(&[("etag", "\"1\""), ("cache-control", "max-age=60"), ("age", "9")]);
        let known = Known::from_headers(&first, 7);
        let mut answered = headers(&[("etag", "\"2\""), ("date", "now")]);
        let updated = known.updated(&mut answered);
        let expected =
            headers(&[("etag", "\"2\""), ("date", "now"), ("cache-control", "max-age=60")]);
        assert_eq!(answered, expected);
        assert_eq!(updated.headers, Known::from_headers(&expected, 7).headers);
        assert!(updated.is_conditional());
        let long = HeaderValue::from_str(&"x".repeat(KEPT_BYTES_MAX + 1)).unwrap();
        answered.insert(header::ETAG, long);
        assert!(!known.updated(&mut answered).is_conditional());
        let nameless = headers(&[("cache-control", "max-age=60"), ("expires", "0")]);
        assert!(!Known::from_headers(&nameless, 7).is_conditional());
    }
}
