//! The command line of each program. Besides its protocol, the lab knows nothing else about a program.

use crate::scenario::{Consumer, Drive, Mode, Peer, Process, Program, Settings, Source, TopicKind};
use std::fmt::Display;
use std::net::SocketAddr;

/// A program to start, and its load.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// Program to start.
    pub program: &'a Program,
    /// Settings of the sample.
    pub settings: &'a Settings,
    /// Drive, which may make the program broadcast.
    pub drive: Drive,
    /// Start time of a subject that generates its load, µs of `CLOCK_MONOTONIC`.
    pub start_us: u64,
    /// Added to Thalweg's command.
    pub arguments: &'a [String],
    /// Processes that are started before the program.
    pub processes: &'a [Process],
}

/// The token that lets every client subscribe and publish.
const OPEN: &str = "everybody,subscribe=**,publish=**";

/// Converts the flags of [`arguments`] for builds without `--set`.
pub(super) fn to_old_flags(arguments: Vec<String>) -> Vec<String> {
    let mut old = Vec::new();
    let mut words = arguments.into_iter();
    while let Some(word) = words.next() {
        let value = match &*word {
            "--set" | "--token" | "--topic" => words.next().unwrap_or_default(),
            _ => {
                old.push(word);
                continue;
            }
        };
        match value.split_once('=') {
            Some(("tuning.send-buffer-bytes", bytes)) => {
                old.extend(["--send-buffer".to_owned(), bytes.to_owned()]);
            }
            Some(("tuning.unsent-bytes", bytes)) => {
                old.extend(["--unsent".to_owned(), bytes.to_owned()]);
            }
            _ if value == OPEN => old.push("--open".to_owned()),
            _ => match value.strip_suffix(",batch-bytes=1MiB") {
                Some(topics) if topics.contains(',') => {
                    old.extend([
                        word,
                        topics.to_owned(),
                        "--batch-bytes".to_owned(),
                        "1MiB".to_owned(),
                    ]);
                }
                Some(_) => old.extend(["--batch-bytes".to_owned(), "1MiB".to_owned()]),
                None => old.extend([word, value]),
            },
        }
    }
    old
}

/// Returns the name of a topic; topics are numbered from 0.
pub fn topic_name(index: impl Display) -> String {
    format!("bench/{index}")
}

/// Returns the command line after the binary's name; for a peer, with the name.
pub fn arguments(launch: &Launch<'_>, listen: SocketAddr) -> Vec<String> {
    let mut arguments = match launch.program {
        Program::Thalweg | Program::Build(_) => thalweg(launch, listen),
        Program::Limit => limit(launch),
        Program::Peer(peer) => return peer_command(peer, launch, listen),
        // An endpoint runs already.
        Program::Url(_) => return Vec::new(),
    };
    arguments.splice(1..1, ["--listen".to_owned(), listen.to_string()]);
    arguments
}

/// Returns a peer's own command line with all placeholders replaced.
fn peer_command(peer: &Peer, launch: &Launch<'_>, listen: SocketAddr) -> Vec<String> {
    let settings = serde_json::to_value(launch.settings).unwrap_or_default();
    let source = source(launch).unwrap_or_else(|| "none".to_owned());
    let fill = |word: &String| {
        let listen = listen.to_string();
        let mut word = peer.fill(word).replace("{listen}", &listen).replace("{source}", &source);
        for (name, value) in settings.as_object().into_iter().flatten() {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            word = word.replace(&format!("{{{name}}}"), &value);
        }
        word
    };
    peer.command.iter().chain(&peer.arguments).map(fill).collect()
}

fn thalweg(launch: &Launch<'_>, listen: SocketAddr) -> Vec<String> {
    let mut arguments =
        vec!["serve".to_owned(), "--shards".to_owned(), launch.settings.shards.to_string()];
    let Settings { batch, interval_us, dummy_bytes, send_buffer_bytes, unsent_bytes, .. } =
        *launch.settings;
    let mut option = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
    if send_buffer_bytes > 0 {
        option("--set", format!("tuning.send-buffer-bytes={send_buffer_bytes}"));
    }
    if unsent_bytes > 0 {
        option("--set", format!("tuning.unsent-bytes={unsent_bytes}"));
    }
    let mut topics = topic_name("*");
    if launch.settings.kind == TopicKind::Value {
        topics += ",kind=value";
    }
    let (topic, interval) = (topic_name(0), interval(interval_us));
    let start_us = launch.start_us;
    let source = launch.drive.source(launch.settings).map(|source| match source {
        Source::Rows => {
            // A tick is one message, as with the other subjects.
            topics += ",batch-bytes=1MiB";
            let shape = match launch.settings.consumer {
                Consumer::Columns => ",shape=columns",
                _ => "",
            };
            format!("constant,batch={batch},interval={interval},start={start_us}{shape}")
        }
        Source::Dummies => format!("dummy,size={dummy_bytes},interval={interval}"),
        Source::Runners => format!("runner,ack={topic}/acks"),
    });
    if topics.contains(',') {
        option("--topic", topics);
    }
    if let Some(source) = source {
        option("--source", format!("{topic}={source}"));
    }
    if launch.settings.tls {
        arguments.push("--tls-self-signed".to_owned());
    }
    if launch.settings.compress {
        arguments.push("--compression".to_owned());
    }
    if !listen.ip().is_loopback() {
        arguments.extend(["--token".to_owned(), OPEN.to_owned()]);
    }
    arguments.extend_from_slice(launch.arguments);
    arguments
}

fn interval(us: u64) -> String {
    match us % 1000 {
        0 => format!("{}ms", us / 1000),
        _ => format!("{us}us"),
    }
}

fn limit(launch: &Launch<'_>) -> Vec<String> {
    let mode = match launch.settings.mode {
        Mode::Coalesced => "coalesced",
        Mode::Frame => "frame",
    };
    let mut arguments = vec!["limit".to_owned(), "--mode".to_owned(), mode.to_owned()];
    if let Some(source) = source(launch) {
        arguments.extend(["--source".to_owned(), source]);
    }
    if matches!(launch.drive, Drive::Echo | Drive::RoundTrip) {
        arguments.push("--echo".to_owned());
    }
    if launch.settings.tls {
        arguments.push("--tls".to_owned());
    }
    arguments
}

/// Returns the source argument of subjects other than Thalweg.
fn source(launch: &Launch<'_>) -> Option<String> {
    let Settings { batch, interval_us, dummy_bytes, .. } = *launch.settings;
    let topic = topic_name(0);
    launch.drive.source(launch.settings).and_then(|source| match source {
        Source::Rows => Some(format!(
            "constant,topic={topic},batch={batch},interval_us={interval_us},start_us={}",
            launch.start_us
        )),
        Source::Dummies => {
            Some(format!("dummy,topic={topic},size={dummy_bytes},interval_us={interval_us}"))
        }
        // The subject echoes the client's messages.
        Source::Runners => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(program: &Program, drive: Drive, expected: &str) {
        let settings = Settings { batch: 50, dummy_bytes: 10_000, ..Settings::default() };
        let settings = &settings;
        let launch =
            Launch { program, settings, drive, start_us: 7, arguments: &[], processes: &[] };
        let listen = SocketAddr::from(([127, 0, 0, 1], 9));
        assert_eq!(arguments(&launch, listen).join(" "), expected);
    }

    #[test]
    fn command_lines() {
        check(&Program::Thalweg, Drive::PublishedLoad, "serve --listen 127.0.0.1:9 --shards 1");
        check(&Program::Limit, Drive::Idle, "limit --listen 127.0.0.1:9 --mode coalesced");
        check(
            &Program::Thalweg,
            Drive::GeneratedLoad,
            "serve --listen 127.0.0.1:9 --shards 1 \
             --topic bench/*,batch-bytes=1MiB --source bench/0=constant,batch=50,interval=1ms,start=7",
        );
        check(
            &Program::Limit,
            Drive::GeneratedLoad,
            "limit --listen 127.0.0.1:9 --mode coalesced \
             --source constant,topic=bench/0,batch=50,interval_us=1000,start_us=7",
        );
        check(
            &Program::Thalweg,
            Drive::Echo,
            "serve --listen 127.0.0.1:9 --shards 1 --source bench/0=dummy,size=10000,interval=1ms",
        );
        check(
            &Program::Limit,
            Drive::Echo,
            "limit --listen 127.0.0.1:9 --mode coalesced \
             --source dummy,topic=bench/0,size=10000,interval_us=1000 --echo",
        );
        check(
            &Program::Thalweg,
            Drive::RoundTrip,
            "serve --listen 127.0.0.1:9 --shards 1 --source bench/0=runner,ack=bench/0/acks",
        );
    }

    #[test]
    fn an_older_build_is_started_with_the_flags_that_it_knows() {
        let check = |new: &str, old: &str| {
            let words = new.split(' ').map(str::to_owned).collect();
            assert_eq!(to_old_flags(words).join(" "), old);
        };
        check("serve --shards 1 --source a=cars", "serve --shards 1 --source a=cars");
        check(
            "serve --set tuning.unsent-bytes=4096 --set tuning.send-buffer-bytes=9 \
             --token everybody,subscribe=**,publish=** --tls-self-signed",
            "serve --unsent 4096 --send-buffer 9 --open --tls-self-signed",
        );
        check("serve --topic bench/*,batch-bytes=1MiB", "serve --batch-bytes 1MiB");
        check(
            "serve --topic bench/*,kind=value,batch-bytes=1MiB",
            "serve --topic bench/*,kind=value --batch-bytes 1MiB",
        );
        check("serve --topic bench/*,kind=value", "serve --topic bench/*,kind=value");
    }

    #[test]
    fn a_command_has_its_settings_and_address() {
        let settings = Settings { tls: true, unsent_bytes: 4096, ..Settings::default() };
        let arguments = |program, host| {
            let launch = Launch {
                program: &program,
                settings: &settings,
                drive: Drive::PublishedLoad,
                start_us: 0,
                arguments: &[],
                processes: &[],
            };
            arguments(&launch, SocketAddr::from((host, 9))).join(" ")
        };
        assert_eq!(
            arguments(Program::Thalweg, [10, 0, 0, 1]),
            "serve --listen 10.0.0.1:9 --shards 1 --set tuning.unsent-bytes=4096 --tls-self-signed \
             --token everybody,subscribe=**,publish=**"
        );
        let settings = Settings { consumer: Consumer::Columns, ..Settings::default() };
        let launch = Launch {
            program: &Program::Thalweg,
            settings: &settings,
            drive: Drive::GeneratedLoad,
            start_us: 7,
            arguments: &[],
            processes: &[],
        };
        let columns = super::arguments(&launch, SocketAddr::from(([127, 0, 0, 1], 9)));
        assert_eq!(
            columns.last().unwrap(),
            "bench/0=constant,batch=1,interval=1ms,start=7,shape=columns"
        );
        assert_eq!(
            arguments(Program::Limit, [127, 0, 0, 1]),
            "limit --listen 127.0.0.1:9 --mode coalesced --tls"
        );
    }
}
