//! Where an endpoint is.

use crate::scenario::ScenarioError;
use crate::scenario::error::unknown;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// An example of a URL.
const AS: &str = "write it as ws://127.0.0.1:8080/live or https://localhost/events";

/// A protocol of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// WebSocket.
    Ws,
    /// WebSocket inside TLS.
    Wss,
    /// HTTP.
    Http,
    /// HTTP inside TLS.
    Https,
}

const SCHEMES: [(&str, Scheme); 4] =
    [("ws", Scheme::Ws), ("wss", Scheme::Wss), ("http", Scheme::Http), ("https", Scheme::Https)];

/// A URL of an endpoint, checked; without a fragment, which servers never see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Url {
    scheme: Scheme,
    host: String,
    port: u16,
    authority: String,
    target: String,
}

impl Scheme {
    /// Returns whether this is a WebSocket.
    pub fn is_websocket(self) -> bool {
        matches!(self, Scheme::Ws | Scheme::Wss)
    }

    fn is_tls(self) -> bool {
        matches!(self, Scheme::Wss | Scheme::Https)
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = SCHEMES.iter().find(|(_, scheme)| scheme == self).map(|(name, _)| *name);
        f.write_str(name.unwrap_or_default())
    }
}

impl Url {
    /// Returns the protocol.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Returns whether TLS protects it.
    pub fn is_tls(&self) -> bool {
        self.scheme.is_tls()
    }

    /// Returns a name or an address, the latter without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port, the scheme's own if none was typed.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the value of the `Host` header: host and port as they were typed.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Returns path and query.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// Returns the URL with `value` in place of every value of the query, and of every piece of it that has no name.
    pub fn with_query_values(&self, value: &str) -> Url {
        let mut url = self.clone();
        if let Some((path, query)) = self.target.split_once('?') {
            let pieces = query.split('&').map(|piece| match piece.split_once('=') {
                Some((name, _)) => format!("{name}={value}"),
                None if piece.is_empty() => String::new(),
                None => value.to_owned(),
            });
            url.target = format!("{path}?{}", pieces.collect::<Vec<_>>().join("&"));
        }
        url
    }
}

impl FromStr for Url {
    type Err = ScenarioError;

    fn from_str(text: &str) -> Result<Url, ScenarioError> {
        let wrong = |why: &str| ScenarioError::new(format!("`{}`: {why}", text.escape_debug()));
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(wrong(&format!("it has no scheme; {AS}")));
        };
        let lower = scheme.to_ascii_lowercase();
        let Some((_, scheme)) = SCHEMES.into_iter().find(|(name, _)| *name == lower) else {
            let names = SCHEMES.map(|(name, _)| name);
            return Err(ScenarioError::new(unknown("scheme", scheme, &names)));
        };
        if !rest.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(wrong("percent-encode spaces and what is not ASCII, a name in Punycode"));
        }
        let rest = rest.split('#').next().unwrap_or_default();
        let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err(wrong("send user and password with --header \"Authorization: Basic …\""));
        }
        let (host, port) = host_and_port(authority).ok_or_else(|| wrong(AS))?;
        let own_port = if scheme.is_tls() { 443 } else { 80 };
        let slash = if target.starts_with('/') { "" } else { "/" };
        Ok(Url {
            scheme,
            host: host.to_owned(),
            port: port.unwrap_or(own_port),
            authority: authority.to_owned(),
            target: format!("{slash}{target}"),
        })
    }
}

/// `name`, `name:80`, `[::1]`, `[::1]:80`.
fn host_and_port(authority: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            // The lookup finds out whether it is one.
            let is_address_byte = |byte: u8| byte.is_ascii_hexdigit() || b":.".contains(&byte);
            if !host.contains(':') || !host.bytes().all(is_address_byte) {
                return None;
            }
            (host, if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) })
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let is_host_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    if host.is_empty() || !host.bytes().all(is_host_byte) {
        return None;
    }
    let port = match port {
        None => None,
        Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some(port.parse().ok().filter(|port| *port != 0)?)
        }
        Some(_) => return None,
    };
    Some((host, port))
}

/// Displays the URL without its query, which may hold secrets: displayed URLs are kept and passed on.
impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.target.split('?').next().unwrap_or_default();
        write!(f, "{}://{}{path}", self.scheme, self.authority)
    }
}

impl TryFrom<String> for Url {
    type Error = ScenarioError;

    fn try_from(text: String) -> Result<Url, ScenarioError> {
        text.parse()
    }
}

impl From<Url> for String {
    fn from(url: Url) -> String {
        format!("{}://{}{}", url.scheme, url.authority, url.target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_url_is_a_place_and_a_target() {
        let check = |text: &str, host: &str, port: u16, authority: &str, target: &str| {
            let url: Url = text.parse().unwrap();
            let found = (url.host(), url.port(), url.authority(), url.target());
            assert_eq!(found, (host, port, authority, target), "{text}");
        };
        check("ws://127.0.0.1:8080/live", "127.0.0.1", 8080, "127.0.0.1:8080", "/live");
        check("WSS://localhost", "localhost", 443, "localhost", "/");
        check("http://h?a=b/c", "h", 80, "h", "/?a=b/c");
        check("https://[::1]:9/a#part", "::1", 9, "[::1]:9", "/a");
        check("http://[fe80::1]/", "fe80::1", 80, "[fe80::1]", "/");
        check("ws://h/a:b@c", "h", 80, "h", "/a:b@c");
    }

    #[test]
    fn a_query_is_not_shown() {
        let check = |text: &str, shown: &str, without: &str| {
            let url: Url = text.parse().unwrap();
            assert_eq!(url.to_string(), shown);
            assert_eq!(String::from(url.with_query_values("-")), without);
        };
        check("ws://h/a?b=c&d=e=f", "ws://h/a", "ws://h/a?b=-&d=-");
        check("ws://h/a?secret", "ws://h/a", "ws://h/a?-");
        check("ws://h:9?&", "ws://h:9/", "ws://h:9/?&");
        check("ws://h/a=b", "ws://h/a=b", "ws://h/a=b");
    }

    #[test]
    fn malformed_urls_are_refused_with_the_remedy() {
        let check = |text: &str, expected: &str| {
            let refusal = text.parse::<Url>().expect_err(text).to_string();
            assert!(refusal.contains(expected), "{text}: {refusal}");
        };
        check("127.0.0.1:8080/live", "no scheme; write it as");
        check("htp://h/", "did you mean `http`?");
        check("gopher://h/", "there are ws, wss, http, https");
        check("ws://me:secret@h/", "Authorization: Basic");
        check("ws://h/a b", "percent-encode");
        check("ws://bücher.example/", "Punycode");
        check("ws://h/a\r\nb", "percent-encode");
        for text in ["ws:///live", "ws://h:/", "ws://h:0/", "ws://h:99999/", "ws://h:+80/"] {
            check(text, "write it as");
        }
        check("ws://::1:80/", "write it as");
        check("ws://[::1/", "write it as");
        check("ws://[nothing]/", "write it as");
        check("ws://[::1]80/", "write it as");
    }

    proptest! {
        #[test]
        fn a_parsed_url_is_written_the_same(text in "(ws|https)://[a-z:0-9\\[\\]@/?#]{0,20}") {
            if let Ok(url) = text.parse::<Url>() {
                prop_assert_eq!(String::from(url.clone()).parse::<Url>(), Ok(url));
            }
        }
    }
}
