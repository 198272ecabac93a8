//! How each program is started: its command line is all the lab knows of it
//! besides the wire.

use crate::scenario::{Drive, Mode, Program, Settings};
use std::net::SocketAddr;

/// What to start, and for what.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// Which program.
    pub program: Program,
    /// Settings of the sample.
    pub settings: &'a Settings,
    /// Who makes it broadcast.
    pub drive: Drive,
    /// When a self-driven subject begins, µs of `CLOCK_MONOTONIC`.
    pub start_us: u64,
}

/// The topic that every connection subscribes to; several topics count up.
pub fn topic_name(index: u32) -> String {
    format!("bench/{index}")
}

/// The command line after the binary's name.
pub fn arguments(launch: &Launch<'_>, listen: SocketAddr) -> Vec<String> {
    let mut arguments = match launch.program {
        Program::Thalweg => thalweg(launch),
        Program::Limit => limit(launch),
    };
    arguments.splice(1..1, ["--listen".to_owned(), listen.to_string()]);
    arguments
}

fn thalweg(launch: &Launch<'_>) -> Vec<String> {
    let mut arguments =
        vec!["serve".to_owned(), "--shards".to_owned(), launch.settings.shards.to_string()];
    if launch.drive == Drive::SelfDriven {
        let Settings { batch, interval_us, .. } = launch.settings;
        let interval = match interval_us % 1000 {
            0 => format!("{}ms", interval_us / 1000),
            _ => format!("{interval_us}us"),
        };
        arguments.push("--source".to_owned());
        arguments.push(format!(
            "{}=constant,batch={batch},interval={interval},start={}",
            topic_name(0),
            launch.start_us
        ));
    }
    arguments
}

fn limit(launch: &Launch<'_>) -> Vec<String> {
    let mode = match launch.settings.mode {
        Mode::Coalesced => "coalesced",
        Mode::Frame => "frame",
    };
    let mut arguments = vec!["limit".to_owned(), "--mode".to_owned(), mode.to_owned()];
    if launch.drive == Drive::SelfDriven {
        let Settings { batch, interval_us, .. } = launch.settings;
        arguments.push("--source".to_owned());
        arguments.push(format!(
            "constant,topic={},batch={batch},interval_us={interval_us},start_us={}",
            topic_name(0),
            launch.start_us
        ));
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(program: Program, drive: Drive, expected: &str) {
        let settings = Settings { batch: 50, ..Settings::default() };
        let launch = Launch { program, settings: &settings, drive, start_us: 7 };
        let listen = SocketAddr::from(([127, 0, 0, 1], 9));
        assert_eq!(arguments(&launch, listen).join(" "), expected);
    }

    #[test]
    fn command_lines() {
        check(Program::Thalweg, Drive::Posted, "serve --listen 127.0.0.1:9 --shards 1");
        check(Program::Limit, Drive::Idle, "limit --listen 127.0.0.1:9 --mode coalesced");
        check(
            Program::Thalweg,
            Drive::SelfDriven,
            "serve --listen 127.0.0.1:9 --shards 1 \
             --source bench/0=constant,batch=50,interval=1ms,start=7",
        );
        check(
            Program::Limit,
            Drive::SelfDriven,
            "limit --listen 127.0.0.1:9 --mode coalesced \
             --source constant,topic=bench/0,batch=50,interval_us=1000,start_us=7",
        );
    }
}
