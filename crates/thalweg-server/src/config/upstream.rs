use std::{fmt, time::Duration};

use http::Uri;
use thalweg_wire::{Pattern, Topic, authority::port};

use super::Limits;

/// The placeholder of the topic in the URL of an upstream.
const PLACEHOLDER: &str = "{topic}";

/// Topics that are fetched from an HTTP server while they have subscribers.
#[derive(Debug, Clone)]
pub struct UpstreamConfig {
    /// The topics.
    pub pattern: Pattern,
    /// The URL of their documents.
    pub url: UpstreamUrl,
    /// When each is fetched again.
    pub pace: Pace,
    /// How long a fetch may take, including connecting and reading the body.
    pub timeout: Duration,
    /// Maximum number of fetches from its host at a time.
    pub in_flight: usize,
    /// Maximum size of a document after decoding, in bytes.
    pub body_bytes: usize,
    /// How long the server continues to fetch a topic after its last subscriber has left.
    pub linger: Duration,
    /// How long the server remembers that a document does not exist.
    pub remember: Duration,
}

/// Limits of the time between two fetches of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// The interval if the response states none.
    pub default: Duration,
    /// The shortest interval, even if a response asks for a shorter one.
    pub least: Duration,
    /// The longest interval, even if a response asks for a longer one.
    pub most: Duration,
}

/// A URL with a placeholder for the topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamUrl {
    /// Whether it is https.
    pub is_tls: bool,
    /// A name or an address. An IPv6 address is in brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Path and query before the topic.
    before: String,
    /// Path and query after the topic. `None` if the URL has no placeholder.
    after: Option<String>,
}

impl UpstreamConfig {
    /// Returns the upstream of topics at a URL, with the default times and limits.
    ///
    /// # Errors
    /// Fails if the pattern matches several topics and the URL has no placeholder for the topic.
    pub fn new(pattern: Pattern, url: UpstreamUrl) -> Result<Self, String> {
        if url.after.is_none() && pattern.as_str().contains('*') {
            return Err(format!(
                "{pattern} matches several topics: write {PLACEHOLDER} in the URL, as in \
                 http://127.0.0.1:9000/{PLACEHOLDER}"
            ));
        }
        Ok(Self {
            pattern,
            url,
            pace: Pace::default(),
            timeout: Duration::from_secs(10),
            in_flight: 64,
            body_bytes: Limits::default().event_bytes,
            linger: Duration::from_secs(5),
            remember: Duration::from_secs(60),
        })
    }
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            default: Duration::from_secs(5),
            least: Duration::from_millis(250),
            most: Duration::from_secs(300),
        }
    }
}

impl UpstreamUrl {
    /// Reads a URL with a placeholder for the topic.
    ///
    /// # Errors
    /// Returns a sentence that says what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        // Replace the placeholder with a topic, and parse the result as a URL.
        let uri: Uri = text.replacen(PLACEHOLDER, "topic", 1).parse().map_err(|error| {
            format!("this is not a URL ({error}): write it as http://host/path")
        })?;
        let is_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err("begin the URL with http:// or https://".to_owned()),
        };
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        if authority.contains('@') {
            return Err(
                "remove the name and the password from the URL: logs would show them".to_owned()
            );
        }
        let host = uri
            .host()
            .filter(|host| !host.is_empty())
            .ok_or("the URL has no host: write it as http://host/path")?;
        let port = port(authority, is_tls).ok_or(
            "the port of the URL is not a number from 1 to 65535: write it as http://host:8080/path",
        )?;
        if text.contains('#') {
            return Err("clients do not send the part after # to servers: remove # and all that follows from the URL".to_owned());
        }
        let path = uri.path();
        let is_dots = |segment: &str| {
            let segment = segment.to_ascii_lowercase().replace("%2e", ".");
            segment == "." || segment == ".."
        };
        if path.split('/').any(is_dots) {
            return Err(
                "the path must not contain the segments \".\" and \"..\": remove them".to_owned()
            );
        }
        // The rest after scheme and authority, unchanged.
        let (_, rest) = text.split_once("://").unwrap_or(("", text));
        let rest = rest
            .strip_prefix(authority)
            .ok_or_else(|| format!("write {PLACEHOLDER} in the path or in the query"))?;
        let rest = if rest.starts_with('/') { rest.to_owned() } else { format!("/{rest}") };
        let (before, after) = match rest.split_once(PLACEHOLDER) {
            Some((before, after)) => (before.to_owned(), Some(after.to_owned())),
            None => (rest, None),
        };
        if before.contains(['{', '}'])
            || after.as_ref().is_some_and(|later| later.contains(['{', '}']))
        {
            return Err(format!(
                "the URL has braces other than one {PLACEHOLDER}: write {PLACEHOLDER} at most once, and no other braces"
            ));
        }
        Ok(Self { is_tls, host: host.to_owned(), port, before, after })
    }

    /// Returns the path and query of a topic. A topic has no segment `.` or `..` and no `?`, `#` or `%`, so the
    /// request stays below the configured path. `|` is encoded (RFC 3986 §3.3), and so are `+` (a space to
    /// some servers) and, in a query string, `=`.
    pub(crate) fn target(&self, topic: &Topic) -> String {
        let Some(after) = &self.after else { return self.before.clone() };
        let mut target = self.before.clone();
        let is_query = self.before.contains('?');
        for c in topic.as_str().chars() {
            match c {
                '|' => target.push_str("%7C"),
                '+' => target.push_str("%2B"),
                '=' if is_query => target.push_str("%3D"),
                c => target.push(c),
            }
        }
        target + after
    }

    /// Reads the URL of one document.
    ///
    /// # Errors
    /// Returns a sentence that says what is wrong.
    pub fn parse_document(text: &str) -> Result<Self, String> {
        let url = Self::parse(text)?;
        if url.after.is_some() {
            Err(format!("{PLACEHOLDER} has no meaning here: remove it"))
        } else {
            Ok(url)
        }
    }

    /// Returns the path and query of a document.
    pub(crate) fn path(&self) -> &str {
        &self.before
    }

    /// Returns the value for the header `Host` (RFC 9110 §7.2).
    pub(crate) fn authority(&self) -> String {
        match (self.is_tls, self.port) {
            (false, 80) | (true, 443) => self.host.clone(),
            _ => format!("{}:{}", self.host, self.port),
        }
    }
}

impl fmt::Display for UpstreamUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.authority())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upstream(pattern: &str, url: &str) -> Result<UpstreamConfig, String> {
        UpstreamConfig::new(pattern.parse().unwrap(), UpstreamUrl::parse(url)?)
    }

    #[test]
    fn a_topic_has_its_place_in_the_url() {
        let check = |url: &str, authority: &str, target: &str| {
            let upstream = upstream("a/**", url).unwrap();
            let topic = "a/b.c/d".parse().unwrap();
            assert_eq!(upstream.url.target(&topic), target);
            assert_eq!(upstream.url.authority(), authority);
        };
        check("http://h/{topic}", "h", "/a/b.c/d");
        check("http://h:80/{topic}", "h", "/a/b.c/d");
        check("https://h:80/x/{topic}.json", "h:80", "/x/a/b.c/d.json");
        check("http://[::1]:9000/?key={topic}&x=%2F", "[::1]:9000", "/?key=a/b.c/d&x=%2F");
        check("http://h?key={topic}", "h", "/?key=a/b.c/d");
        let named = |url: &str, topic: &str| {
            upstream("**", url).unwrap().url.target(&topic.parse().unwrap())
        };
        assert_eq!(named("http://h/{topic}", "a|b/c@d:e+f=g"), "/a%7Cb/c@d:e%2Bf=g");
        assert_eq!(named("http://h/?k={topic}", "a|b/c@d:e+f=g"), "/?k=a%7Cb/c@d:e%2Bf%3Dg");
        let one = upstream("all", "http://h/list").unwrap();
        assert_eq!(one.url.target(&"all".parse().unwrap()), "/list");
    }

    #[test]
    fn a_url_that_leads_elsewhere_is_refused() {
        let check = |url: &str, words: &str| {
            let error = upstream("a/**", url).unwrap_err();
            assert!(error.contains(words), "{url}: {error}");
        };
        check("http://h/", "several topics");
        check("http://h/{topic}/{topic}", "once");
        check("http://h/{id}/{topic}", "braces");
        check("ftp://h/{topic}", "http:// or https://");
        check("h/{topic}", "URL");
        check("http://user:word@h/{topic}", "password");
        check("http://h/x/../{topic}", "segment");
        check("http://h/x/%2E%2e/{topic}", "segment");
        check("http://h/{topic}#x", "#");
        for port in ["", "0", "65536", "99999999999", "80x", "-1", "+80"] {
            check(&format!("http://h:{port}/{{topic}}"), "a number from 1 to 65535");
            check(&format!("https://[::1]:{port}?key={{topic}}"), "a number from 1 to 65535");
        }
        check("http://{topic}/", "path");
    }
}
