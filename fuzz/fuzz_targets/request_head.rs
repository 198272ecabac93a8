//! A request is refused with a code and a sentence, or answered by a head that holds
//! nothing of its making; and no page or name that is not the server's gets in.
//!
//! The first byte says what server it is and how it is spoken to, the rest is a head
//! of HTTP/1.1. `TICKET` stands for one that was given to a subscriber, `SESSION` for the
//! token of a negotiated session of the hub.

#![no_main]

use std::sync::LazyLock;

use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, Version, request::Parts};
use libfuzzer_sys::fuzz_target;
use thalweg_server::{
    config::{Config, NamedToken},
    fuzzing::{Begun, MountAnswer, Refused, RequestChecks, SessionKind},
};
use thalweg_token::Rights;
use thalweg_wire::{ErrorCode, answer};
use url::{Host, Url, form_urlencoded};

/// hyper's own.
const HEADERS_MAX: usize = 100;

/// More than the longest that a server of ours answers with.
const ANSWERS_MAX: usize = 32;

/// For everybody on loopback; for holders of a token, and more; for every page.
static CONFIGS: LazyLock<[Config; 3]> = LazyLock::new(|| {
    let default = Config { signalr_paths: vec!["/hub".into()], ..Config::default() };
    let mut guarded = Config { compression: true, ..default.clone() };
    guarded.access.tokens = vec![
        NamedToken::new("publisher", "pub", Rights::all()),
        NamedToken::new("subscriber", "sub", Rights::to_subscribe()),
    ];
    guarded.access.origins = vec!["https://app.example".into(), "null".into()];
    guarded.access.hosts = vec!["proxy.example".into()];
    let mut open = Config { listen: ([0, 0, 0, 0], 8080).into(), ..default.clone() };
    open.access.everybody = Some(Rights::all());
    open.access.origins = vec!["*".into()];
    [default, guarded, open]
});

fuzz_target!(|input: &[u8]| {
    let Some((form, head)) = input.split_first() else { return };
    let which = usize::from(*form) % CONFIGS.len();
    let version = if form & 0x80 == 0 { None } else { Some(Version::HTTP_2) };
    let checks = RequestChecks::new(&CONFIGS[which]).expect("a right configuration");
    let ticket = (which == 1)
        .then(|| checks.issue_ticket(&checks.named("subscriber"), 0).expect("the first"));
    let session = checks.negotiate_session(1);
    let head = with(head, b"TICKET", ticket.as_deref());
    let head = with(&head, b"SESSION", Some(&session));
    let Some(request) = request(&head, version) else { return };
    let Ok(admitted) = told(checks.admit(&request)) else { return };
    if which == 0 {
        check_is_own(&request);
    }
    if checks.is_mounted(request.uri.path()) {
        return Hub { checks: &checks, request: &request, admitted: &admitted, session: &session }
            .check(form & 0x40 != 0);
    }
    let begun = told(checks.begin(&request, admitted));
    let who = told(checks.identify(&request, 1));
    if let Ok(who) = &who {
        check_who(&checks, &request, which, who.name(), ticket.as_deref());
    }
    if let Ok(begun) = &begun {
        check_head(&begun.head);
    }
    if let (Ok(Begun { topics, .. }), Ok(who)) = (begun, who) {
        for topic in topics {
            let [subscribe, publish] = checks.authorise(&who, &topic).map(told);
            assert_eq!(subscribe.is_ok(), which != 1 || who.name() != "nobody");
            assert_eq!(publish.is_ok(), which != 1 || who.name() == "publisher");
        }
    }
});

/// Returns the head with a text in the place of a word.
fn with(head: &[u8], word: &[u8], text: Option<&str>) -> Vec<u8> {
    let at = head.windows(word.len()).position(|window| window == word);
    match (at, text) {
        (Some(at), Some(text)) => [&head[..at], text.as_bytes(), &head[at + word.len()..]].concat(),
        _ => head.to_vec(),
    }
}

/// A request to the hub.
struct Hub<'a> {
    checks: &'a RequestChecks<'a>,
    request: &'a Parts,
    admitted: &'a HeaderMap,
    /// The token of the negotiated session.
    session: &'a str,
}

impl Hub<'_> {
    /// Checks the answers to the request, before a connection is open and after. With `is_open` a client
    /// already polls in the session.
    fn check(&self, is_open: bool) {
        let polls = is_open.then(|| {
            let poll = Request::get(format!("/hub?id={}", self.session)).body(());
            let poll = poll.expect("a request").into_parts().0;
            match self.checks.answer_at_mount(&poll, self.admitted, 1) {
                Some(Ok(MountAnswer::Opened(connection))) => connection,
                _ => panic!("a negotiated session is not opened"),
            }
        });
        match self.answer(2) {
            None | Some(Err(_)) => return,
            Some(Ok(MountAnswer::Body(json))) => self.check_negotiation(&json),
            Some(Ok(MountAnswer::Session(kind))) => {
                assert!(polls.is_some(), "a request of a session that is not open");
                assert_eq!(self.parameter("id").as_deref(), Some(self.session));
                let is = |method: &str| self.request.method == method;
                assert!(match kind {
                    SessionKind::Send => is("POST"),
                    SessionKind::Poll => is("GET"),
                    SessionKind::RepeatedPoll => false,
                    SessionKind::End => is("DELETE"),
                });
                if kind == SessionKind::Poll {
                    self.check_repeats();
                }
            }
            Some(Ok(MountAnswer::Opened(connection))) => {
                check_head(&connection.head);
                let Some(id) = self.parameter("id") else {
                    assert!(connection.head.starts_with(b"HTTP/1.1 101 "), "only a WebSocket");
                    return;
                };
                assert_eq!(id, self.session, "an id that the server did not issue");
                assert!(polls.is_none(), "two connections of a session");
                match self.answer(3).expect("the same path") {
                    Ok(MountAnswer::Session(kind)) => {
                        assert_eq!(kind, SessionKind::Poll);
                        self.check_repeats();
                    }
                    Ok(_) => panic!("two connections of a session"),
                    Err(code) => assert_eq!(code, ErrorCode::InUse),
                }
                drop(connection);
                let again = self.answer(4).expect("the same path").err();
                assert_eq!(again, Some(ErrorCode::NotFound), "the session has ended");
            }
        }
        if let Some(polls) = polls {
            drop(polls);
            if let Some(Ok(MountAnswer::Session(_) | MountAnswer::Opened(_))) = self.answer(9) {
                assert!(self.parameter("id").is_none(), "the session has ended");
            }
        }
    }

    /// Checks that a poll with a number is a repeated one over another HTTP connection, and over no other.
    fn check_repeats(&self) {
        let number = self.parameter("_").and_then(|number| number.parse::<u64>().ok());
        for (connection_us, is_other) in [(5, true), (5, false), (6, true)] {
            let Some(Ok(MountAnswer::Session(kind))) = self.answer(connection_us) else {
                panic!("the session is open")
            };
            let is_repeated = number.is_some() && is_other;
            let expected = if is_repeated { SessionKind::RepeatedPoll } else { SessionKind::Poll };
            assert_eq!(kind, expected);
        }
    }

    /// Checks that a negotiation is JSON, and that its token opens a connection.
    fn check_negotiation(&self, json: &[u8]) {
        let answer: serde_json::Value = serde_json::from_slice(json).expect("JSON");
        let (id, token) = (&answer["connectionId"], &answer["connectionToken"]);
        assert!(id != token, "the id is not secret");
        let token = if answer["negotiateVersion"] == 0 { id } else { token };
        let token = token.as_str().expect("a token");
        assert_ne!(token, self.session, "each negotiation has its own token");
        let poll = Request::get(format!("/hub?id={token}")).body(()).expect("a request");
        let opened = self.checks.answer_at_mount(&poll.into_parts().0, &HeaderMap::new(), 1);
        assert!(matches!(opened, Some(Ok(MountAnswer::Opened(_)))));
    }

    fn answer(&self, connection_us: u64) -> Option<Result<MountAnswer, ErrorCode>> {
        let answer = self.checks.answer_at_mount(self.request, self.admitted, connection_us)?;
        let code = answer.as_ref().err().map(|(code, _)| *code);
        Some(told(answer).map_err(|()| code.expect("the code of the refusal")))
    }

    fn parameter(&self, name: &str) -> Option<String> {
        let query = self.request.uri.query().unwrap_or_default();
        let mut pairs = form_urlencoded::parse(query.as_bytes());
        pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
    }
}

/// Reads a head as hyper does: `None` where hyper refuses it.
fn request(head: &[u8], version: Option<Version>) -> Option<Parts> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = httparse::Request::new(&mut headers);
    if !parsed.parse(head).ok()?.is_complete() {
        return None;
    }
    let mut request = Request::new(());
    *request.method_mut() = Method::from_bytes(parsed.method?.as_bytes()).ok()?;
    *request.uri_mut() = parsed.path?.parse::<Uri>().ok()?;
    let http1 = if parsed.version? == 0 { Version::HTTP_10 } else { Version::HTTP_11 };
    *request.version_mut() = version.unwrap_or(http1);
    for header in parsed.headers {
        let name = HeaderName::from_bytes(header.name.as_bytes()).ok()?;
        request.headers_mut().append(name, HeaderValue::from_bytes(header.value).ok()?);
    }
    Some(request.into_parts().0)
}

/// Checks that a refusal has a code and one sentence, also as JSON.
fn told<T>(outcome: Result<T, Refused>) -> Result<T, ()> {
    outcome.map_err(|(code, message)| {
        assert!((400..=599).contains(&code.status()), "{}", code.name());
        assert!(!message.trim().is_empty(), "{} says nothing", code.name());
        assert!(!message.contains(char::is_control), "{message:?} is no one line");
        let json = answer::refusal(code, &message, None, None);
        serde_json::from_slice::<serde_json::Value>(&json).expect("a refusal is JSON");
    })
}

/// A server on loopback is asked by loopback's names alone, and by its own pages: as a browser understands names and origins.
fn check_is_own(request: &Parts) {
    let text = |name| request.headers.get(name).and_then(|value| value.to_str().ok());
    let own = match request.uri.authority() {
        Some(authority) => Some(authority.as_str()),
        None => text("host"),
    };
    let is_named = request.uri.authority().is_some() || request.headers.contains_key("host");
    let parsed = |scheme| own.and_then(|own| Url::parse(&format!("{scheme}://{own}/")).ok());
    let (own, own_of_https) = (parsed("http"), parsed("https"));
    if let Some(own) = &own {
        assert!(is_loopback(own), "{own} is admitted");
    }
    let Some(origin) = request.headers.get("origin") else {
        let is = |name, value| text(name) == Some(value);
        let is_foreign = is("sec-fetch-site", "cross-site") || is("sec-fetch-site", "same-site");
        let is_followed = is("sec-fetch-mode", "navigate") && is("sec-fetch-dest", "document");
        assert!(!is_foreign || is_followed, "a page embeds what is here");
        return;
    };
    assert!(is_named, "a page admitted to nobody");
    let origin = origin.to_str().expect("an origin is ASCII");
    // A browser never sends another form, and the server matches none.
    let (Some(own), Ok(origin)) = (own, Url::parse(origin)) else { return };
    let name = |url: &Url| url.host_str().map(|name| name.trim_end_matches('.').to_owned());
    assert_eq!(name(&origin), name(&own), "{origin} is admitted to {own}");
    // Only a port that differs from its scheme's is kept. Without one, it is the scheme's.
    let port = own.port().or(own_of_https.and_then(|own| own.port()));
    assert!(matches!(origin.scheme(), "http" | "https"), "{origin} is a server's");
    let default = if origin.scheme() == "https" { 443 } else { 80 };
    let origin_port = origin.port_or_known_default();
    assert_eq!(origin_port, port.or(Some(default)), "{origin} is admitted to {own}");
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            name == "localhost" || name.ends_with(".localhost")
        }
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.to_canonical().is_loopback(),
        None => false,
    }
}

/// Without a token or a ticket, which is good once, nobody is known.
fn check_who(
    checks: &RequestChecks<'_>,
    request: &Parts,
    which: usize,
    who: &str,
    ticket: Option<&str>,
) {
    if which != 1 {
        assert_eq!(who, "nobody");
        return;
    }
    let query = request.uri.query().unwrap_or_default();
    if ticket.is_some_and(|ticket| query.contains(ticket)) && who == "subscriber" {
        let again = told(checks.identify(request, 1));
        let is_token = presents(&request.headers, "sub") && !query.contains("ticket=");
        assert!(again.is_err() || is_token, "a ticket is good twice");
        return;
    }
    match who {
        "publisher" => assert!(presents(&request.headers, "pub")),
        "subscriber" => assert!(presents(&request.headers, "sub")),
        _ => assert_eq!(who, "nobody"),
    }
}

fn presents(headers: &HeaderMap, token: &str) -> bool {
    let credentials = headers.get("authorization").and_then(|value| value.to_str().ok());
    credentials.is_some_and(|text| {
        text.split_once(' ').is_some_and(|(scheme, presented)| {
            scheme.eq_ignore_ascii_case("bearer") && presented.trim() == token
        })
    })
}

/// A head is one to HTTP, and of ours alone.
fn check_head(head: &[u8]) {
    let mut headers = [httparse::EMPTY_HEADER; ANSWERS_MAX];
    let mut parsed = httparse::Response::new(&mut headers);
    let length = parsed.parse(head).expect("a head of HTTP");
    assert!(length.is_complete());
    assert!(matches!(parsed.code, Some(101 | 200)));
    const OURS: [&str; 18] = [
        "access-control-allow-headers",
        "access-control-allow-methods",
        "access-control-allow-origin",
        "access-control-expose-headers",
        "access-control-max-age",
        "cache-control",
        "connection",
        "content-encoding",
        "content-security-policy",
        "content-type",
        "date",
        "sec-websocket-accept",
        "sec-websocket-extensions",
        "transfer-encoding",
        "upgrade",
        "vary",
        "x-accel-buffering",
        "x-content-type-options",
    ];
    for header in parsed.headers {
        assert!(OURS.contains(&header.name), "{} is none of ours", header.name);
    }
}
