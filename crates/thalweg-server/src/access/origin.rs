//! The web pages that may use the server.
//!
//! A browser names the page in `Origin` with every request whose answer the page could read or that is not a `GET`: `fetch` to
//! another origin, `EventSource`, WebSocket, every `POST`, including those of forms. A page cannot forge it.
//!
//! A page's `GET`s whose answer it cannot read have no `Origin`: images, scripts, `fetch` in `no-cors` mode, frames, links. They
//! could still open subscriptions, and with them topics, until a limit is reached. For these, browsers send `Sec-Fetch-Site` (W3C
//! Fetch Metadata §2.3), at least to loopback and over TLS, which lets the server refuse requests from other origins. There are
//! two exceptions: a link that somebody follows; and, if any other origin is allowed at all, a frame: a forever frame is one,
//! and its own Content-Security-Policy restricts which pages may frame it. A `POST` without `Origin` should not exist, and is refused too.

use http::{HeaderName, HeaderValue, Method, header, request::Parts};
use thalweg_wire::{ErrorCode, Excerpt};

use super::{
    cors::Admitted,
    host::{Host, HostPort},
};
use crate::refusal::Refusal;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// The origins allowed besides the server's own.
#[derive(Debug, Default)]
pub(super) struct Origins {
    /// `*`: every origin.
    all: bool,
    /// `null`: pages without an origin, for example files and sandboxed frames.
    null: bool,
    named: Vec<PageOrigin>,
}

/// `scheme://host[:port]` (RFC 6454 §6.2).
#[derive(Debug, Clone, PartialEq, Eq)]
struct PageOrigin {
    scheme: String,
    host: Host,
    /// The port, or the scheme's default port; `None` if unknown.
    port: Option<u16>,
}

impl Origins {
    /// Parses the allowed origins. The error is one sentence about the first that is not an origin.
    pub(super) fn new(allowed: &[String]) -> Result<Self, String> {
        let mut origins = Self::default();
        for text in allowed {
            match text.as_str() {
                "*" => origins.all = true,
                "null" => origins.null = true,
                text => {
                    let wrong = |why| format!("--allow-origin: {text:?} is not an origin: {why}");
                    origins.named.push(PageOrigin::parse(text).map_err(wrong)?);
                }
            }
        }
        Ok(origins)
    }

    /// Rejects web pages that are neither the server's own nor allowed.
    pub(super) fn check(
        &self,
        request: &Parts,
        own: Option<&HostPort>,
        is_https: bool,
    ) -> Result<Admitted, Refusal> {
        let mut presented = request.headers.get_all(header::ORIGIN).iter();
        let Some(origin) = presented.next() else { return self.check_without(request) };
        if presented.next().is_some() {
            return Err(bad_origin("the request has several Origin headers: send one"));
        }
        let text = origin.to_str().unwrap_or_default();
        let parsed = PageOrigin::parse(text).ok();
        match (&parsed, own) {
            (Some(origin), Some(own)) if origin.is_of(own, is_https) => Ok(Admitted { cors: None }),
            _ if self.all => Ok(Admitted { cors: Some(HeaderValue::from_static("*")) }),
            (Some(named), _) if self.named.contains(named) => Ok(Admitted { cors: copied(origin) }),
            (Some(_), _) => {
                let other = Excerpt(text);
                Err(bad_origin(format!(
                    "web pages from {other} may not use this server unless it is started with \
                     --allow-origin {other}"
                )))
            }
            (None, _) if origin == "null" && self.null => Ok(Admitted { cors: copied(origin) }),
            (None, _) => Err(bad_origin(
                "web pages without an origin may not use this server unless it is started \
                 with --allow-origin null",
            )),
        }
    }

    fn check_without(&self, request: &Parts) -> Result<Admitted, Refusal> {
        let Some(site) = request.headers.get(SEC_FETCH_SITE) else {
            return Ok(Admitted { cors: None });
        };
        let is_of_another = site == "cross-site" || site == "same-site";
        let is = |name, value: &str| request.headers.get(name).is_some_and(|found| found == value);
        let navigates =
            is(SEC_FETCH_MODE, "navigate") && matches!(request.method, Method::GET | Method::HEAD);
        let may_frame = self.all || self.null || !self.named.is_empty();
        if is_of_another && !(navigates && (may_frame || is(SEC_FETCH_DEST, "document"))) {
            return Err(bad_origin("web pages from other sites may not embed this resource"));
        }
        Ok(Admitted { cors: None })
    }
}

impl PageOrigin {
    fn parse(text: &str) -> Result<Self, &'static str> {
        let form = "write it as https://app.example, with a port if it has one, \"*\" or \"null\"";
        let (scheme, rest) = text.split_once("://").ok_or(form)?;
        let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
        if !is_scheme {
            return Err(form);
        }
        if rest.contains(['/', '?', '#']) {
            return Err("write nothing after the host and port");
        }
        if !rest.is_ascii() {
            return Err("browsers write the host in ASCII, as xn--…");
        }
        let HostPort { host, port } = HostPort::parse(rest).ok_or(form)?;
        let scheme = scheme.to_ascii_lowercase();
        let port = port.or(default_port(&scheme));
        Ok(Self { scheme, host, port })
    }

    /// Returns whether this is the origin of the server that the request addresses as `own`. A page that was loaded without TLS
    /// may have been changed on the way, so it never belongs to a server with TLS. A proxy that terminates TLS may not report so;
    /// then the scheme only determines the default port. Other schemes than http and https never match.
    fn is_of(&self, own: &HostPort, is_https: bool) -> bool {
        let Some(default_port) = default_port(&self.scheme) else { return false };
        if is_https && self.scheme != "https" {
            return false;
        }
        self.host == own.host && self.port == own.port.or(Some(default_port))
    }
}

fn default_port(scheme: &str) -> Option<u16> {
    match scheme {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    }
}

/// Returns a copy, which lets the memory of the whole head be freed.
fn copied(value: &HeaderValue) -> Option<HeaderValue> {
    HeaderValue::from_bytes(value.as_bytes()).ok()
}

fn bad_origin(message: impl Into<String>) -> Refusal {
    Refusal::new(ErrorCode::BadOrigin, message)
}
