//! One fetch: the request, and what its response comes to.

use std::{
    hash::{BuildHasher, RandomState},
    rc::Rc,
    time::{Duration, SystemTime},
};

use bytes::Buf;
use http::{HeaderMap, HeaderName, HeaderValue, Request, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use thalweg_wire::{Topic, event};
use tokio::time::timeout;

use super::{
    body::{ACCEPTED, Body, BodyError},
    freshness::{Outcome, next_fetch, outcome, retry_after},
    host::{Host, HostError},
    redirect::followed,
};
use crate::{
    clock::now_us,
    config::{REDIRECTS_MAX, UpstreamConfig},
};
use thalweg_core::stream::Payloads;

/// Who asks, as a request says (RFC 9110 §10.1.5).
pub(super) const USER_AGENT: &str = concat!("thalweg/", env!("CARGO_PKG_VERSION"));

/// An upstream that can be asked.
pub(super) struct Upstream {
    pub(super) config: UpstreamConfig,
    /// The place of the host's limit.
    pub(super) host_index: usize,
    host: Rc<Host>,
    /// Recognises a document without keeping it. Its key is random, so that nobody can make two
    /// of the same hash.
    hasher: RandomState,
}

/// What is known of a document: enough to ask for a newer one, to see whether it is newer, and how
/// long it is fresh.
#[derive(Debug, Clone)]
pub(super) struct Known {
    /// Of its response, those of [`KEPT`].
    headers: [Option<HeaderValue>; 4],
    hash: u64,
}

/// What a response says that a 304 need not repeat (RFC 9111 §4.3.4).
const KEPT: [HeaderName; 4] =
    [header::ETAG, header::LAST_MODIFIED, header::CACHE_CONTROL, header::EXPIRES];

/// A header that is longer is not kept: each topic keeps its own.
const KEPT_BYTES_MAX: usize = 256;

/// What a request says to get a document only if it is another one.
const VALIDATORS: [HeaderName; 2] = [header::IF_NONE_MATCH, header::IF_MODIFIED_SINCE];

/// What a fetch has come to.
#[derive(Debug)]
pub(super) struct Report {
    /// Bytes of the body, as they were sent.
    pub(super) received: usize,
    pub(super) result: Result<Answer, Failure>,
}

#[derive(Debug)]
pub(super) enum Answer {
    /// Another document. It is to be asked for again after this time.
    New(Payloads, Known, Duration),
    /// The one that is known, by its status or by its text.
    Unchanged(Unchanged, Known, Duration),
    /// There is none.
    Gone,
}

/// How one knows that a document is the known one.
#[derive(Debug)]
pub(super) enum Unchanged {
    NotModified,
    /// It was sent all the same.
    Same,
}

/// Why a fetch failed, and when to try again at the earliest.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) why: Why,
    pub(super) retry_after: Option<Duration>,
}

/// Why a fetch failed.
#[derive(Debug)]
pub(super) enum Why {
    Host(HostError),
    /// It took too long.
    Late,
    /// The document is larger than it may be.
    TooLarge,
    /// Another coding than it says, or one that is not read.
    Coding,
    /// No JSON.
    Json(String),
    /// A redirect to another host, one too many, or none that can be followed.
    Redirect,
    /// A status that says: not now.
    Status(u16),
}

impl Upstream {
    pub(super) fn new(config: UpstreamConfig, host_index: usize, host: Rc<Host>) -> Self {
        Self { config, host_index, host, hasher: RandomState::new() }
    }

    /// Ends connections that were not used for long.
    pub(super) fn sweep(&self, now_us: u64) {
        self.host.sweep(now_us);
    }

    /// Asks for a document, and for one that is not the known one.
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
    ) -> Result<Answer, Failure> {
        for _ in 0..=REDIRECTS_MAX {
            let request = self.request(&target, known)?;
            let (response, connection) =
                self.host.send(&request, now_us()).await.map_err(Why::Host)?;
            if let 301 | 302 | 303 | 307 | 308 = response.status().as_u16() {
                // The connection ends with it, because its body is not read.
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
                    Answer::Unchanged(Unchanged::NotModified, known, next)
                }
                (Outcome::Gone, _) => return Ok(Answer::Gone),
                (Outcome::Failed | Outcome::Unchanged, _) => {
                    let retry_after = retry_after(&headers, now);
                    return Err(Failure { why: Why::Status(status.as_u16()), retry_after });
                }
            };
            self.host.keep(connection, now_us());
            return Ok(answer);
        }
        Err(Why::Redirect.into())
    }

    fn request(&self, target: &str, known: Option<&Known>) -> Result<Request<()>, Failure> {
        let mut request = Request::get(target)
            .header(header::HOST, self.config.url.authority())
            .header(header::USER_AGENT, USER_AGENT)
            .header(header::ACCEPT, "application/json")
            .header(header::ACCEPT_ENCODING, ACCEPTED);
        for (name, value) in VALIDATORS.into_iter().zip(known.iter().flat_map(|it| &it.headers)) {
            if let Some(value) = value {
                request = request.header(name, value);
            }
        }
        // The target is made of a checked URL and a topic, or of a redirect that could be read.
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
            // Compressed, too, it may be so large at most: a decoder might take any number of
            // bytes and give none.
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
    ) -> Result<Answer, Why> {
        let mut payloads = Payloads::default();
        payloads
            .push(|out| event::push_json(whole, self.config.body_bytes, out))
            .map_err(|error| Why::Json(error.to_string()))?;
        let hash = self.hasher.hash_one(payloads.joined());
        let now_known = Known::of(headers, hash);
        Ok(match known {
            Some(known) if known.hash == hash => {
                Answer::Unchanged(Unchanged::Same, now_known, next)
            }
            _ => Answer::New(payloads, now_known, next),
        })
    }
}

impl Known {
    fn of(headers: &HeaderMap, hash: u64) -> Self {
        // A copy: the response's own would keep all of its head.
        let copied = |name: HeaderName| {
            let lines: Vec<_> = headers.get_all(name).iter().map(HeaderValue::as_bytes).collect();
            let line = Some(lines.join(&b", "[..])).filter(|line| line.len() <= KEPT_BYTES_MAX)?;
            HeaderValue::from_bytes(&line).ok().filter(|value| !value.is_empty())
        };
        Self { headers: KEPT.map(copied), hash }
    }

    /// Whether a request can name it.
    fn is_conditional(&self) -> bool {
        self.headers.iter().zip(VALIDATORS).any(|(value, _)| value.is_some())
    }

    /// After a 304 with these headers, which are completed by what it did not repeat.
    fn updated(&self, headers: &mut HeaderMap) -> Self {
        for (name, value) in KEPT.into_iter().zip(&self.headers) {
            if let Some(value) = value
                && !headers.contains_key(&name)
            {
                headers.insert(name, value.clone());
            }
        }
        Self::of(headers, self.hash)
    }
}

impl From<Why> for Failure {
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
            Self::Host(HostError::Http(error)) => write!(f, "not answered: {error}"),
            Self::Late => f.write_str("it took longer than timeout= says"),
            Self::TooLarge => f.write_str("the document is larger than max-body= says"),
            Self::Coding => write!(f, "a body in another coding than it says, or than {ACCEPTED}"),
            Self::Json(error) => write!(f, "the document is {error}"),
            Self::Redirect => f.write_str("a redirect that leads to another host, or in circles"),
            Self::Status(status) => write!(f, "status {status}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_304_changes_what_it_says_and_no_more() {
        let headers = |lines: &[(&'static str, &'static str)]| -> HeaderMap {
            let header =
                |&(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value));
            lines.iter().map(header).collect()
        };
        let first = headers(&[("etag", "\"1\""), ("cache-control", "max-age=60"), ("age", "9")]);
        let known = Known::of(&first, 7);
        let mut answered = headers(&[("etag", "\"2\""), ("date", "now")]);
        let updated = known.updated(&mut answered);
        let expected =
            headers(&[("etag", "\"2\""), ("date", "now"), ("cache-control", "max-age=60")]);
        assert_eq!(answered, expected);
        assert_eq!(updated.headers, Known::of(&expected, 7).headers);
        assert!(updated.is_conditional());
        let long = HeaderValue::from_str(&"x".repeat(KEPT_BYTES_MAX + 1)).unwrap();
        answered.insert(header::ETAG, long);
        assert!(!known.updated(&mut answered).is_conditional());
        let nameless = headers(&[("cache-control", "max-age=60"), ("expires", "0")]);
        assert!(!Known::of(&nameless, 7).is_conditional());
    }
}
