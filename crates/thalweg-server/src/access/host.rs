//! The server that a request is meant for.
//!
//! A server accepts the names of loopback and the allowed names. If it does not listen on loopback and no names are allowed,
//! it accepts all names. An attacker can make the name of a web page resolve to 127.0.0.1, or to an address behind a
//! firewall (DNS rebinding). For the browser the page then has the same origin as the server, but `Host` still has the page's own
//! name. The admin listener, which needs no token, therefore accepts no name that is not allowed.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::{Version, header, request::Parts};
use thalweg_wire::{ErrorCode, Excerpt};

use crate::refusal::Refusal;

/// Maximum bytes of a name (RFC 1035 §2.3.4).
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
    /// `None`: the scheme's default.
    pub(super) port: Option<u16>,
}

pub(super) enum RequestedHost {
    For(HostPort),
    Malformed,
    /// The request names no host: an HTTP/1.0 client.
    Absent,
}

/// The names that a server accepts, besides loopback's and the allowed ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OwnNames {
    /// None, because the server listens on loopback.
    Loopback,
    /// All IP addresses, which DNS rebinding cannot forge.
    Addresses,
    /// All names, unless certain names are allowed.
    All,
}

pub(super) struct Hosts {
    own: OwnNames,
    allowed: Vec<Host>,
}

impl Hosts {
    /// Returns the names of a server. The error is one sentence about the first name that is not a host.
    pub(super) fn new(own: OwnNames, allowed: &[String]) -> Result<Self, String> {
        let read = |text: &String| match HostPort::parse(text) {
            Some(HostPort { host, port: None }) => Ok(host),
            _ => Err(format!("--allow-host: {text:?} is not a host: write only its name")),
        };
        let allowed: Vec<Host> = allowed.iter().map(read).collect::<Result<_, _>>()?;
        Ok(Self { own, allowed })
    }

    /// Rejects a request for another server. Any port is accepted: forwarded ports are common, and the port
    /// does not help a page to use another name.
    pub(super) fn check(&self, requested: &RequestedHost) -> Result<(), Refusal> {
        let remedy = match self.own {
            OwnNames::Loopback => {
                "this server listens on loopback: use the host name localhost, or start it with"
            }
            OwnNames::Addresses => {
                "use the IP address of this listener in the URL, or start the server with"
            }
            OwnNames::All => {
                "this server does not accept this host name: use one that it accepts, or start it with"
            }
        };
        let message = match requested {
            _ if self.own == OwnNames::All && self.allowed.is_empty() => return Ok(()),
            // Browsers always send Host. Health checks over HTTP/1.0 do not.
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
        let is_address = matches!(host, Host::Address(_)) && self.own == OwnNames::Addresses;
        is_address || host.is_loopback() || self.allowed.contains(host)
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

    /// Returns whether the host is always this machine, because no DNS server can redirect the name (RFC 6761 §6.3).
    fn is_loopback(&self) -> bool {
        match self {
            Self::Name(name) => name == "localhost" || name.ends_with(".localhost"),
            Self::Address(address) => address.is_loopback(),
        }
    }
}

impl HostPort {
    /// Returns the server that a request is for. The host in the URL (in the absolute form, and over HTTP/2) has precedence over
    /// `Host` (RFC 9112 §3.2.2). Fails with `BadParameter` if there are two `Host` headers, or none over HTTP/1.1 (RFC 9112
    /// §3.2).
    pub(super) fn from_request(request: &Parts) -> Result<RequestedHost, Refusal> {
        let mut hosts = request.headers.get_all(header::HOST).iter();
        let host = hosts.next();
        if request.version == Version::HTTP_11 && host.is_none() {
            let message =
                "an HTTP/1.1 request needs the header Host: send it with the name of the server";
            return Err(Refusal::new(ErrorCode::BadParameter, message));
        }
        if hosts.next().is_some() {
            return Err(Refusal::new(
                ErrorCode::BadParameter,
                "the request has several Host headers: send one",
            ));
        }
        if let Some(authority) = request.uri.authority() {
            return Ok(Self::parse(authority.as_str())
                .map_or(RequestedHost::Malformed, RequestedHost::For));
        }
        let Some(host) = host else { return Ok(RequestedHost::Absent) };
        let host = host.to_str().ok().and_then(Self::parse);
        Ok(host.map_or(RequestedHost::Malformed, RequestedHost::For))
    }

    /// Parses `host[:port]`. An IPv6 address is in brackets.
    pub(super) fn parse(text: &str) -> Option<Self> {
        // The colons of an IPv6 address are within its brackets.
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !text.ends_with(']') => (host, port),
            _ => (text, ""),
        };
        // An empty port is the scheme's default (RFC 3986 §3.2.3).
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
