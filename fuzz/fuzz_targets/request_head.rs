//! A request is refused with a code and a sentence, or answered by a head that holds
//! nothing of its making; and no page or name that is not the server's gets in.
//!
//! The first byte says what server it is and how it is spoken to, the rest is a head
//! of HTTP/1.1. `TICKET` stands for one that was given to a subscriber.

#![no_main]

use std::sync::LazyLock;

use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, Version, request::Parts};
use libfuzzer_sys::fuzz_target;
use thalweg_server::{
    config::{Config, NamedToken},
    fuzzing::{Begun, Refused, RequestChecks},
};
use thalweg_token::Rights;
use thalweg_wire::answer;
use url::{Host, Url};

/// hyper's own.
const HEADERS_MAX: usize = 100;

/// More than the longest that a server of ours answers with.
const ANSWERS_MAX: usize = 32;

/// For everybody on loopback; for holders of a token, and more; for every page.
static CONFIGS: LazyLock<[Config; 3]> = LazyLock::new(|| {
    let default = Config::default();
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
    let head = with_ticket(head, ticket.as_deref());
    let Some(request) = request(&head, version) else { return };
    let Ok(admitted) = told(checks.admit(&request)) else { return };
    if which == 0 {
        check_is_own(&request);
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

fn with_ticket(head: &[u8], ticket: Option<&str>) -> Vec<u8> {
    const PLACE: &[u8] = b"TICKET";
    let at = head.windows(PLACE.len()).position(|window| window == PLACE);
    match (at, ticket) {
        (Some(at), Some(ticket)) => {
            [&head[..at], ticket.as_bytes(), &head[at + PLACE.len()..]].concat()
        }
        _ => head.to_vec(),
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
