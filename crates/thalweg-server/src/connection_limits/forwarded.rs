//! The client that a trusted proxy names: `X-Forwarded-For`, which most proxies write, and `Forwarded` (RFC 7239).
//!
//! Each proxy appends the address that the request came from, so the entries of trusted proxies are at the end. The parser
//! reads the list from the end, past all trusted proxies. The first address that is not trusted is the client. The
//! client may have invented everything before it.

use std::net::{IpAddr, Ipv6Addr};

use http::{
    HeaderMap, HeaderName,
    header::{FORWARDED, GetAll},
};
use thalweg_wire::ErrorCode;

use super::Address;
use crate::{config::Network, refusal::Refusal};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// The client of a request through trusted proxies. Empty for any other request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Forwarded {
    /// The client's address; `None` if no proxy names one.
    pub(super) address: Option<Address>,
    /// Whether the client used TLS, if a proxy reports it.
    pub(crate) is_https: Option<bool>,
}

/// The path of a request, as far as trusted proxies report it.
#[derive(Debug, Default)]
struct ProxyChain<'a> {
    /// The farthest known address.
    farthest: Option<IpAddr>,
    /// Whether it is not a trusted proxy's.
    is_client: bool,
    /// Whether the hop before it is hidden or unreadable.
    is_hidden: bool,
    proto: Option<&'a str>,
}

/// One hop as a proxy reports it: the peer's address, and the protocol.
type Proxy<'a> = (Option<IpAddr>, Option<&'a str>);

impl Forwarded {
    /// Parses a trusted proxy's headers. Fails with `BadParameter` if the two headers name different clients: the proxy writes
    /// one of them, and the client has invented the other. If one header hides its client, neither is used.
    pub(super) fn read(headers: &HeaderMap, trusted: &[Network]) -> Result<Self, Refusal> {
        let x_forwarded = headers.get_all(X_FORWARDED_FOR);
        let addresses = from_the_end(x_forwarded, ',').map(|hop| (address(hop), None));
        let x_forwarded = ProxyChain::walk(addresses, trusted);
        let elements = from_the_end(headers.get_all(FORWARDED), ',').map(element);
        let forwarded = ProxyChain::walk(elements, trusted);
        let [one, other] =
            [&x_forwarded, &forwarded].map(|path| path.farthest.map(Address::from_ip));
        let is_both = headers.contains_key(X_FORWARDED_FOR) && headers.contains_key(FORWARDED);
        let address = match (x_forwarded.is_client, forwarded.is_client) {
            // The proxy may have written the hidden one, and the client the other.
            _ if is_both && (x_forwarded.is_hidden || forwarded.is_hidden) => None,
            (true, true) if one != other => {
                let message = "X-Forwarded-For and Forwarded name different clients: have the \
                               proxy remove the one that it does not write";
                return Err(Refusal::new(ErrorCode::BadParameter, message));
            }
            (false, true) => other,
            _ => one.or(other),
        };
        // The first item of the list is the client's own protocol.
        let proto = headers.get(X_FORWARDED_PROTO).and_then(|proto| proto.to_str().ok());
        let proto = proto.and_then(|proto| proto.split(',').next()).or(forwarded.proto);
        Ok(Self { address, is_https: proto.and_then(is_https) })
    }
}

impl<'a> ProxyChain<'a> {
    /// Reads hops, the nearest first. An unreadable hop hides those before it.
    fn walk(hops: impl Iterator<Item = Proxy<'a>>, trusted: &[Network]) -> Self {
        let mut path = Self::default();
        for (address, proto) in hops {
            let Some(address) = address else {
                path.is_hidden = true;
                break;
            };
            path.farthest = Some(address);
            path.proto = proto;
            path.is_client = !trusted.iter().any(|network| network.contains(address));
            if path.is_client {
                break;
            }
        }
        path
    }
}

/// Returns the parts of a header's values, the last one first: earlier text cannot change how a proxy's part is read,
/// not even with an open quote.
fn from_the_end<'a>(
    values: GetAll<'a, http::HeaderValue>,
    separator: char,
) -> impl Iterator<Item = &'a str> {
    // A value that is not text counts as one unreadable part.
    let texts = values.into_iter().rev().map(|value| value.to_str().unwrap_or_default());
    texts.flat_map(move |text| unquoted_parts(text, separator))
}

fn unquoted_parts(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut is_quoted = false;
    let parts = text.rsplit(move |byte| {
        is_quoted ^= byte == '"';
        byte == separator && !is_quoted
    });
    parts.map(str::trim)
}

/// Parses an element of `Forwarded` (RFC 7239 §4): `for=…;proto=…`, in any order.
fn element(text: &str) -> Proxy<'_> {
    let (mut client, mut proto) = (None, None);
    for pair in unquoted_parts(text, ';') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = value.strip_prefix('"').and_then(|v| v.strip_suffix('"')).unwrap_or(value);
        if name.eq_ignore_ascii_case("for") {
            client = address(value);
        } else if name.eq_ignore_ascii_case("proto") {
            proto = Some(value);
        }
    }
    (client, proto)
}

/// Parses an address, with a port or without (RFC 7239 §6). `unknown` and names that hide an address give `None`.
fn address(text: &str) -> Option<IpAddr> {
    if let Some(rest) = text.strip_prefix('[') {
        let (address, port) = rest.split_once(']')?;
        let address: Ipv6Addr = address.parse().ok()?;
        return (port.is_empty() || port.starts_with(':')).then_some(address.into());
    }
    let with_port = || text.split_once(':')?.0.parse().ok().map(IpAddr::V4);
    text.parse().ok().or_else(with_port)
}

/// Returns whether a scheme has TLS, if known. Some proxies write the scheme of a WebSocket.
fn is_https(proto: &str) -> Option<bool> {
    match proto.trim().to_ascii_lowercase().as_str() {
        "https" | "wss" => Some(true),
        "http" | "ws" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
            headers.append(HeaderName::from_static(name), value);
        }
        headers
    }

    fn read(lines: &[(&'static str, &str)]) -> Result<Forwarded, Refusal> {
        let trusted = ["10.0.0.0/8", "2001:db8:ffff::/48"].map(|text| text.parse().unwrap());
        Forwarded::read(&headers(lines), &trusted)
    }

    fn address(text: &str) -> Option<Address> {
        (!text.is_empty()).then(|| Address::from_ip(text.parse().unwrap()))
    }

    #[test]
    fn the_client_is_the_first_from_the_end_that_is_no_proxy() {
        let check = |name: &'static str, values: &[&str], expected: &str| {
            let lines: Vec<_> = values.iter().map(|value| (name, *value)).collect();
            assert_eq!(read(&lines).unwrap().address, address(expected), "{name}: {values:?}");
        };
        let x = "x-forwarded-for";
        check(x, &[], "");
        check(x, &["192.0.2.1"], "192.0.2.1");
        check(x, &["198.51.100.1, 192.0.2.1"], "192.0.2.1");
        check(x, &["198.51.100.1", "192.0.2.1"], "192.0.2.1");
        check(x, &["192.0.2.1, 10.0.0.2,10.0.0.1"], "192.0.2.1");
        check(x, &["192.0.2.1, 10.0.0.2", "2001:db8:ffff::1"], "192.0.2.1");
        check(x, &["192.0.2.1:4711"], "192.0.2.1");
        check(x, &["2001:db8::1"], "2001:db8::");
        check(x, &["[2001:db8::1]:47"], "2001:db8::");
        check(x, &["[2001:db8::1]"], "2001:db8::");
        check(x, &["::ffff:10.0.0.1, 192.0.2.1, ::ffff:10.0.0.1"], "192.0.2.1");
        // An unreadable part hides those before it.
        check(x, &["192.0.2.1, garbage, 10.0.0.1"], "10.0.0.1");
        check(x, &["192.0.2.1,"], "");
        check(x, &["192.0.2.1, [2001:db8::1"], "");
        check(x, &["192.0.2.1, 192.0.2.2 192.0.2.3"], "");
        check(x, &["192.0.2.1, \u{fc}"], "");
        // The request comes from one of the proxies itself.
        check(x, &["10.0.0.2, 10.0.0.1"], "10.0.0.2");

        let f = "forwarded";
        check(f, &["for=192.0.2.1"], "192.0.2.1");
        check(f, &["For=\"[2001:db8::1]:47\";proto=https;by=_me"], "2001:db8::");
        check(f, &["proto=http; for=\"192.0.2.1:80\""], "192.0.2.1");
        check(f, &["for=198.51.100.1, for=192.0.2.1;by=10.0.0.1, for=10.0.0.1"], "192.0.2.1");
        check(f, &["for=198.51.100.1", "for=192.0.2.1"], "192.0.2.1");
        check(f, &["for=192.0.2.1, for=unknown"], "");
        check(f, &["for=192.0.2.1, for=_hidden, for=10.0.0.1"], "10.0.0.1");
        check(f, &["for=192.0.2.1, proto=https"], "");
        // A quote that the client has left open does not hide appended parts.
        check(f, &["for=\"198.51.100.1, for=192.0.2.1"], "192.0.2.1");
        check(f, &["for=\"a\\\", for=192.0.2.1"], "192.0.2.1");
        check(f, &["for=\"198.51.100.1, for=10.0.0.1\", for=192.0.2.1"], "192.0.2.1");
    }

    #[test]
    fn a_header_that_the_proxy_does_not_write_gains_nothing() {
        let check = |x_forwarded_for: &str, forwarded: &str, expected: Option<&str>| {
            let lines = [("x-forwarded-for", x_forwarded_for), ("forwarded", forwarded)];
            let seen = read(&lines).map(|told| told.address).map_err(|refusal| refusal.code);
            let expected = expected.map(address).ok_or(ErrorCode::BadParameter);
            assert_eq!(seen, expected, "{x_forwarded_for} | {forwarded}");
        };
        check("192.0.2.1", "for=192.0.2.1", Some("192.0.2.1"));
        check("192.0.2.1", "for=198.51.100.1", None);
        for hidden in ["garbage", "unknown", "unix:", "", "192.0.2.1, unknown, 10.0.0.1"] {
            check(hidden, "for=192.0.2.1", Some(""));
            check(hidden, "for=10.0.0.1", Some(""));
        }
        for hidden in ["for=unknown", "for=_x", "proto=https", "for=192.0.2.1, for=_x"] {
            check("192.0.2.1", hidden, Some(""));
            check("unknown", hidden, Some(""));
        }
        check("192.0.2.1", "for=10.0.0.1", Some("192.0.2.1"));
        check("10.0.0.2", "for=192.0.2.1", Some("192.0.2.1"));
    }

    #[test]
    fn the_scheme_is_what_the_client_spoke() {
        let check = |lines: &[(&'static str, &str)], expected| {
            assert_eq!(read(lines).unwrap().is_https, expected, "{lines:?}");
        };
        check(&[], None);
        check(&[("x-forwarded-proto", "https")], Some(true));
        check(&[("x-forwarded-proto", "WSS")], Some(true));
        check(&[("x-forwarded-proto", "http")], Some(false));
        check(&[("x-forwarded-proto", "https, http")], Some(true));
        check(&[("x-forwarded-proto", "gopher")], None);
        check(&[("forwarded", "for=192.0.2.1;proto=https, for=10.0.0.1;proto=http")], Some(true));
        check(&[("forwarded", "for=198.51.100.1;proto=https, for=192.0.2.1")], None);
        check(&[("x-forwarded-proto", "http"), ("forwarded", "for=\"\";proto=https")], Some(false));
    }
}
