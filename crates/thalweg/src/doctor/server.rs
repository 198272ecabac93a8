//! Checks with single requests: whether a Thalweg server answers, its clock, HTTP/2, origins and rights.

use std::time::{Duration, SystemTime};

use thalweg_client::{Client, Error, Probe, ProbeAnswer, Topic};
use tokio::time::timeout;

use super::{
    finding::Report,
    remedies::{HOST, HTTP2, PATH, PREFLIGHT, RIGHTS, TWO_CORS, UNREACHABLE},
};

const ECHOED: &str = "thalweg doctor";
const ECHO: &str = r#"{"command":"echo","data":"thalweg doctor"}"#;
const COMMANDS: &str = "/v1/commands";
const JSON: (&str, &str) = ("Content-Type", "application/json");
const ALLOW_ORIGIN: &str = "Access-Control-Allow-Origin";

/// A difference of clocks that servers tolerate in signed tokens.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(30);

pub(super) struct ServerChecks<'a> {
    pub(super) client: &'a Client,
    /// An answer that takes longer is late.
    pub(super) wait: Duration,
    pub(super) report: &'a mut Report,
}

impl ServerChecks<'_> {
    /// Checks the server, and that pages of `origin` may use it. Returns whether it makes sense to check its streams.
    pub(super) async fn check(&mut self, origin: Option<&str>) -> anyhow::Result<bool> {
        let Some((answer, received)) = self.identify().await? else { return Ok(false) };
        self.compare_clocks(&answer, received)?;
        self.check_http2(&answer)?;
        self.check_own_origin().await?;
        // Pages of the server's own origin need no CORS headers, and get none.
        if let Some(origin) = origin
            && !origin.eq_ignore_ascii_case(&self.client.origin())
        {
            self.check_origin(origin).await?;
        }
        Ok(true)
    }

    async fn ask(&self, probe: Probe<'_>) -> Result<ProbeAnswer, Error> {
        let late = |_| Err(Error::Connection(format!("no answer within {:?}", self.wait)));
        timeout(self.wait, self.client.probe(probe)).await.unwrap_or_else(late)
    }

    /// Sends the `echo` command, which needs no right.
    async fn echo(&self, origin: Option<&str>) -> Result<ProbeAnswer, Error> {
        let headers: Vec<(&str, &str)> =
            [JSON].into_iter().chain(origin.map(|origin| ("Origin", origin))).collect();
        let echo = Probe {
            method: "POST",
            path: COMMANDS,
            headers: &headers,
            body: ECHO,
            ..Probe::default()
        };
        self.ask(echo).await
    }

    /// Returns the answer of a Thalweg server, and the time when it came.
    async fn identify(&mut self) -> anyhow::Result<Option<(ProbeAnswer, SystemTime)>> {
        let origin = self.client.origin();
        let answer = match self.echo(None).await {
            Ok(answer) => answer,
            // These have their remedies.
            Err(error @ (Error::Untrusted(_) | Error::Tls(_))) => {
                self.report.problem("server", error.to_string(), "")?;
                return Ok(None);
            }
            Err(error) => {
                self.report.problem("server", error.to_string(), UNREACHABLE)?;
                return Ok(None);
            }
        };
        let received = SystemTime::now();
        if let Some((problem, remedy)) = unusable(&answer, &origin) {
            self.report.problem("server", problem, &remedy)?;
            return Ok(None);
        }
        let version =
            self.version().await.map_or(String::new(), |version| format!(", version {version},"));
        let latency_ms = milliseconds(answer.latency);
        let sentence =
            format!("{origin} is a Thalweg server{version} and answers within {latency_ms} ms");
        self.report.ok("server", sentence)?;
        Ok(Some((answer, received)))
    }

    /// Returns the version, if the client may inspect all topics.
    async fn version(&self) -> Option<String> {
        let metrics = Probe { path: "/metrics", ..Probe::default() };
        let metrics = self.ask(metrics).await.ok().filter(|answer| answer.status == 200)?;
        let (_, version) = metrics.body.split_once("thalweg_build_info{version=\"")?;
        Some(version.split(['"', ',']).next()?.to_owned())
    }

    fn compare_clocks(&mut self, answer: &ProbeAnswer, received: SystemTime) -> anyhow::Result<()> {
        let dates = answer.header("Date");
        let date = dates.first().and_then(|date| httpdate::parse_http_date(date).ok());
        let Some(date) = date else {
            let remedy = "let the proxy pass the header";
            return self.report.note("clock", "the answer has no Date", remedy);
        };
        let (difference, direction) = match received.duration_since(date) {
            Ok(difference) => (difference, "behind"),
            Err(error) => (error.duration(), "ahead of"),
        };
        if difference <= CLOCK_TOLERANCE + answer.latency {
            return self.report.ok("clock", "the clocks of the server and this machine agree");
        }
        let seconds = difference.as_secs();
        let sentence = format!("the server's clock is {seconds} s {direction} this machine's");
        let remedy = "set both clocks with NTP, because signed tokens begin and expire by them";
        self.report.problem("clock", sentence, remedy)
    }

    fn check_http2(&mut self, answer: &ProbeAnswer) -> anyhow::Result<()> {
        let is_tls = self.client.origin().starts_with("https://");
        match (is_tls, answer.is_http2) {
            (_, true) => self.report.ok("http2", "HTTP/2 is offered"),
            (true, false) => {
                let sentence =
                    "HTTP/2 is not offered, so all tabs of a browser share six connections";
                self.report.note("http2", sentence, HTTP2)
            }
            (false, false) => {
                let sentence = "the URL has no TLS: browsers use HTTP/2 only over TLS, and proxies of other networks may change cleartext";
                self.report.note("http2", sentence, "serve it as https:// in production")
            }
        }
    }

    /// Checks that pages of the server itself, or of the proxy in front of it, may use it.
    async fn check_own_origin(&mut self) -> anyhow::Result<()> {
        let own = self.client.origin();
        match self.echo(Some(&own)).await {
            Ok(answer) if has_code(&answer, "bad_origin") => {
                let sentence =
                    format!("the server takes pages of {own} for those of another origin");
                self.report.problem("own-origin", sentence, HOST)
            }
            Ok(answer) if is_echo(&answer.body) || answer.refusal().is_some() => {
                self.report.ok("own-origin", format!("pages of {own} may use the server"))
            }
            Ok(answer) => {
                let status = answer.status;
                let sentence =
                    format!("a proxy answers requests of pages of {own} (status {status})");
                self.report.problem("own-origin", sentence, PREFLIGHT)
            }
            Err(error) => self.report.problem("own-origin", error.to_string(), UNREACHABLE),
        }
    }

    /// Checks the CORS headers for pages of another origin (Fetch standard §3.3).
    async fn check_origin(&mut self, origin: &str) -> anyhow::Result<()> {
        let headers = [
            ("Origin", origin),
            ("Access-Control-Request-Method", "POST"),
            ("Access-Control-Request-Headers", "authorization,content-type"),
        ];
        let preflight = Probe {
            method: "OPTIONS",
            path: COMMANDS,
            headers: &headers,
            body: "",
            sends_token: false,
        };
        let (preflight, answer) = match (self.ask(preflight).await, self.echo(Some(origin)).await) {
            (Ok(preflight), Ok(answer)) => (preflight, answer),
            (Err(error), _) | (_, Err(error)) => {
                return self.report.problem("origin", error.to_string(), UNREACHABLE);
            }
        };
        if has_code(&preflight, "bad_origin") || has_code(&answer, "bad_origin") {
            let sentence = format!("pages of {origin} may not use the server");
            let remedy = format!("start it with --allow-origin {origin}");
            return self.report.problem("origin", sentence, &remedy);
        }
        for (answer, of) in [(&preflight, "a preflight"), (&answer, "a request")] {
            let values = answer.header(ALLOW_ORIGIN);
            let values: Vec<&str> =
                values.iter().flat_map(|value| value.split(',')).map(str::trim).collect();
            match *values {
                [value] if value == "*" || value.eq_ignore_ascii_case(origin) => {}
                [] => {
                    let sentence = format!(
                        "the answer to {of} of {origin} (status {}) has no {ALLOW_ORIGIN}",
                        answer.status
                    );
                    return self.report.problem("origin", sentence, PREFLIGHT);
                }
                [value] => {
                    let sentence = format!("{of} of {origin} is answered for pages of {value}");
                    return self.report.problem("origin", sentence, PREFLIGHT);
                }
                _ => {
                    let sentence = format!("the answer to {of} has {ALLOW_ORIGIN} twice");
                    return self.report.problem("origin", sentence, TWO_CORS);
                }
            }
        }
        let allowed = preflight.header("Access-Control-Allow-Headers").join(",");
        let allows =
            |name: &str| allowed.split(',').any(|item| item.trim().eq_ignore_ascii_case(name));
        let is_success = (200..300).contains(&preflight.status);
        if !is_success || !allows("authorization") || !allows("content-type") {
            let sentence = format!(
                "browsers reject the answer to a preflight of {origin} (status {}, allowed headers {allowed:?})",
                preflight.status
            );
            return self.report.problem("origin", sentence, PREFLIGHT);
        }
        self.report.ok("origin", format!("pages of {origin} may use the server"))
    }

    /// Returns whether the client may subscribe to a topic.
    pub(super) async fn may_subscribe(&mut self, topic: &Topic) -> anyhow::Result<bool> {
        let path = format!("/v1/topics/{}?limit=1", topic.to_path());
        let answer = match self.ask(Probe { path: &path, ..Probe::default() }).await {
            Ok(answer) => answer,
            Err(error) => {
                self.report.problem("access", error.to_string(), UNREACHABLE)?;
                return Ok(false);
            }
        };
        match answer.refusal() {
            None if answer.status == 200 => Ok(true),
            Some(refusal) if refusal.code.as_deref() == Some("no_such_topic") => Ok(true),
            Some(refusal) if matches!(refusal.status, 401 | 403) => {
                self.report.problem("access", refusal.to_string(), RIGHTS)?;
                Ok(false)
            }
            Some(refusal) => {
                self.report.problem("access", refusal.to_string(), "")?;
                Ok(false)
            }
            None => {
                let status = answer.status;
                let sentence = format!("reading a topic is answered by a proxy (status {status})");
                self.report.problem("access", sentence, "let it pass all of /v1")?;
                Ok(false)
            }
        }
    }

    /// Publishes an event to a topic. Returns whether that is allowed.
    pub(super) async fn may_publish(&mut self, topic: &Topic) -> anyhow::Result<bool> {
        let path = format!("/v1/topics/{}", topic.to_path());
        let publish =
            Probe { method: "POST", path: &path, headers: &[JSON], body: "0", ..Probe::default() };
        let answer = match self.ask(publish).await {
            Ok(answer) => answer,
            Err(error) => {
                self.report.problem("publish", error.to_string(), UNREACHABLE)?;
                // The server may have published the event.
                self.delete(std::slice::from_ref(topic)).await?;
                return Ok(false);
            }
        };
        match answer.refusal() {
            None if answer.status == 200 => {
                self.report.ok("publish", "a publish is answered")?;
                Ok(true)
            }
            None => {
                let status = answer.status;
                let sentence = format!("a publish is answered by a proxy (status {status})");
                self.report.problem("publish", sentence, "let it pass POST to /v1")?;
                if status >= 500 {
                    self.delete(std::slice::from_ref(topic)).await?;
                }
                Ok(false)
            }
            Some(refusal) => {
                let sentence =
                    format!("events are not tested, because the server refuses one: {refusal}");
                self.report.note("publish", sentence, "")?;
                Ok(false)
            }
        }
    }

    /// Deletes topics that the checks have made.
    pub(super) async fn delete(&mut self, topics: &[Topic]) -> anyhow::Result<()> {
        for topic in topics {
            let path = format!("/v1/topics/{}", topic.to_path());
            let answer =
                self.ask(Probe { method: "DELETE", path: &path, ..Probe::default() }).await;
            if !answer.is_ok_and(|answer| matches!(answer.status, 204 | 404)) {
                let remedy = "delete it, and let the proxy pass DELETE";
                self.report.note("publish", format!("the topic {topic} is not deleted"), remedy)?;
            }
        }
        Ok(())
    }
}

/// Returns why the answer to an echo is not that of a server whose streams can be checked, and the remedy.
fn unusable(answer: &ProbeAnswer, origin: &str) -> Option<(String, String)> {
    let refusal = answer.refusal();
    let code = refusal.as_ref().and_then(|refusal| refusal.code.as_deref());
    let message = refusal.as_ref().map_or("", |refusal| &*refusal.message);
    let status = answer.status;
    let (problem, remedy) = match (status, code) {
        (300..=399, _) => {
            let to = answer.header("Location").first().copied().unwrap_or("another URL");
            let remedy = "use that URL in clients, because a WebSocket follows no redirect";
            (format!("the answer redirects to {to}"), remedy.to_owned())
        }
        (_, Some("bad_host")) => {
            let host = origin.rsplit_once("//").map_or(origin, |(_, authority)| authority);
            // The colons of an IPv6 address are within its brackets.
            let host = match host.rsplit_once(':') {
                Some((name, _)) if !host.ends_with(']') => name,
                _ => host,
            };
            let remedy = match message.contains(host) {
                true => format!("start the server with --allow-host {host}"),
                false => HOST.to_owned(),
            };
            ("the server does not accept the host name that it gets".to_owned(), remedy)
        }
        (_, Some("not_found")) => {
            (format!("a Thalweg server answers, but not at this path: {message}"), PATH.to_owned())
        }
        (503, Some(_)) => {
            let remedy = "try again when its /readyz answers 200";
            (format!("the server is not ready: {message}"), remedy.to_owned())
        }
        (_, Some(_)) => return None,
        (200, None) if is_echo(&answer.body) => return None,
        (502..=504, None) => {
            let remedy = "start the server, or correct its address in the proxy";
            (format!("a proxy answers {status} in place of the server"), remedy.to_owned())
        }
        (401 | 403 | 407, None) => {
            let remedy = "let requests for /v1 pass: the server checks its own tokens";
            (
                format!("a proxy in front of the server refuses the request ({status})"),
                remedy.to_owned(),
            )
        }
        (404, None) => {
            let remedy = "add the path at which the proxy serves it, such as /live/";
            (
                format!("there is no Thalweg server at {origin} with this path (404)"),
                remedy.to_owned(),
            )
        }
        (status, None) => {
            let remedy = "check host, port and path of the URL";
            (
                format!("the answer of {origin} (status {status}) is not that of a Thalweg server"),
                remedy.to_owned(),
            )
        }
    };
    Some((problem, remedy))
}

fn is_echo(body: &str) -> bool {
    let answer: Option<serde_json::Value> = serde_json::from_str(body).ok();
    answer.is_some_and(|answer| answer["answer"]["data"] == ECHOED)
}

fn has_code(answer: &ProbeAnswer, code: &str) -> bool {
    answer.refusal().is_some_and(|refusal| refusal.code.as_deref() == Some(code))
}

/// Returns whole milliseconds, at least one.
pub(super) fn milliseconds(duration: Duration) -> u128 {
    duration.as_micros().div_ceil(1000).max(1)
}
