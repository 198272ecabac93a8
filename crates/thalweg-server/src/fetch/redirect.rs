//! The target of a redirect, if it may be followed. Pure.

use http::{HeaderMap, Uri, header};
use thalweg_wire::authority::port;

use crate::config::UpstreamUrl;

/// Returns the path and query of the redirect (RFC 9110 §10.2.2) from `target`, if it stays on the host of `url`. The
/// location may be relative (RFC 3986 §5.2).
pub(super) fn followed(url: &UpstreamUrl, target: &str, headers: &HeaderMap) -> Option<String> {
    let location = headers.get(header::LOCATION)?.to_str().ok()?.trim();
    // Some parsers read `\` as `/`: `/\host` would be another host.
    if location.contains('\\') {
        return None;
    }
    let location = location.split('#').next()?;
    if location.starts_with("//") {
        let scheme = if url.is_tls { "https:" } else { "http:" };
        return on_same_host(url, &format!("{scheme}{location}"));
    }
    if has_scheme(location) {
        return on_same_host(url, location);
    }
    let (path, _) = target.split_once('?').unwrap_or((target, ""));
    let (folder, _) = path.rsplit_once('/')?;
    Some(match location.bytes().next() {
        None => target.to_owned(),
        Some(b'/') => without_dots(location),
        Some(b'?') => format!("{path}{location}"),
        Some(_) => without_dots(&format!("{folder}/{location}")),
    })
}

/// Returns the path and query of an absolute URL on the same host.
fn on_same_host(url: &UpstreamUrl, location: &str) -> Option<String> {
    let uri: Uri = location.parse().ok()?;
    let is_tls = match uri.scheme_str()? {
        "http" => false,
        "https" => true,
        _ => return None,
    };
    let authority = uri.authority()?.as_str();
    let is_same = is_tls == url.is_tls
        && port(authority, is_tls) == Some(url.port)
        && uri.host()?.eq_ignore_ascii_case(&url.host)
        && !authority.contains('@');
    is_same.then(|| without_dots(uri.path_and_query().map_or("/", |target| target.as_str())))
}

/// Returns whether a reference is absolute (RFC 3986 §4.2): a relative one has no `:` in its first segment.
fn has_scheme(location: &str) -> bool {
    location.split(['/', '?']).next().is_some_and(|first| first.contains(':'))
}

/// Returns an absolute path, with its query, without the segments `.` and `..` (RFC 3986 §5.2.4).
fn without_dots(target: &str) -> String {
    let (path, query) = match target.find('?') {
        Some(at) => target.split_at(at),
        None => (target, ""),
    };
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            "." => {}
            ".." => drop(kept.pop()),
            segment => {
                kept.push(segment);
                continue;
            }
        }
        // A folder keeps its slash.
        if is_last {
            kept.push("");
        }
    }
    format!("/{}{query}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(target: &str, location: &str, expected: Option<&str>) {
        let url = UpstreamUrl::parse_document("http://host:8080/").unwrap();
        let headers = HeaderMap::from_iter([(header::LOCATION, location.parse().unwrap())]);
        let found = followed(&url, target, &headers);
        assert_eq!(found.as_deref(), expected, "{location} from {target}");
    }

    /// The examples of RFC 3986 §5.4 with a path.
    #[test]
    fn a_relative_location_is_resolved() {
        for (location, expected) in [
            ("g", "/b/c/g"),
            ("./g", "/b/c/g"),
            ("g/", "/b/c/g/"),
            ("/g", "/g"),
            ("?y", "/b/c/d;p?y"),
            ("g?y", "/b/c/g?y"),
            ("#s", "/b/c/d;p?q"),
            ("g#s", "/b/c/g"),
            ("g?y#s", "/b/c/g?y"),
            (";x", "/b/c/;x"),
            ("g;x?y#s", "/b/c/g;x?y"),
            ("", "/b/c/d;p?q"),
            (".", "/b/c/"),
            ("./", "/b/c/"),
            ("..", "/b/"),
            ("../", "/b/"),
            ("../g", "/b/g"),
            ("../..", "/"),
            ("../../g", "/g"),
            ("../../../../g", "/g"),
            ("/./g", "/g"),
            ("/../g", "/g"),
            ("g.", "/b/c/g."),
            ("..g", "/b/c/..g"),
            ("./g/.", "/b/c/g/"),
            ("g/../h", "/b/c/h"),
            ("g;x=1/../y", "/b/c/y"),
            ("g?y/./x", "/b/c/g?y/./x"),
            ("g?y/../x", "/b/c/g?y/../x"),
            ("./user:1", "/b/c/user:1"),
            ("g/user:1", "/b/c/g/user:1"),
        ] {
            check("/b/c/d;p?q", location, Some(expected));
        }
        check("/d", "g", Some("/g"));
        check("/?x=a/b", "g", Some("/g"));
    }

    #[test]
    fn a_redirect_to_a_malformed_port_is_not_followed() {
        let url = UpstreamUrl::parse_document("http://host/").unwrap();
        for (location, expected) in [
            ("http://host:80/b", Some("/b")),
            ("http://host:65616/b", None),
            ("//host:80x/b", None),
        ] {
            let headers = HeaderMap::from_iter([(header::LOCATION, location.parse().unwrap())]);
            assert_eq!(followed(&url, "/a", &headers).as_deref(), expected, "{location}");
        }
    }

    #[test]
    fn a_redirect_stays_on_its_host() {
        check("/a", "http://host:8080/b?c", Some("/b?c"));
        check("/a", "http://HOST:8080", Some("/"));
        check("/a", "//host:8080/b/../c", Some("/c"));
        for elsewhere in [
            "//host/b",
            "//other:8080/b",
            "http://host/b",
            "https://host:8080/b",
            "http://me@host:8080/b",
            "//me@host:8080/b",
            "http:b",
            "user:1",
            "file:///b",
            "///host:8080/b",
            "/\\host:8080/b",
            "\\\\host:8080/b",
        ] {
            check("/a", elsewhere, None);
        }
    }
}
