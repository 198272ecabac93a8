//! A running endpoint, Thalweg or not, as `--url` and the options beside it name it.
//!
//! - `url`: where it is; `json_path`: where in an event a timestamp sits

mod json_path;
mod url;

pub use json_path::{JsonPath, PathStep, places};
pub use url::{Scheme, Url};

use super::error::unknown;
use super::{ScenarioError, Transport};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

const TRANSPORTS: [(&str, Transport); 3] = [
    ("websocket", Transport::Websocket),
    ("sse", Transport::Sse),
    ("http-streaming", Transport::HttpStreaming),
];

/// Headers that only the lab sets, and what to do instead.
const OWN_HEADERS: [(&str, &str); 10] = [
    ("connection", "leave it out"),
    ("upgrade", "write the URL with ws:// or wss://"),
    ("sec-websocket-key", "leave it out: each connection has a random one"),
    ("sec-websocket-version", "leave it out: it is 13"),
    ("sec-websocket-protocol", "use --subprotocol"),
    (
        "sec-websocket-extensions",
        "use --compress for permessage-deflate, the only one that is supported",
    ),
    ("accept-encoding", "use --compress for gzip; nothing else that is compressed can be read"),
    ("content-length", "leave it out: the request has no body"),
    ("transfer-encoding", "leave it out: the request has no body"),
    ("expect", "leave it out: the request has no body"),
];

/// Options as typed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Typed {
    /// `--url`.
    pub url: String,
    /// `--transports`, if it was given.
    pub transport: Option<String>,
    /// Every `--header`, as `Name: value`.
    pub headers: Vec<String>,
    /// `--subprotocol`.
    pub subprotocol: Option<String>,
    /// Every `--send-on-open`.
    pub send_on_open: Vec<String>,
    /// Where a timestamp sits: `a.b[0].c`, `$.a.b` or `/a/b/0`.
    pub timestamp: Option<String>,
    /// `--cacert`.
    pub cacert: Option<PathBuf>,
    /// `--insecure`.
    pub insecure: bool,
    /// The lines of `--data`, if it was given.
    pub data: Option<Vec<String>>,
    /// The lines of `--tokens`, if it was given.
    pub tokens: Option<Vec<String>>,
    /// `--binary`.
    pub binary: bool,
    /// `--compress`.
    pub compress: bool,
}

/// A WebSocket, SSE or HTTP-streaming endpoint, and how to connect to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// Where it is.
    pub url: Url,
    /// WebSocket, SSE or HTTP streaming.
    pub transport: Transport,
    /// Sent with each request, as they are.
    #[serde(default)]
    pub headers: Vec<(String, String)>,
    /// The one subprotocol that is offered (RFC 6455 §1.9).
    #[serde(default)]
    pub subprotocol: Option<String>,
    /// Text messages that each WebSocket sends after it opens.
    #[serde(default)]
    pub send_on_open: Vec<String>,
    /// Where an event says when it was made.
    #[serde(default)]
    pub timestamp: Option<JsonPath>,
    /// A PEM file of authorities that are trusted besides the machine's.
    #[serde(default)]
    pub cacert: Option<PathBuf>,
    /// Whether any certificate is taken.
    #[serde(default)]
    pub insecure: bool,
    /// Texts of messages, in turn: `{id}`, `{connection}` and `{token}` are filled in. Empty: the lab's own, of a given size.
    #[serde(default)]
    pub data: Vec<String>,
    /// Values of `{token}` in URL, headers and messages, one for each connection.
    #[serde(default)]
    pub tokens: Vec<String>,
    /// Whether messages are sent as binary ones.
    #[serde(default)]
    pub binary: bool,
    /// Whether compression is offered.
    #[serde(default)]
    pub compress: bool,
}

/// Place of a connection's own token.
pub(crate) const TOKEN: &str = "{token}";
/// Place of a message's id.
const ID: &str = "{id}";

impl Endpoint {
    /// Returns whether its messages must come back; each has an id.
    pub(super) fn is_to_answer(&self) -> bool {
        self.data.is_empty() || self.data.iter().any(|line| line.contains(ID))
    }

    /// Reads typed options. The error is one sentence with the remedy.
    pub fn read(typed: &Typed) -> Result<Endpoint, ScenarioError> {
        let url = typed.url.parse::<Url>()?;
        let transport = transport(&url, typed.transport.as_deref())?;
        let refuse = |message: &str| Err(ScenarioError::new(message));
        if transport != Transport::Websocket {
            if typed.subprotocol.is_some() {
                return refuse(
                    "--subprotocol needs a WebSocket: write the URL with ws:// or wss://",
                );
            }
            if !typed.send_on_open.is_empty() {
                return refuse(
                    "--send-on-open needs a WebSocket, because SSE and HTTP streaming only receive: \
                     put the data into the URL or a --header",
                );
            }
        }
        if !url.is_tls() && (typed.insecure || typed.cacert.is_some()) {
            return refuse(
                "--insecure and --cacert are about certificates: write the URL with wss:// or \
                 https://, or leave them out",
            );
        }
        if let Some(name) = &typed.subprotocol
            && !is_token(name)
        {
            return Err(ScenarioError::new(format!(
                "`{name}` is not the name of a subprotocol: write one name, such as graphql-transport-ws"
            )));
        }
        let endpoint = Endpoint {
            url,
            transport,
            headers: typed.headers.iter().map(|typed| header(typed)).collect::<Result<_, _>>()?,
            subprotocol: typed.subprotocol.clone(),
            send_on_open: typed.send_on_open.clone(),
            timestamp: typed.timestamp.as_deref().map(str::parse).transpose()?,
            cacert: typed.cacert.clone(),
            insecure: typed.insecure,
            data: lines("--data", "a message", typed.data.as_deref())?,
            tokens: lines("--tokens", "a token", typed.tokens.as_deref())?,
            binary: typed.binary,
            compress: typed.compress,
        };
        endpoint.expect_use_of_tokens()?;
        Ok(endpoint)
    }

    fn expect_use_of_tokens(&self) -> Result<(), ScenarioError> {
        if self.tokens.is_empty() {
            return Ok(());
        }
        let is_used_in_head = self.url.target().contains(TOKEN)
            || self.headers.iter().any(|(_, value)| value.contains(TOKEN));
        let mut messages = self.send_on_open.iter().chain(&self.data);
        if !is_used_in_head && !messages.any(|message| message.contains(TOKEN)) {
            return Err(ScenarioError::new(
                "--tokens has no effect: write {token} in the URL, a \
                 --header, --send-on-open or --data",
            ));
        }
        let cannot_stand =
            |token: &String| !token.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
        let in_target = |token: &String| self.url.target().contains(TOKEN) && token.contains(' ');
        let wrong = |token: &String| is_used_in_head && cannot_stand(token) || in_target(token);
        match self.tokens.iter().position(wrong) {
            None => Ok(()),
            Some(at) => Err(ScenarioError::new(format!(
                "line {} of --tokens cannot stand in a URL or a header: percent-encode spaces and \
                 what is not ASCII",
                at + 1
            ))),
        }
    }
}

/// Returns the lines of a file; none if no file was named.
fn lines(option: &str, what: &str, typed: Option<&[String]>) -> Result<Vec<String>, ScenarioError> {
    match typed {
        None => Ok(Vec::new()),
        Some([]) => Err(ScenarioError::new(format!(
            "the file of {option} is empty: write {what} on each line"
        ))),
        Some(lines) => Ok(lines.to_vec()),
    }
}

fn transport(url: &Url, named: Option<&str>) -> Result<Transport, ScenarioError> {
    let named = match named {
        None => None,
        Some(name) => {
            let found = TRANSPORTS.iter().find(|(right, _)| *right == name);
            let names = TRANSPORTS.map(|(name, _)| name);
            let (_, transport) = found.ok_or_else(|| {
                ScenarioError::new(unknown("transport of an endpoint", name, &names))
            })?;
            Some(*transport)
        }
    };
    match (url.scheme().is_websocket(), named) {
        (true, None | Some(Transport::Websocket)) => Ok(Transport::Websocket),
        (true, Some(other)) => Err(ScenarioError::new(format!(
            "{}:// is a WebSocket and not {other}: write the URL with http:// or https://",
            url.scheme()
        ))),
        (false, Some(Transport::Websocket)) => Err(ScenarioError::new(
            "a WebSocket has another scheme: write the URL with ws:// or wss://",
        )),
        (false, named) => Ok(named.unwrap_or(Transport::Sse)),
    }
}

fn header(typed: &str) -> Result<(String, String), ScenarioError> {
    let Some((name, value)) = typed.split_once(':') else {
        return Err(ScenarioError::new(format!(
            "`{typed}` is not a header: write it as \"Authorization: Bearer …\""
        )));
    };
    let (name, value) = (name.trim(), value.trim());
    if !is_token(name) || value.chars().any(|c| c.is_control() && c != '\t') {
        return Err(ScenarioError::new(format!(
            "`{}` is not a header: a name, a colon and a value on one line",
            typed.escape_debug()
        )));
    }
    if let Some((_, remedy)) = OWN_HEADERS.iter().find(|(own, _)| name.eq_ignore_ascii_case(own)) {
        return Err(ScenarioError::new(format!("the lab sets the header {name} itself: {remedy}")));
    }
    Ok((name.to_owned(), value.to_owned()))
}

/// RFC 9110 §5.6.2.
fn is_token(text: &str) -> bool {
    let is_token_byte =
        |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_token_byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(url: &str) -> Typed {
        Typed { url: url.to_owned(), ..Typed::default() }
    }

    #[test]
    fn the_scheme_says_the_transport() {
        let check = |url, named: Option<&str>, expected| {
            let typed = Typed { transport: named.map(str::to_owned), ..typed(url) };
            assert_eq!(Endpoint::read(&typed).unwrap().transport, expected, "{url}");
        };
        check("ws://h/", None, Transport::Websocket);
        check("wss://h/", Some("websocket"), Transport::Websocket);
        check("http://h/", None, Transport::Sse);
        check("https://h/", Some("sse"), Transport::Sse);
        check("http://h/", Some("http-streaming"), Transport::HttpStreaming);
    }

    #[test]
    fn an_endpoint_survives_a_plan() {
        let endpoint = Endpoint::read(&Typed {
            headers: vec!["Authorization:Bearer a:b ".to_owned(), "X-Empty:".to_owned()],
            subprotocol: Some("graphql-transport-ws".to_owned()),
            send_on_open: vec!["{}".to_owned()],
            timestamp: Some("a.b[0].c".to_owned()),
            insecure: true,
            ..typed("wss://[::1]:9/live?x=1")
        });
        let endpoint = endpoint.unwrap();
        assert_eq!(endpoint.headers[0], ("Authorization".to_owned(), "Bearer a:b".to_owned()));
        assert_eq!(endpoint.headers[1], ("X-Empty".to_owned(), String::new()));
        let text = serde_json::to_string(&endpoint).unwrap();
        assert_eq!(serde_json::from_str::<Endpoint>(&text).unwrap(), endpoint);
        let wrong = text.replace("wss://", "gopher://");
        assert!(serde_json::from_str::<Endpoint>(&wrong).is_err());
    }

    #[test]
    fn impossible_requests_are_refused_with_the_remedy() {
        let check = |typed: Typed, expected: &str| {
            let refusal = Endpoint::read(&typed).expect_err(expected).to_string();
            assert!(refusal.contains(expected), "{refusal:?} should say {expected:?}");
        };
        let named =
            |url, transport: &str| Typed { transport: Some(transport.to_owned()), ..typed(url) };
        check(named("ws://h/", "sse"), "http://");
        check(named("http://h/", "websocket"), "ws://");
        check(named("http://h/", "ssse"), "did you mean `sse`");
        check(named("http://h/", "long-polling"), "there are websocket, sse, http-streaming");
        check(Typed { subprotocol: Some("a".into()), ..typed("http://h/") }, "ws://");
        check(Typed { subprotocol: Some("a b".into()), ..typed("ws://h/") }, "one name");
        check(Typed { send_on_open: vec!["a".into()], ..typed("http://h/") }, "needs a WebSocket");
        check(Typed { insecure: true, ..typed("ws://h/") }, "wss://");
        check(Typed { cacert: Some("x".into()), ..typed("http://h/") }, "https://");
        let header = |header: &str| Typed { headers: vec![header.to_owned()], ..typed("ws://h/") };
        check(header("Authorization"), "Authorization: Bearer");
        check(header("a b: c"), "a name, a colon");
        check(header("a: c\r\nd: e"), "on one line");
        check(header("sec-websocket-protocol: a"), "--subprotocol");
        check(header("Accept-Encoding: gzip"), "compressed");
        check(Typed { timestamp: Some("a..b".into()), ..typed("ws://h/") }, "a..b");
    }
}
