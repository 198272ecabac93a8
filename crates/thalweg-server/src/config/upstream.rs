use std::{fmt, time::Duration};

use http::Uri;
use thalweg_wire::{Pattern, Topic};

use super::{Limits, Options};

/// What stands for the topic in the URL of an upstream.
const PLACEHOLDER: &str = "{topic}";

/// `PATTERN=URL,key=value,…`: topics that are fetched from an HTTP server while somebody
/// subscribes to them.
#[derive(Debug, Clone)]
pub struct UpstreamConfig {
    /// The topics.
    pub pattern: Pattern,
    /// Where they are.
    pub url: UpstreamUrl,
    /// When each is fetched again.
    pub pace: Pace,
    /// How long a fetch may take, with its connection and its body.
    pub timeout: Duration,
    /// Fetches from its host at a time.
    pub in_flight: usize,
    /// The longest document that is taken, in bytes, however it is compressed.
    pub body_bytes: usize,
    /// How long a topic without subscribers is still fetched.
    pub linger: Duration,
    /// How long it is remembered that there is no such document.
    pub remember: Duration,
}

/// Bounds on the time between two fetches of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// If the response says nothing.
    pub default: Duration,
    /// However often it says.
    pub least: Duration,
    /// However seldom.
    pub most: Duration,
}

/// Where topics are: a URL with a place for the topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamUrl {
    /// Whether it is https.
    pub is_tls: bool,
    /// A name or an address, of IPv6 in brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Path and query before the topic.
    before: String,
    /// After it. `None` if it has no place for it.
    after: Option<String>,
}

impl UpstreamConfig {
    /// Reads `PATTERN=URL,key=value,…`.
    ///
    /// # Errors
    /// One sentence saying what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        // A topic may have an equals sign, and no doubled slash.
        let begins = ["=http://", "=https://"].into_iter().filter_map(|scheme| text.find(scheme));
        let (pattern, rest) = match begins.min() {
            Some(at) => Some((&text[..at], &text[at + 1..])),
            None => text.split_once('='),
        }
        .ok_or(
            "an upstream is PATTERN=URL,key=value,…, for instance \
             matchesfeed/**=http://127.0.0.1:9000/{topic}",
        )?;
        let (url, options) = rest.split_once(',').unwrap_or((rest, ""));
        let pattern: Pattern =
            pattern.parse().map_err(|error| format!("pattern {pattern:?}: {error}"))?;
        let url = UpstreamUrl::parse(url).map_err(|error| format!("{url:?}: {error}"))?;
        if url.after.is_none() && pattern.as_str().contains('*') {
            return Err(format!(
                "{pattern} means several topics: say where the topic comes in the URL, as \
                 http://127.0.0.1:9000/{{topic}}"
            ));
        }
        let upstream = Self {
            pattern,
            url,
            pace: Pace::default(),
            timeout: Duration::from_secs(10),
            in_flight: 64,
            body_bytes: Limits::default().event_bytes,
            linger: Duration::from_secs(5),
            remember: Duration::from_secs(60),
        };
        upstream.apply(&Options::parse(options)?)
    }

    fn apply(mut self, options: &Options) -> Result<Self, String> {
        options.check_keys(&[
            "max-age",
            "least",
            "most",
            "timeout",
            "in-flight",
            "max-body",
            "linger",
            "remember",
        ])?;
        let read = |key: &str, place: &mut Duration, least: Duration| {
            let Some(time) = options.duration(key)? else { return Ok(()) };
            *place = time;
            if time < least { Err(format!("{key}: at least {least:?}")) } else { Ok(()) }
        };
        let millisecond = Duration::from_millis(1);
        read("max-age", &mut self.pace.default, millisecond)?;
        read("least", &mut self.pace.least, millisecond)?;
        read("most", &mut self.pace.most, millisecond)?;
        read("timeout", &mut self.timeout, millisecond)?;
        read("linger", &mut self.linger, Duration::ZERO)?;
        read("remember", &mut self.remember, millisecond)?;
        if self.pace.most < self.pace.least {
            return Err("most: not below least".to_owned());
        }
        if let Some(in_flight) = options.number("in-flight")? {
            self.in_flight = in_flight.clamp(1, 10_000) as usize;
        }
        if let Some(bytes) = options.bytes("max-body")? {
            self.body_bytes = bytes;
        }
        Ok(self)
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
    fn parse(text: &str) -> Result<Self, String> {
        // With a topic in its place it is a URL like any other.
        let uri: Uri = text
            .replacen(PLACEHOLDER, "topic", 1)
            .parse()
            .map_err(|error| format!("not a URL ({error}): write it as http://host/{{topic}}"))?;
        let is_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err("an upstream is reached over http or https".to_owned()),
        };
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        if authority.contains('@') {
            return Err("a URL with a name and a password is not taken: they would show".to_owned());
        }
        let host = uri.host().filter(|host| !host.is_empty()).ok_or("it names no host")?;
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        if authority.ends_with(':') || text.contains('#') {
            return Err("an empty port or a part after # means nothing here".to_owned());
        }
        let path = uri.path();
        let is_dots = |segment: &str| {
            let segment = segment.to_ascii_lowercase().replace("%2e", ".");
            segment == "." || segment == ".."
        };
        if path.split('/').any(is_dots) {
            return Err("a path with . or .. as a segment: say where it leads".to_owned());
        }
        // What follows scheme and authority, as it was written.
        let (_, rest) = text.split_once("://").unwrap_or(("", text));
        let rest = rest
            .strip_prefix(authority)
            .ok_or_else(|| format!("{PLACEHOLDER} stands in the path or in the query"))?;
        let rest = if rest.starts_with('/') { rest.to_owned() } else { format!("/{rest}") };
        let (before, after) = match rest.split_once(PLACEHOLDER) {
            Some((before, after)) => (before.to_owned(), Some(after.to_owned())),
            None => (rest, None),
        };
        if before.contains(['{', '}']) || after.as_ref().is_some_and(|it| it.contains(['{', '}'])) {
            return Err(format!(
                "{PLACEHOLDER} stands in it once at most, and nothing else in braces"
            ));
        }
        Ok(Self { is_tls, host: host.to_owned(), port, before, after })
    }

    /// Path and query of a topic. A topic has no segment `.` or `..` and no `?`, `#` or `%` (its
    /// grammar), so it stays below what was configured. `|` has to be encoded (RFC 3986 §3.3), and so
    /// has what some servers read as something else: `+`, which is a space to them, and in a query `=`.
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
    /// One sentence saying what is wrong.
    pub fn of_document(text: &str) -> Result<Self, String> {
        let url = Self::parse(text)?;
        if url.after.is_some() { Err(format!("{PLACEHOLDER} means nothing here")) } else { Ok(url) }
    }

    /// Path and query of a document.
    pub(crate) fn path(&self) -> &str {
        &self.before
    }

    /// As a request's `Host` has it (RFC 9110 §7.2).
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

    #[test]
    fn a_topic_has_its_place_in_the_url() {
        let check = |url: &str, authority: &str, target: &str| {
            let upstream = UpstreamConfig::parse(&format!("a/**={url}")).unwrap();
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
            UpstreamConfig::parse(&format!("**={url}")).unwrap().url.target(&topic.parse().unwrap())
        };
        assert_eq!(named("http://h/{topic}", "a|b/c@d:e+f=g"), "/a%7Cb/c@d:e%2Bf=g");
        assert_eq!(named("http://h/?k={topic}", "a|b/c@d:e+f=g"), "/?k=a%7Cb/c@d:e%2Bf%3Dg");
        let equals = UpstreamConfig::parse("a=b/*=http://h/{topic}?x=http://y").unwrap();
        assert_eq!(equals.pattern.as_str(), "a=b/*");
        let one = UpstreamConfig::parse("all=http://h/list").unwrap();
        assert_eq!(one.url.target(&"all".parse().unwrap()), "/list");
    }

    #[test]
    fn settings_follow_the_url() {
        let text = "a/*=http://h/{topic},max-age=2s,least=1s,most=1m,in-flight=3,max-body=2KiB";
        let upstream = UpstreamConfig::parse(text).unwrap();
        let pace = Pace {
            default: Duration::from_secs(2),
            least: Duration::from_secs(1),
            most: Duration::from_secs(60),
        };
        assert_eq!((upstream.pace, upstream.in_flight, upstream.body_bytes), (pace, 3, 2 << 10));
    }

    #[test]
    fn what_leads_elsewhere_is_refused() {
        let check = |text: &str, words: &str| {
            let error = UpstreamConfig::parse(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        };
        check("a/**", "PATTERN=URL");
        check("a/**x=http://h/{topic}", "pattern");
        check("a/**=http://h/", "several topics");
        check("a/**=http://h/{topic}/{topic}", "once");
        check("a/**=http://h/{id}/{topic}", "braces");
        check("a/**=ftp://h/{topic}", "http or https");
        check("a/**=h/{topic}", "URL");
        check("a/**=http://user:word@h/{topic}", "password");
        check("a/**=http://h/x/../{topic}", "segment");
        check("a/**=http://h/x/%2E%2e/{topic}", "segment");
        check("a/**=http://h/{topic}#x", "#");
        check("a=http://{topic}/", "path");
        check("a/**=http://h/{topic},max-ages=1s", "max-age");
        check("a/**=http://h/{topic},least=9s,most=1s", "least");
        check("a/**=http://h/{topic},timeout=0", "timeout");
    }
}
