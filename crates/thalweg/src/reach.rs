//! Options of commands for their connection to a server, and the messages of `tail` and `pub` on stderr.

use std::{
    borrow::Cow,
    io::{IsTerminal, Write as _, stderr},
    path::PathBuf,
    time::Instant,
};

use anyhow::{anyhow, bail};
use clap::Args;
use thalweg_client::{Client, Http, Options, Topic};
use thalweg_terminal::say;

/// The heading of options for the connection.
const CONNECTION: &str = "Connection";

#[derive(Args, Debug)]
pub(crate) struct ReachArgs {
    /// URL of a server or of a topic, e.g. http://127.0.0.1:8080/v1/topics/cars.
    #[arg(value_name = "URL")]
    url: String,
    #[command(flatten)]
    connection: ConnectionArgs,
    /// Print errors only.
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ConnectionArgs {
    /// Send this token. Prefer the variable: other users of this machine can see flags.
    #[arg(long, value_name = "TOKEN", help_heading = CONNECTION, env = "THALWEG_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Trust the certificates in this file (PEM), in addition to those of the system.
    #[arg(long, value_name = "FILE", help_heading = CONNECTION)]
    cacert: Option<PathBuf>,
    /// Accept any certificate. Use it for local tests only.
    #[arg(long, help_heading = CONNECTION)]
    insecure: bool,
    /// Use HTTP/2, even without TLS. A WebSocket still uses HTTP/1.1.
    #[arg(long, help_heading = CONNECTION)]
    http2: bool,
}

impl ConnectionArgs {
    /// Returns a client of the server at a URL.
    pub(crate) fn client(&self, url: &str) -> anyhow::Result<Client> {
        Ok(Client::new(url, self.options())?)
    }

    /// Returns the options of such a client.
    pub(crate) fn options(&self) -> Options {
        Options {
            token: self.token.clone().filter(|token| !token.is_empty()),
            cacert: self.cacert.clone(),
            is_insecure: self.insecure,
            http: if self.http2 { Http::Http2 } else { Http::Negotiated },
            ..Options::default()
        }
    }
}

impl ReachArgs {
    /// Returns a client of the server that the URL names.
    pub(crate) fn client(&self) -> anyhow::Result<Client> {
        self.connection.client(&self.url)
    }

    pub(crate) fn notes(&self, is_progress_wanted: bool) -> Notes {
        let shows_progress = is_progress_wanted && !self.quiet && stderr().is_terminal();
        Notes { is_quiet: self.quiet, shows_progress, seen: 0, since: Instant::now() }
    }
}

/// Returns the topic of the URL's path and the topics of `--topic`.
pub(crate) fn topics(client: &Client, more: &[Topic]) -> anyhow::Result<Vec<Topic>> {
    let topics: Vec<Topic> = client.topic().into_iter().chain(more).cloned().collect();
    if topics.is_empty() {
        bail!("name a topic: in the URL, as …/v1/topics/cars, or with --topic cars");
    }
    Ok(topics)
}

/// Writes messages to stderr, and one line of progress below them if it is a terminal.
#[derive(Debug)]
pub(crate) struct Notes {
    is_quiet: bool,
    shows_progress: bool,
    /// Number of events when the progress line was last written.
    seen: u64,
    since: Instant,
}

impl Notes {
    /// Writes a message, unless `--quiet` is set.
    pub(crate) fn say(&self, sentence: &str) {
        if !self.is_quiet {
            self.clear();
            say(one_line(sentence));
        }
    }

    pub(crate) fn show_progress(&self) -> bool {
        self.shows_progress
    }

    /// Rewrites the line of progress: the number of events, and events per second since the last call.
    pub(crate) fn progress(&mut self, events: u64, what: &str) {
        if self.shows_progress {
            let seconds = self.since.elapsed().as_secs_f64().max(f64::MIN_POSITIVE);
            let rate = ((events - self.seen) as f64 / seconds).round() as u64;
            (self.seen, self.since) = (events, Instant::now());
            let progress = format!("\r\x1b[K{} {what}, {}/s", grouped(events), grouped(rate));
            self.draw(&progress);
        }
    }

    /// Removes the line of progress.
    pub(crate) fn clear(&self) {
        if self.shows_progress {
            self.draw("\r\x1b[K");
        }
    }

    /// Writes to stderr. Ignores errors, because the terminal may be closed.
    fn draw(&self, text: &str) {
        let _ = stderr().write_all(text.as_bytes());
    }
}

/// Escapes line breaks of a sentence that quotes a server, so that no part of it looks like a message of this program.
pub(crate) fn one_line(sentence: &str) -> Cow<'_, str> {
    match sentence.contains(['\n', '\r']) {
        true => Cow::Owned(sentence.replace('\n', "\\n").replace('\r', "\\r")),
        false => Cow::Borrowed(sentence),
    }
}

/// Escapes line breaks of an error, because it may quote a server.
pub(crate) fn error_in_one_line(error: &anyhow::Error) -> anyhow::Error {
    let sentence = format!("{error:#}");
    anyhow!("{}", one_line(&sentence))
}

/// Returns a text such as `12,345`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Returns a text such as `1 event` or `1,000 events`.
pub(crate) fn events(count: u64) -> String {
    format!("{} event{}", grouped(count), if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        let check = |number, expected| assert_eq!(events(number), expected);
        check(0, "0 events");
        check(1, "1 event");
        check(999, "999 events");
        check(1_000, "1,000 events");
        check(12_345_678, "12,345,678 events");
    }
}
