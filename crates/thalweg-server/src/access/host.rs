//! What a request believes that it talks to.
//!
//! On loopback a server has only loopback's names and those that it is told of; elsewhere
//! the same, once it is told of any. A web page whose name was made
//! to resolve to 127.0.0.1 (DNS rebinding) is of the same origin as the server
//! for its browser, but it cannot help naming itself in `Host`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::{Version, header, request::Parts};
use thalweg_wire::{ErrorCode, Excerpt};

use crate::refusal::Refusal;

/// A name has at most so many bytes (RFC 1035 §2.3.4).
const NAME_BYTES_MAX: usize = 255;

/// A name, in lower case and without the root's dot, or an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Host {
    Name(String),
    Address(IpAddr),
}

/// `host[:port]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HostPort {
    pub(super) host: Host,
    /// `None`: the scheme's own.
    pub(super) port: Option<u16>,
}

/// Whom a request is for.
#[derive(Debug)]
pub(super) enum RequestedHost {
    /// This one.
    For(HostPort),
    /// Not in a form that names anybody.
    Malformed,
    /// It does not say: an HTTP/1.0 client.
    Absent,
}

/// The names that a server answers to.
pub(super) struct Hosts {
    is_loopback: bool,
    allowed: Vec<Host>,
}

impl Hosts {
    /// The names of a server: loopback's and those allowed; or all, of one that others
    /// reach and for which none are said.
    ///
    /// # Errors
    /// One sentence about the first that is no host.
    pub(super) fn new(is_loopback: bool, allowed: &[String]) -> Result<Self, String> {
        let read = |text: &String| match HostPort::parse(text) {
            Some(HostPort { host, port: None }) => Ok(host),
            _ => Err(format!("--allow-host: {text:?} is no host: write only its name")),
        };
        let allowed = allowed.iter().map(read).collect::<Result<_, _>>()?;
        Ok(Self { is_loopback, allowed })
    }

    /// Refuses who means another server. Any port is right: forwarded ones are
    /// common, and a page cannot choose its server's name by the port.
    pub(super) fn check(&self, requested: &RequestedHost) -> Result<(), Refusal> {
        let remedy = match self.is_loopback {
            true => "this server listens on loopback: call it localhost, or start it with",
            false => "this server has other names: start it with",
        };
        let message = match requested {
            _ if !self.is_loopback && self.allowed.is_empty() => return Ok(()),
            // Browsers send Host always, HTTP/1.0's health checks do not.
            RequestedHost::Absent => return Ok(()),
            RequestedHost::For(HostPort { host, .. }) if self.is_own(host) => return Ok(()),
            RequestedHost::For(HostPort { host, .. }) => {
                format!("{remedy} --allow-host {}", Excerpt(&host.to_string()))
            }
            RequestedHost::Malformed => format!("Host is malformed: {remedy} --allow-host NAME"),
        };
        Err(Refusal::new(ErrorCode::BadHost, message))
    }

    fn is_own(&self, host: &Host) -> bool {
        host.is_loopback() || self.allowed.contains(host)
    }
}

impl Host {
    fn parse(text: &str) -> Option<Self> {
        if let Some(inside) = text.strip_prefix('[') {
            let address: Ipv6Addr = inside.strip_suffix(']')?.parse().ok()?;
            return Some(Self::Address(IpAddr::V6(address).to_canonical()));
        }
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Some(Self::Address(address.into()));
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        let is_host = !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.bytes().all(is_name);
        is_host.then(|| Self::Name(name.to_ascii_lowercase()))
    }

    /// Whether nobody's name server can give it away: RFC 6761 §6.3.
    fn is_loopback(&self) -> bool {
        match self {
            Self::Name(name) => name == "localhost" || name.ends_with(".localhost"),
            Self::Address(address) => address.is_loopback(),
        }
    }
}

impl HostPort {
    /// Whom a request is for: its URL in the absolute form and over HTTP/2, which
    /// wins (RFC 9112 §3.2.2), otherwise `Host`.
    ///
    /// # Errors
    /// `BadParameter` if that is two, or none over HTTP/1.1 (RFC 9112 §3.2).
    pub(super) fn of(request: &Parts) -> Result<RequestedHost, Refusal> {
        let mut hosts = request.headers.get_all(header::HOST).iter();
        let host = hosts.next();
        if request.version == Version::HTTP_11 && host.is_none() {
            let message = "a request of HTTP/1.1 carries Host: name the server in it";
            return Err(Refusal::new(ErrorCode::BadParameter, message));
        }
        if hosts.next().is_some() {
            return Err(Refusal::new(ErrorCode::BadParameter, "a request carries one Host"));
        }
        if let Some(authority) = request.uri.authority() {
            return Ok(Self::parse(authority.as_str())
                .map_or(RequestedHost::Malformed, RequestedHost::For));
        }
        let Some(host) = host else { return Ok(RequestedHost::Absent) };
        let host = host.to_str().ok().and_then(Self::parse);
        Ok(host.map_or(RequestedHost::Malformed, RequestedHost::For))
    }

    /// Reads `host[:port]`; an address of IPv6 stands in brackets.
    pub(super) fn parse(text: &str) -> Option<Self> {
        // The colons of an address of IPv6 are within its brackets.
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !text.ends_with(']') => (host, port),
            _ => (text, ""),
        };
        // An empty port is the scheme's own (RFC 3986 §3.2.3).
        let port = match port {
            "" => None,
            port if port.bytes().all(|byte| byte.is_ascii_digit()) => Some(port.parse().ok()?),
            _ => return None,
        };
        Some(Self { host: Host::parse(host)?, port })
    }
}

impl std::fmt::Display for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
            Self::Address(address) => write!(f, "{address}"),
        }
    }
}
