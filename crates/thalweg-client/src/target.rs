//! URLs: the client's own, and those of its requests.

use std::{borrow::Cow, time::Duration};

use hyper::Uri;
use thalweg_wire::{StartAt, Topic, authority::port};

use crate::{Error, Subscribe, Transport};

const URL_FORM: &str = "write it as http://127.0.0.1:8080 or https://host.name";

/// A server: the part of a URL before `/v1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) is_tls: bool,
    /// Without the brackets of an IPv6 address.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The value of `Host`.
    pub(crate) authority: String,
    /// A proxy's prefix of `/v1`, without the last `/`.
    prefix: String,
}

impl Server {
    /// Parses a URL; returns the topic in its path, if any.
    pub(crate) fn parse(url: &str) -> Result<(Self, Option<Topic>), Error> {
        let wrong = |why: &str| Error::Url { url: url.to_owned(), why: why.to_owned() };
        let uri: Uri = with_scheme(url).parse().map_err(|_| wrong(URL_FORM))?;
        let is_tls = match uri.scheme_str() {
            Some("http" | "ws") => false,
            Some("https" | "wss") => true,
            _ => return Err(wrong(URL_FORM)),
        };
        let authority = uri.authority().ok_or_else(|| wrong("add a host"))?;
        if authority.as_str().contains('@') {
            return Err(wrong("present a token instead of a user name"));
        }
        if uri.query().is_some() {
            return Err(wrong("remove the query and use options"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = port(authority.as_str(), is_tls)
            .ok_or_else(|| wrong("write a port from 1 to 65535, as in http://127.0.0.1:8080"))?;
        let path = uri.path();
        let (prefix, topic) = match path.split_once("/v1/topics") {
            Some((prefix, "" | "/")) => (prefix, None),
            Some((prefix, topic)) => {
                let topic = topic.strip_prefix('/').unwrap_or(topic);
                (prefix, Some(Topic::from_path(topic)?))
            }
            None => (path.trim_end_matches('/').trim_end_matches("/v1"), None),
        };
        let (authority, prefix) = (authority.as_str().to_owned(), prefix.to_owned());
        Ok((Self { is_tls, host, port, authority, prefix }, topic))
    }

    /// Returns a path of the server with its proxy's prefix.
    pub(crate) fn path(&self, path: &str) -> String {
        format!("{}{path}", self.prefix)
    }

    pub(crate) fn topic_path(&self, topic: &Topic) -> String {
        self.path(&format!("/v1/topics/{}", topic.to_path()))
    }

    pub(crate) fn explanation(&self, text: &str) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("explain", text);
        self.path(&format!("/v1/topics?{}", query.finish()))
    }

    /// Returns the path of a subscription: each topic with its cursor. `wait` is the timeout of a long poll.
    pub(crate) fn subscription(
        &self,
        topics: &[(Topic, StartAt)],
        transport: Transport,
        subscribe: &Subscribe,
        wait: Duration,
        takes_patches: bool,
    ) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        let path = match topics {
            _ if subscribe.query.is_some() => {
                query.extend_pairs(subscribe.query.iter().map(|text| ("query", text)));
                self.path("/v1/topics")
            }
            [(topic, _)] => {
                append_filter(&mut query, subscribe);
                self.topic_path(topic)
            }
            _ => {
                for (topic, _) in topics {
                    query.append_pair("topic", &filtered_topic(topic, subscribe));
                }
                self.path("/v1/topics")
            }
        };
        for (_, cursor) in topics {
            query.append_pair("cursor", &cursor_text(*cursor));
        }
        query.append_pair("policy", subscribe.policy.name());
        if takes_patches {
            query.append_pair("deltas", "patch");
        }
        if !subscribe.interval.is_zero() {
            query.append_pair("interval", &duration_text(subscribe.interval));
        }
        match transport {
            Transport::WebSocket => {
                if let Some(window) = subscribe.window {
                    query.append_pair("window", &window.to_string());
                }
            }
            Transport::LongPolling => {
                query.append_pair("wait", &duration_text(wait));
            }
            Transport::ForeverFrame => {
                query.append_pair("transport", transport.name());
            }
            Transport::Sse | Transport::HttpStreaming => {}
        }
        format!("{path}?{}", query.finish())
    }
}

fn append_filter(query: &mut form_urlencoded::Serializer<'_, String>, subscribe: &Subscribe) {
    query.extend_pairs(subscribe.keys.iter().map(|key| ("key", key)));
    query.extend_pairs(subscribe.prefix.iter().map(|prefix| ("prefix", prefix)));
}

/// Returns a topic of a list with its filter: in a URL with several topics each has its own.
fn filtered_topic(topic: &Topic, subscribe: &Subscribe) -> String {
    let mut filter = form_urlencoded::Serializer::new(String::new());
    append_filter(&mut filter, subscribe);
    let filter = filter.finish();
    match filter.is_empty() {
        true => topic.to_string(),
        false => format!("{topic}?{filter}"),
    }
}

/// Adds the scheme for a server on this machine: `localhost:8080`, `:8080`. Another server needs a scheme, because the
/// client must not send a token without TLS by accident.
fn with_scheme(url: &str) -> Cow<'_, str> {
    let host = url.split(['/', '?']).next().unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    match name {
        "" if host.len() > 1 => Cow::Owned(format!("http://localhost{url}")),
        "localhost" | "127.0.0.1" | "[::1]" => Cow::Owned(format!("http://{url}")),
        _ => Cow::Borrowed(url),
    }
}

pub(crate) fn cursor_text(cursor: StartAt) -> String {
    let mut text = Vec::new();
    cursor.write(&mut text);
    String::from_utf8(text).unwrap_or_default()
}

fn duration_text(duration: Duration) -> String {
    match duration.subsec_micros() % 1000 {
        0 => format!("{}ms", duration.as_millis()),
        _ => format!("{}us", duration.as_micros()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_server_and_perhaps_a_topic() {
        let check = |url: &str, host: &str, port: u16, prefix: &str, topic: Option<&str>| {
            let (server, found) = Server::parse(url).unwrap();
            let found = found.as_ref().map(Topic::as_str);
            let server = (&*server.host, server.port, &*server.prefix);
            assert_eq!((server, found), ((host, port, prefix), topic), "{url}");
        };
        check("http://127.0.0.1:8080", "127.0.0.1", 8080, "", None);
        check("http://127.0.0.1:8080/", "127.0.0.1", 8080, "", None);
        check("https://push.example/v1/topics", "push.example", 443, "", None);
        check("http://h/v1/topics/a/b", "h", 80, "", Some("a/b"));
        check("https://h/live/v1/topics/v1", "h", 443, "/live", Some("v1"));
        check("http://h/v1/topics/auth0%7C5f/%40", "h", 80, "", Some("auth0|5f/@"));
        check("http://h/v1/", "h", 80, "", None);
        check("ws://[::1]:9/live/", "::1", 9, "/live", None);
        check("127.0.0.1:8080", "127.0.0.1", 8080, "", None);
        check("localhost:8080/v1/topics/cars", "localhost", 8080, "", Some("cars"));
        check(":8080/v1/topics/cars", "localhost", 8080, "", Some("cars"));
    }

    #[test]
    fn each_topic_of_a_list_has_the_filter() {
        let (server, _) = Server::parse(":8080").unwrap();
        let topics = ["a", "b"].map(|topic| (topic.parse().unwrap(), StartAt::Latest));
        let keys = vec!["x,y".to_owned(), "z&".to_owned()];
        let subscribe = Subscribe { keys, prefix: Some("p/".to_owned()), ..Subscribe::default() };
        let check = |topics: &[(Topic, StartAt)], expected: &str| {
            let transport = Transport::HttpStreaming;
            let path = server.subscription(topics, transport, &subscribe, Duration::ZERO, false);
            assert!(path.starts_with(expected), "{path}");
        };
        check(&topics[..1], "/v1/topics/a?key=x%2Cy&key=z%26&prefix=p%2F&cursor=latest");
        let filter = "%3Fkey%3Dx%252Cy%26key%3Dz%2526%26prefix%3Dp%252F";
        check(&topics, &format!("/v1/topics?topic=a{filter}&topic=b{filter}&cursor=latest"));
    }

    #[test]
    fn malformed_urls_are_refused_with_the_remedy() {
        let check = |url: &str, expected: &str| {
            let said = Server::parse(url).expect_err(url).to_string();
            assert!(said.contains(expected), "{url}: {said}");
        };
        check("push.example:8080", "write it as");
        check(":", "write it as");
        check("cars", "write it as");
        check("ftp://h/", "write it as");
        for port in ["", "0", "65536", "80x", "+80"] {
            check(&format!("http://h:{port}/v1/topics/a"), "a port from 1 to 65535");
            check(&format!("wss://[::1]:{port}"), "a port from 1 to 65535");
        }
        check("http://me:secret@h/", "token");
        check("http://h/v1/topics?topic=a", "remove the query");
        check("http://h/v1/topics/a//b", "must not be empty");
        check("http://h/v1/topics/a%2Fb", "write / instead of %2F");
    }

    #[test]
    fn a_subscription_is_a_path_and_a_query() {
        let (server, _) = Server::parse("http://h/live").unwrap();
        let topic = |name: &str| -> Topic { name.parse().unwrap() };
        let at = StartAt::After("9f.7".parse().unwrap());
        let mut subscribe = Subscribe { window: Some(65_536), ..Subscribe::default() };
        let one = [(topic("a/b"), at)];
        let wait = Duration::from_secs(25);
        assert_eq!(
            server.subscription(&one, Transport::WebSocket, &subscribe, wait, true),
            "/live/v1/topics/a/b?cursor=9f.7&policy=skip&deltas=patch&window=65536"
        );
        subscribe.interval = Duration::from_micros(2500);
        assert_eq!(
            server.subscription(&one, Transport::LongPolling, &subscribe, wait, true),
            "/live/v1/topics/a/b?cursor=9f.7&policy=skip&deltas=patch&interval=2500us&wait=25000ms"
        );
        assert_eq!(server.topic_path(&topic("a|b/c+d@e:f=g")), "/live/v1/topics/a%7Cb/c+d@e:f=g");
        let two = [(topic("a/b"), at), (topic("c+d"), StartAt::Latest)];
        subscribe.interval = Duration::ZERO;
        assert_eq!(
            server.subscription(&two, Transport::ForeverFrame, &subscribe, wait, true),
            "/live/v1/topics?topic=a%2Fb&topic=c%2Bd&cursor=9f.7&cursor=latest&policy=skip&deltas=patch\
             &transport=forever-frame"
        );
    }
}
