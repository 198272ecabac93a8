//! Answers the requests of the provider. Pure, except for the date.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Method, Request, Response, StatusCode,
    header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED},
};
use http_body_util::Full;
use thalweg_match_feed::{Match, Size};

pub(super) struct Provider {
    seed: u64,
    every: Duration,
    begun: SystemTime,
    games: Vec<Game>,
    /// The newest list of matches, and its version.
    list: Option<(u32, Bytes)>,
    requests: Requests,
}

struct Game {
    game: Match,
    version: u32,
    body: Bytes,
}

#[derive(Default)]
struct Requests {
    all: u64,
    not_modified: u64,
    refused: u64,
    /// Has only paths of matches and of their list, so its size is bounded.
    by_path: BTreeMap<String, u64>,
}

/// A path of the API.
enum Key {
    /// The index of a match.
    Match(usize),
    All,
    /// A match with an id above the number of matches.
    Unknown,
    Bad,
}

impl Provider {
    pub(super) fn new(seed: u64, matches: u32, size: Size, every: Duration) -> Self {
        Self {
            seed,
            every,
            begun: SystemTime::now(),
            games: (1..=matches).map(|id| Game::new(seed, id, size)).collect(),
            list: None,
            requests: Requests::default(),
        }
    }

    /// Answers a request that arrives this long after the start.
    pub(super) fn answer<B>(
        &mut self,
        request: &Request<B>,
        elapsed: Duration,
    ) -> Response<Full<Bytes>> {
        let path = request.uri().path();
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return refused(StatusCode::METHOD_NOT_ALLOWED, "use GET or HEAD");
        }
        if path == "/requests" {
            return json(self.requests.json().into());
        }
        self.requests.all += 1;
        let version = (elapsed.as_nanos() / self.every.as_nanos().max(1)) as u32;
        let body = match Key::parse(path, self.games.len()) {
            Key::Match(index) => self.games[index].at(version),
            Key::All => self.list_at(version),
            Key::Unknown => {
                self.requests.refused += 1;
                return refused(
                    StatusCode::NOT_IMPLEMENTED,
                    "unknown match; /matchesfeed/all lists the matches",
                );
            }
            Key::Bad => {
                self.requests.refused += 1;
                let message = "invalid path; write /matchesfeed/ID/matchcentre with a number as ID";
                return refused(StatusCode::BAD_REQUEST, message);
            }
        };
        *self.requests.by_path.entry(path.to_owned()).or_default() += 1;
        let made = self.begun + self.every * version;
        let tag = format!("\"{}-{version}\"", self.seed);
        let is_known = is_known(request.headers(), &tag, made);
        self.requests.not_modified += u64::from(is_known);
        let mut response = json(if is_known { Bytes::new() } else { body });
        if is_known {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
        }
        let max_age = format!("max-age={}", self.every.as_secs());
        let modified = httpdate::fmt_http_date(made);
        for (name, text) in [(ETAG, tag), (CACHE_CONTROL, max_age), (LAST_MODIFIED, modified)] {
            // These texts are always valid header values.
            response.headers_mut().extend(text.parse().ok().map(|value| (name, value)));
        }
        response
    }

    fn list_at(&mut self, version: u32) -> Bytes {
        match &self.list {
            Some((of, body)) if *of == version => body.clone(),
            _ => {
                self.games.iter_mut().for_each(|game| drop(game.at(version)));
                let list = Match::list_json(self.games.iter().map(|game| &game.game));
                self.list.insert((version, list.into())).1.clone()
            }
        }
    }
}

impl Game {
    fn new(seed: u64, id: u32, size: Size) -> Self {
        let game = Match::new(seed, &id.to_string(), size);
        let body = Bytes::copy_from_slice(game.json());
        Self { game, version: 0, body }
    }

    /// Returns the document of a version. Skips versions that were not requested.
    fn at(&mut self, version: u32) -> Bytes {
        if version > self.version {
            self.game.advance_by(version - self.version);
            self.version = version;
            self.body = Bytes::copy_from_slice(self.game.json());
        }
        self.body.clone()
    }
}

impl Requests {
    fn json(&self) -> String {
        let Self { all, not_modified, refused, by_path } = self;
        serde_json::json!({
            "requests": all, "not_modified": not_modified, "refused": refused, "by_path": by_path,
        })
        .to_string()
    }
}

impl Key {
    fn parse(path: &str, matches: usize) -> Self {
        let Some(key) = path.strip_prefix("/matchesfeed/") else { return Self::Bad };
        if key == "all" {
            return Self::All;
        }
        let id = key.strip_suffix("/matchcentre").filter(|id| {
            // Each match has exactly one path.
            !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit()) && !id.starts_with('0')
        });
        match id.map(|id| id.parse::<usize>()) {
            None => Self::Bad,
            Some(Ok(id)) if id <= matches => Self::Match(id - 1),
            Some(_) => Self::Unknown,
        }
    }
}

/// Returns whether the client has this version (RFC 9110 §13.1), by its tag or else by its date.
fn is_known(headers: &HeaderMap, tag: &str, made: SystemTime) -> bool {
    if headers.contains_key(IF_NONE_MATCH) {
        let lines = headers.get_all(IF_NONE_MATCH).iter().filter_map(|line| line.to_str().ok());
        let mut known = lines.flat_map(|line| line.split(',')).map(str::trim);
        return known.any(|known| known == "*" || known.trim_start_matches("W/") == tag);
    }
    let since = headers.get(IF_MODIFIED_SINCE).and_then(|since| since.to_str().ok());
    // A date has whole seconds.
    let made = httpdate::parse_http_date(&httpdate::fmt_http_date(made));
    match (since.map(httpdate::parse_http_date), made) {
        (Some(Ok(since)), Ok(made)) => made <= since,
        _ => false,
    }
}

fn refused(status: StatusCode, message: &str) -> Response<Full<Bytes>> {
    let mut response = json(serde_json::json!({ "error": message }).to_string().into());
    *response.status_mut() = status;
    response
}

fn json(body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use serde_json::Value;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn provider() -> Provider {
        Provider::new(1, 3, Size::Small, SECOND)
    }

    fn ask(
        provider: &mut Provider,
        path: &str,
        header: Option<(&str, &str)>,
        elapsed: Duration,
    ) -> (u16, HeaderMap, Vec<u8>) {
        let mut request = Request::get(path);
        if let Some((name, value)) = header {
            request = request.header(name, value);
        }
        let (head, body) = provider.answer(&request.body(()).unwrap(), elapsed).into_parts();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let body = runtime.block_on(body.collect()).unwrap().to_bytes();
        (head.status.as_u16(), head.headers, body.to_vec())
    }

    #[test]
    fn a_match_is_new_every_second() {
        let mut provider = provider();
        let mut bodies = [0, 1, 1, 2, 50].map(|seconds| {
            let (status, headers, body) =
                ask(&mut provider, "/matchesfeed/2/matchcentre", None, SECOND * seconds);
            assert_eq!((status, headers[CACHE_CONTROL].to_str().unwrap()), (200, "max-age=1"));
            let document: Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(document["id"], "2");
            (headers[ETAG].clone(), body)
        });
        assert_eq!(bodies[1], bodies[2]);
        bodies.sort();
        assert_eq!(bodies.windows(2).filter(|pair| pair[0] == pair[1]).count(), 1);
    }

    #[test]
    fn a_known_version_is_answered_304() {
        let mut provider = provider();
        let path = "/matchesfeed/1/matchcentre";
        let (_, headers, _) = ask(&mut provider, path, None, SECOND);
        let [tag, modified] = [ETAG, LAST_MODIFIED].map(|name| headers[name].to_str().unwrap());
        let mut check = |name, value: &str, seconds, expected| {
            let answer = ask(&mut provider, path, Some((name, value)), SECOND * seconds);
            assert_eq!((answer.0, answer.2.is_empty()), (expected, expected == 304), "{value}");
        };
        check("if-none-match", tag, 1, 304);
        check("if-none-match", &format!("\"x\", W/{tag}"), 1, 304);
        check("if-none-match", "*", 1, 304);
        check("if-none-match", tag, 2, 200);
        check("if-none-match", "\"x\"", 1, 200);
        check("if-modified-since", modified, 1, 304);
        check("if-modified-since", modified, 2, 200);
        check("if-modified-since", "yesterday", 1, 200);
    }

    #[test]
    fn a_bad_key_is_400_and_an_unknown_one_501() {
        let mut provider = provider();
        for (path, expected) in [
            ("/matchesfeed/3/matchcentre", 200),
            ("/matchesfeed/all", 200),
            ("/matchesfeed/4/matchcentre", 501),
            ("/matchesfeed/99999999999999999999999/matchcentre", 501),
            ("/matchesfeed/0/matchcentre", 400),
            ("/matchesfeed/x/matchcentre", 400),
            ("/matchesfeed/1", 400),
            ("/", 400),
        ] {
            let (status, _, body) = ask(&mut provider, path, None, SECOND);
            let body: Value = serde_json::from_slice(&body).unwrap();
            assert_eq!((status, body["error"].is_string()), (expected, expected != 200), "{path}");
        }
        let (_, _, requests) = ask(&mut provider, "/requests", None, SECOND);
        let requests: Value = serde_json::from_slice(&requests).unwrap();
        assert_eq!((&requests["requests"], &requests["refused"]), (&8.into(), &6.into()));
        assert_eq!(requests["by_path"]["/matchesfeed/all"], 1);
    }

    #[test]
    fn the_list_is_of_the_same_version_as_its_matches() {
        let mut provider = provider();
        let (_, _, list) = ask(&mut provider, "/matchesfeed/all", None, SECOND * 700);
        let list: Value = serde_json::from_slice(&list).unwrap();
        let (_, _, one) = ask(&mut provider, "/matchesfeed/1/matchcentre", None, SECOND * 700);
        let one: Value = serde_json::from_slice(&one).unwrap();
        assert_eq!(list["matches"][0]["clock"], one["clock"]);
        assert_eq!(list["matches"].as_array().unwrap().len(), 3);
    }
}
