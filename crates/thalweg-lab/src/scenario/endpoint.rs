//! A running endpoint, Thalweg or not, as `--url` and the options beside it name it.
//!
//! - `url`: where it is; `json_path`: where in an event a value is
//! - `dialect`: the protocol that it speaks; `opening`: the dialogue that opens a WebSocket

mod dialect;
mod json_path;
mod opening;
mod url;

pub use dialect::EndpointDialect;
pub(crate) use dialect::invocation;
pub use json_path::{JsonPath, PathStep, places};
pub use opening::{Expectation, OpeningStep};
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
    ("content-length", "leave it out: the lab counts the bytes of --body"),
    ("transfer-encoding", "leave it out: --body is sent as it is"),
    ("expect", "leave it out: --body is sent at once"),
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
    /// `--dialect`.
    pub dialect: Option<String>,
    /// Every `--subscribe`.
    pub subscribe: Vec<String>,
    /// `--auth`.
    pub auth: Option<String>,
    /// Every `--send-on-open` and `--expect`, in their order.
    pub opening: Vec<OpeningStep>,
    /// `--method`.
    pub method: Option<String>,
    /// The text of `--body`.
    pub body: Option<String>,
    /// The shortest and the longest `--think`, µs.
    pub think_us: Option<(u64, u64)>,
    /// Where a timestamp sits: `a.b[0].c`, `$.a.b` or `/a/b/0`.
    pub timestamp: Option<String>,
    /// Where a number sits that rises by one from event to event.
    pub sequence: Option<String>,
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
    /// The protocol on top of the transport; without one, each message is an event.
    #[serde(default)]
    pub dialect: Option<EndpointDialect>,
    /// Subscriptions in the dialect's form.
    #[serde(default)]
    pub subscribe: Vec<String>,
    /// JSON with which a client identifies itself, in the dialect's first message.
    #[serde(default)]
    pub auth: Option<String>,
    /// Text messages and expected replies of each WebSocket after it opens.
    #[serde(default, alias = "send_on_open")]
    pub opening: Vec<OpeningStep>,
    /// The method of a request, unless it is GET, or POST with a body.
    #[serde(default)]
    pub method: Option<String>,
    /// The body of each request.
    #[serde(default)]
    pub body: Option<String>,
    /// The shortest and the longest time between two messages on a WebSocket, or between a complete response and the next request, µs.
    #[serde(default)]
    pub think_us: Option<(u64, u64)>,
    /// Where an event says when it was made.
    #[serde(default)]
    pub timestamp: Option<JsonPath>,
    /// Where an event has a number that rises by one from event to event of a connection.
    #[serde(default)]
    pub sequence: Option<JsonPath>,
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

    /// Returns whether each connection makes another request when a response is complete.
    pub(crate) fn renews(&self) -> bool {
        self.dialect == Some(EndpointDialect::LlmStream)
    }

    /// Returns whether each connection sends messages at random times.
    pub(super) fn sends_at_random(&self) -> bool {
        self.think_us.is_some() && self.transport == Transport::Websocket
    }

    /// Returns the method of requests.
    pub(crate) fn method(&self) -> &str {
        let default = if self.body.is_some() { "POST" } else { "GET" };
        self.method.as_deref().unwrap_or(default)
    }

    /// Reads typed options. The error is one sentence with the remedy.
    pub fn read(typed: &Typed) -> Result<Endpoint, ScenarioError> {
        let url = typed.url.parse::<Url>()?;
        let transport = transport(&url, typed.transport.as_deref())?;
        let dialect = typed.dialect.as_deref().map(EndpointDialect::parse).transpose()?;
        let refuse = |message: &str| Err(ScenarioError::new(message));
        expect_transport(typed, dialect, transport)?;
        let has = |is: fn(EndpointDialect) -> bool| dialect.is_some_and(is);
        if !typed.subscribe.is_empty() && !has(EndpointDialect::subscribes) {
            return refuse(
                "--subscribe needs a --dialect that subscribes; for another protocol use \
                 --send-on-open",
            );
        }
        if typed.auth.is_some() && !has(EndpointDialect::authenticates) {
            return refuse(
                "--auth needs --dialect socketio, graphql-ws or centrifugo: put the token into the \
                 URL or a --header",
            );
        }
        if let Some(auth) = &typed.auth
            && serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(auth).is_err()
        {
            return refuse("--auth takes a JSON object, such as '{\"token\": \"…\"}'");
        }
        let is_websocket = transport == Transport::Websocket;
        if typed.think_us.is_some()
            && !is_websocket
            && !has(|dialect| dialect == EndpointDialect::LlmStream)
        {
            return refuse(
                "--think is the time between messages on a WebSocket, or between requests: write \
                 the URL with ws:// or wss://, or add --dialect llm-stream",
            );
        }
        if is_websocket && typed.think_us.is_some_and(|(_, longest_us)| longest_us < 1000) {
            return refuse(
                "--think on a WebSocket is 1ms or longer: write a longer time, such as 1s..5s",
            );
        }
        if let Some(method) = typed.method.as_deref().filter(|method| !is_token(method)) {
            return Err(ScenarioError::new(format!("`{method}` is no method: write POST or GET")));
        }
        if let Some(dialect) = dialect {
            typed.subscribe.iter().try_for_each(|text| dialect.check_subscribe(text))?;
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
            dialect,
            subscribe: typed.subscribe.clone(),
            auth: typed.auth.clone(),
            opening: typed.opening.clone(),
            method: typed.method.clone(),
            body: typed.body.clone(),
            think_us: typed.think_us,
            timestamp: typed.timestamp.as_deref().map(str::parse).transpose()?,
            sequence: typed.sequence.as_deref().map(str::parse).transpose()?,
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
        let sent = self.opening.iter().filter_map(|step| match step {
            OpeningStep::Send(text) => Some(text),
            OpeningStep::Expect { .. } => None,
        });
        let texts = [&self.auth, &self.body].into_iter().flatten();
        let mut messages = sent.chain(&self.subscribe).chain(&self.data).chain(texts);
        if !is_used_in_head && !messages.any(|message| message.contains(TOKEN)) {
            return Err(ScenarioError::new(
                "--tokens has no effect: write {token} in the URL, a --header, --auth, --body, \
                 --send-on-open, --subscribe or --data",
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

/// Refuses options that need another transport.
fn expect_transport(
    typed: &Typed,
    dialect: Option<EndpointDialect>,
    transport: Transport,
) -> Result<(), ScenarioError> {
    let refuse = |message: &str| Err(ScenarioError::new(message));
    let is_websocket = transport == Transport::Websocket;
    match dialect {
        Some(EndpointDialect::Sse) if transport == Transport::HttpStreaming => {
            return refuse("--dialect sse is spoken over SSE: remove --transports");
        }
        Some(dialect) if dialect.subscribes() != is_websocket => {
            return refuse(match is_websocket {
                true => {
                    "this --dialect is spoken over HTTP: write the URL with http:// or https://"
                }
                false => {
                    "this --dialect is spoken over a WebSocket: write the URL with ws:// or wss://"
                }
            });
        }
        _ => {}
    }
    if is_websocket {
        return match typed.method.is_some() || typed.body.is_some() {
            true => refuse("--method and --body need HTTP: write the URL with http:// or https://"),
            false => Ok(()),
        };
    }
    if typed.subprotocol.is_some() {
        return refuse("--subprotocol needs a WebSocket: write the URL with ws:// or wss://");
    }
    if !typed.opening.is_empty() {
        return refuse(
            "--send-on-open and --expect need a WebSocket, because SSE and HTTP streaming only \
             receive: put the data into the URL, a --header or the --body",
        );
    }
    Ok(())
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
            opening: vec![OpeningStep::Send("{}".to_owned()), OpeningStep::expect("a=b")],
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
        let opening = || vec![OpeningStep::Send("a".to_owned())];
        check(Typed { opening: opening(), ..typed("http://h/") }, "need a WebSocket");
        let speaks = |url, dialect: &str| Typed { dialect: Some(dialect.to_owned()), ..typed(url) };
        check(speaks("ws://h/", "socket.io"), "did you mean `socketio`");
        check(speaks("http://h/", "socketio"), "ws://");
        check(speaks("ws://h/", "llm-stream"), "http://");
        let subscribe = |dialect, text: &str| Typed {
            subscribe: vec![text.to_owned()],
            ..speaks(if dialect == "sse" { "http://h/" } else { "ws://h/" }, dialect)
        };
        check(subscribe("sse", "a"), "a --dialect that subscribes");
        check(subscribe("signalr", "[1]"), "[\"join\", \"room\"]");
        check(Typed { subscribe: vec!["a".into()], ..typed("ws://h/") }, "use --send-on-open");
        let auth = |dialect, auth: &str| Typed {
            auth: Some(auth.to_owned()),
            ..speaks("ws://h/", dialect)
        };
        check(auth("signalr", "{}"), "--auth needs");
        check(auth("centrifugo", "secret"), "a JSON object");
        check(Typed { body: Some("{}".into()), ..typed("ws://h/") }, "http://");
        check(Typed { method: Some("GET /".into()), ..typed("http://h/") }, "write POST or GET");
        check(Typed { think_us: Some((1, 2)), ..typed("http://h/") }, "--dialect llm-stream");
        check(Typed { think_us: Some((0, 0)), ..typed("ws://h/") }, "1ms or longer");
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
