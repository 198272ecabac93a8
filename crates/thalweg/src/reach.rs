//! How `tail` and `pub` reach a server, and how they talk on stderr meanwhile.

use std::{
    borrow::Cow,
    io::{IsTerminal, Write as _, stderr},
    path::PathBuf,
    time::Instant,
};

use anyhow::{anyhow, bail};
use clap::Args;
use thalweg_client::{Client, Http, Options, Topic};
use thalweg_lab::run::say;

#[derive(Args, Debug)]
pub(crate) struct ReachArgs {
    /// The server, or one of its topics: http://127.0.0.1:8080/v1/topics/cars.
    #[arg(value_name = "URL")]
    url: String,
    /// Presented to the server; others on this machine see flags, not variables.
    #[arg(long, value_name = "TOKEN", env = "THALWEG_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Trusts these certificates (PEM) besides those of the machine.
    #[arg(long, value_name = "FILE")]
    cacert: Option<PathBuf>,
    /// Trusts any certificate: to try things out, never over a network.
    #[arg(long)]
    insecure: bool,
    /// Speaks HTTP/2, without TLS too; a WebSocket stays HTTP/1.1.
    #[arg(long)]
    http2: bool,
    /// Says only what went wrong.
    #[arg(long, short)]
    quiet: bool,
}

impl ReachArgs {
    /// A client of the server that the URL names.
    pub(crate) fn client(&self) -> anyhow::Result<Client> {
        let options = Options {
            token: self.token.clone().filter(|token| !token.is_empty()),
            cacert: self.cacert.clone(),
            is_insecure: self.insecure,
            http: if self.http2 { Http::Http2 } else { Http::Negotiated },
            ..Options::default()
        };
        Ok(Client::new(&self.url, options)?)
    }

    /// What is said besides the result.
    pub(crate) fn notes(&self, is_progress_wanted: bool) -> Notes {
        let shows_progress = is_progress_wanted && !self.quiet && stderr().is_terminal();
        Notes { is_quiet: self.quiet, shows_progress, seen: 0, since: Instant::now() }
    }
}

/// The topic of the URL's path and those of `--topic`.
pub(crate) fn topics(client: &Client, more: &[Topic]) -> anyhow::Result<Vec<Topic>> {
    let topics: Vec<Topic> = client.topic().into_iter().chain(more).cloned().collect();
    if topics.is_empty() {
        bail!("name a topic: in the URL, as …/v1/topics/cars, or with --topic cars");
    }
    Ok(topics)
}

/// Sentences on stderr, and below them one line of progress if it is a terminal.
#[derive(Debug)]
pub(crate) struct Notes {
    is_quiet: bool,
    shows_progress: bool,
    /// As of the last progress line.
    seen: u64,
    since: Instant,
}

impl Notes {
    /// Says a sentence, unless that is not wanted.
    pub(crate) fn say(&self, sentence: &str) {
        if !self.is_quiet {
            self.clear();
            say(one_line(sentence));
        }
    }

    /// Whether there is a line of progress at all.
    pub(crate) fn show_progress(&self) -> bool {
        self.shows_progress
    }

    /// Renews it: how many events there were, and how many a second since then.
    pub(crate) fn progress(&mut self, events: u64, what: &str) {
        if self.shows_progress {
            let seconds = self.since.elapsed().as_secs_f64().max(f64::MIN_POSITIVE);
            let rate = ((events - self.seen) as f64 / seconds).round() as u64;
            (self.seen, self.since) = (events, Instant::now());
            let progress = format!("\r\x1b[K{} {what}, {}/s", grouped(events), grouped(rate));
            self.draw(&progress);
        }
    }

    /// Takes the line of progress away.
    pub(crate) fn clear(&self) {
        if self.shows_progress {
            self.draw("\r\x1b[K");
        }
    }

    /// On a terminal, which may be gone.
    fn draw(&self, text: &str) {
        let _ = stderr().write_all(text.as_bytes());
    }
}

/// A sentence that quotes a server, on one line: nothing in it looks like a sentence of its own.
pub(crate) fn one_line(sentence: &str) -> Cow<'_, str> {
    match sentence.contains(['\n', '\r']) {
        true => Cow::Owned(sentence.replace('\n', "\\n").replace('\r', "\\r")),
        false => Cow::Borrowed(sentence),
    }
}

/// An error whose words a server may have chosen, on one line.
pub(crate) fn error_in_one_line(error: &anyhow::Error) -> anyhow::Error {
    let sentence = format!("{error:#}");
    anyhow!("{}", one_line(&sentence))
}

/// `12,345`.
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

/// `1 event`, `1,000 events`.
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
