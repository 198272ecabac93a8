//! Reads the keys of signed tokens repeatedly.

use std::{
    convert::Infallible,
    io,
    sync::Arc,
    time::{Duration, SystemTime},
};

use http::{HeaderMap, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use rustls::ClientConfig;
use thalweg_token::{Keys, SkippedKey};
use tokio::{
    runtime::{self, LocalOptions},
    time::timeout,
};

use super::{
    body::{ACCEPTED, Body},
    exchange::USER_AGENT,
    freshness::{next_fetch, retry_after},
    host::UpstreamHost,
    redirect::followed,
    tls,
};
use crate::{
    access::KeysEnd,
    clock::now_us,
    config::{
        KEYS_BYTES_MAX, KEYS_GAP, KEYS_NAMED_MAX, KEYS_TIMEOUT, Pace, REDIRECTS_MAX, UpstreamUrl,
    },
    metrics::KeyCounts,
};

/// The interval between reads if the response states none, and its limits.
const PACE: Pace = Pace {
    default: Duration::from_secs(600),
    least: Duration::from_secs(60),
    most: Duration::from_secs(3600),
};

/// Reads the keys repeatedly. Keys stay known when later reads fail.
async fn keep(
    url: &UpstreamUrl,
    host: &UpstreamHost,
    end: &mut KeysEnd,
    counts: &KeyCounts,
) -> Infallible {
    let mut last = Vec::new();
    let mut has_failed = false;
    loop {
        let read = timeout(KEYS_TIMEOUT, read(url, host)).await;
        let read = read.unwrap_or_else(|_| Err("the request took too long".to_owned().into()));
        let (mut least, mut most) = (KEYS_GAP, KEYS_GAP);
        let keys = match read {
            Ok((text, next)) if text == last => {
                most = next;
                Ok(None)
            }
            Ok((text, next)) => match Keys::from_set(&text) {
                Ok((keys, skipped)) => {
                    tracing::info!(keys = keys.len(), "read the keys of jwks-url");
                    log_skipped(&skipped);
                    counts.jwks_keys.set(keys.len() as u64);
                    counts.jwks_keys_skipped.set(skipped.len() as u64);
                    (last, most) = (text, next);
                    Ok(Some(keys))
                }
                Err(error) => Err(error.to_string()),
            },
            Err(failure) => {
                least = failure.retry_after.unwrap_or_default().clamp(KEYS_GAP, PACE.most);
                most = least;
                Err(failure.why)
            }
        };
        match &keys {
            Err(error) if !has_failed => {
                tracing::warn!(%error, "cannot read jwks-url: keeping the old keys");
            }
            _ => {}
        }
        has_failed = keys.is_err();
        counts.jwks_errors.add(u64::from(has_failed));
        end.publish(keys.ok().flatten(), now_us() + least.as_micros() as u64);
        end.rest(least, most).await;
    }
}

/// Logs the unusable keys of a set in one line, once per set.
fn log_skipped(skipped: &[SkippedKey]) {
    if skipped.is_empty() {
        return;
    }
    let named: Vec<_> = skipped.iter().take(KEYS_NAMED_MAX).collect();
    let reasons: Vec<_> = named.iter().map(|key| format!("{}: {}", key.key, key.why)).collect();
    let reasons = reasons.join("; ");
    tracing::warn!(skipped = skipped.len(), %reasons, "skipped keys of jwks-url");
}

/// The reason for a failed read, and the earliest time of the next one.
struct KeyReadFailure {
    why: String,
    retry_after: Option<Duration>,
}

impl From<String> for KeyReadFailure {
    fn from(why: String) -> Self {
        Self { why, retry_after: None }
    }
}

/// Reads the text at the URL, and its freshness. Redirects are followed on the same host.
async fn read(
    url: &UpstreamUrl,
    host: &UpstreamHost,
) -> Result<(Vec<u8>, Duration), KeyReadFailure> {
    let mut target = url.path().to_owned();
    for _ in 0..=REDIRECTS_MAX {
        let request = request(url, &target)?;
        let sent = host.send(&request, now_us()).await;
        let (response, connection) = sent.map_err(|error| format!("{error:?}"))?;
        if let 301 | 302 | 303 | 307 | 308 = response.status().as_u16() {
            let location = followed(url, &target, response.headers());
            target = location.ok_or_else(|| "the URL redirects to another host".to_owned())?;
            continue;
        }
        if response.status() != StatusCode::OK {
            let retry_after = retry_after(response.headers(), SystemTime::now());
            return Err(KeyReadFailure {
                why: format!("the URL returns {}", response.status()),
                retry_after,
            });
        }
        let text = text(response).await?;
        // The connection ends, because the next read is minutes away.
        drop(connection);
        return Ok(text);
    }
    Err(format!("the URL redirects more than {REDIRECTS_MAX} times").into())
}

fn request(url: &UpstreamUrl, target: &str) -> Result<Request<()>, String> {
    Request::get(target)
        .header(header::HOST, url.authority())
        .header(header::USER_AGENT, USER_AGENT)
        .header(header::ACCEPT, "application/json")
        .header(header::ACCEPT_ENCODING, ACCEPTED)
        .body(())
        .map_err(|error| error.to_string())
}

async fn text(response: Response<Incoming>) -> Result<(Vec<u8>, Duration), String> {
    let (head, mut body) = response.into_parts();
    let headers: HeaderMap = head.headers;
    let too_large = |_| format!("the answer is not JSON of at most {KEYS_BYTES_MAX} bytes");
    let mut text = Body::new(&headers, KEYS_BYTES_MAX).map_err(too_large)?;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| error.to_string())?;
        if let Some(piece) = frame.data_ref() {
            text.push(piece).map_err(too_large)?;
        }
    }
    let text = text.finish().map_err(too_large)?;
    Ok((text, next_fetch(&headers, SystemTime::now(), PACE)))
}

/// Reads the keys at a URL until nobody needs them. Runs on its own thread: a slow URL only delays clients with unknown keys.
pub(crate) struct KeyReader {
    url: UpstreamUrl,
    tls: Option<Arc<ClientConfig>>,
    end: KeysEnd,
}

impl KeyReader {
    /// Returns a reader for the URL. Fails when the URL is https and this machine has no trusted authorities.
    pub(crate) fn new(url: UpstreamUrl, end: KeysEnd) -> Result<Self, String> {
        let tls = url.is_tls.then(tls::config).transpose()?;
        Ok(Self { url, tls, end })
    }

    /// Reads until nobody needs the keys. Fails when the system has no resources for a runtime.
    pub(crate) fn run(mut self, counts: &KeyCounts) -> io::Result<()> {
        let mut builder = runtime::Builder::new_current_thread();
        let runtime = builder.enable_io().enable_time().build_local(LocalOptions::default())?;
        let over = self.end.over();
        runtime.block_on(async {
            let host = UpstreamHost::new(&self.url, self.tls);
            tokio::select! {
                () = over => {}
                never = keep(&self.url, &host, &mut self.end, counts) => match never {},
            }
        });
        Ok(())
    }
}
