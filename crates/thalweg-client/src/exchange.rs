//! Requests and answers on kept connections.

use std::{io::Read, sync::Mutex, time::SystemTime};

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    Method, Request, Response,
    body::Incoming,
    header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use tokio::time::timeout;
use tokio_rustls::rustls::ClientConfig;

use crate::{
    Error, Http, Options, Refusal,
    backoff::retry_after,
    limits::{ANSWER_WAIT, IDLE_LINKS_MAX, MESSAGE_BYTES_MAX, REFUSAL_BYTES_MAX},
    link::{Body, Link},
    target::Server,
    tls,
};

#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) server: Server,
    tls: Option<ClientConfig>,
    http: Http,
    authorization: Option<HeaderValue>,
    idle: Mutex<Vec<Link>>,
}

/// A request with a whole body.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) method: Method,
    /// The path, with its query.
    pub(crate) path: String,
    pub(crate) headers: Vec<(HeaderName, String)>,
    pub(crate) body: Bytes,
    /// Whether the request is idempotent and may therefore use a kept connection, which may have ended unnoticed.
    pub(crate) is_repeatable: bool,
}

impl Ask {
    pub(crate) fn get(path: String) -> Self {
        Self {
            method: Method::GET,
            path,
            headers: Vec::new(),
            body: Bytes::new(),
            is_repeatable: true,
        }
    }

    pub(crate) fn post(path: String, content_type: &str, body: Bytes) -> Self {
        let headers = vec![(CONTENT_TYPE, content_type.to_owned())];
        Self { method: Method::POST, path, headers, body, is_repeatable: false }
    }
}

impl Exchange {
    pub(crate) fn new(server: Server, options: &Options) -> Result<Self, Error> {
        let tls = server.is_tls.then(|| tls::config(options)).transpose()?;
        let authorization = match &options.token {
            Some(token) => {
                let value = HeaderValue::from_str(&format!("Bearer {token}"));
                let mut value = value.map_err(|_| Error::Token)?;
                value.set_sensitive(true);
                Some(value)
            }
            None => None,
        };
        Ok(Self { server, tls, http: options.http, authorization, idle: Mutex::default() })
    }

    /// Opens a separate connection; `http` overrides the options.
    pub(crate) async fn open(&self, http: Option<Http>) -> Result<Link, Error> {
        Link::open(&self.server, self.tls.as_ref(), http.unwrap_or(self.http)).await
    }

    /// Returns the request with the headers of all requests.
    pub(crate) fn request(
        &self,
        method: Method,
        path: &str,
        headers: &[(HeaderName, String)],
        body: Body,
    ) -> Result<Request<Body>, Error> {
        let why =
            |error: hyper::http::Error| Error::Url { url: path.to_owned(), why: error.to_string() };
        let mut request = Request::builder().method(method).uri(path).body(body).map_err(why)?;
        for (name, value) in headers {
            let value = HeaderValue::from_str(value).map_err(|error| why(error.into()))?;
            request.headers_mut().insert(name, value);
        }
        if let Some(authorization) = &self.authorization {
            request.headers_mut().insert(AUTHORIZATION, authorization.clone());
        }
        Ok(request)
    }

    /// Sends a request; returns headers and body of a successful answer.
    pub(crate) async fn ask(&self, ask: &Ask) -> Result<(HeaderMap, Bytes), Error> {
        let asking = async {
            let (link, answer) = self.begin(ask).await?;
            let (head, body) = success(answer).await?.into_parts();
            let body = Limited::new(body, MESSAGE_BYTES_MAX).collect().await;
            let body = body.map_err(|error| Error::connection("the answer was cut", error))?;
            self.keep(link);
            Ok((head.headers, body.to_bytes()))
        };
        let late = || Error::Connection(format!("no answer within {ANSWER_WAIT:?}"));
        timeout(ANSWER_WAIT, asking).await.unwrap_or_else(|_| Err(late()))
    }

    /// Sends a request; returns the connection and the head of its answer.
    pub(crate) async fn begin(&self, ask: &Ask) -> Result<(Link, Response<Incoming>), Error> {
        if ask.is_repeatable
            && let Some(mut link) = self.take()
        {
            match self.send(&mut link, ask).await {
                Err(Error::Connection(_)) => {}
                answer => return Ok((link, answer?)),
            }
        }
        let mut link = self.open(None).await?;
        let answer = self.send(&mut link, ask).await?;
        Ok((link, answer))
    }

    async fn send(&self, link: &mut Link, ask: &Ask) -> Result<Response<Incoming>, Error> {
        let body = Full::new(ask.body.clone()).boxed_unsync();
        let request = self.request(ask.method.clone(), &ask.path, &ask.headers, body)?;
        link.send(&self.server, request).await
    }

    /// Keeps a connection, whose answer was read to its end, for the next request.
    pub(crate) fn keep(&self, link: Link) {
        if link.is_open()
            && let Ok(mut idle) = self.idle.lock()
            && idle.len() < IDLE_LINKS_MAX
        {
            idle.push(link);
        }
    }

    fn take(&self) -> Option<Link> {
        let mut idle = self.idle.lock().ok()?;
        std::iter::from_fn(|| idle.pop()).find(Link::is_open)
    }
}

/// Returns a successful answer, or the refusal in it.
pub(crate) async fn success(answer: Response<Incoming>) -> Result<Response<Incoming>, Error> {
    if answer.status().is_success() {
        return Ok(answer);
    }
    Err(refusal(answer).await.into())
}

pub(crate) async fn refusal(answer: Response<Incoming>) -> Refusal {
    let status = answer.status().as_u16();
    let retry_after = retry_after(answer.headers(), SystemTime::now());
    // A proxy may compress the refusal of a request that accepts gzip.
    let coding = answer.headers().get(CONTENT_ENCODING);
    let is_gzip = coding.is_some_and(|coding| coding.as_bytes().eq_ignore_ascii_case(b"gzip"));
    let mut body = answer.into_body();
    let mut bytes = Vec::new();
    let reading = async {
        while bytes.len() < REFUSAL_BYTES_MAX
            && let Some(Ok(frame)) = body.frame().await
        {
            bytes.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
        }
    };
    // A part of a refusal is still useful.
    let _ = timeout(ANSWER_WAIT, reading).await;
    if is_gzip {
        bytes = inflated(&bytes);
    }
    Refusal { retry_after, ..Refusal::read(status, &bytes) }
}

/// Returns the inflated body up to its bound, or up to the first byte that is not valid gzip.
fn inflated(bytes: &[u8]) -> Vec<u8> {
    let mut inflated = Vec::new();
    let _ = MultiGzDecoder::new(bytes).take(REFUSAL_BYTES_MAX as u64).read_to_end(&mut inflated);
    inflated
}
