//! A settings file is read or refused: in one sentence, with the line to blame, and the same however it is written.

#![no_main]

// `thalweg` is a program and no library, so this target compiles its modules again.
#[path = "../../crates/thalweg/src/serve/brokers.rs"]
#[allow(dead_code, unused_imports)]
mod brokers;
#[path = "../../crates/thalweg/src/serve/cluster.rs"]
#[allow(dead_code, unexpected_cfgs, unfulfilled_lint_expectations, unused_imports)]
mod cluster;
#[path = "../../crates/thalweg/src/serve/config.rs"]
#[allow(dead_code, unused_imports)]
mod config;
#[path = "../../crates/thalweg/src/serve/configured_broker.rs"]
#[allow(dead_code, unused_imports)]
mod configured_broker;
#[path = "../../crates/thalweg/src/serve/data.rs"]
#[allow(dead_code, unused_imports)]
mod data;
#[path = "../../crates/thalweg/src/serve/document.rs"]
#[allow(dead_code, unused_imports)]
mod document;
#[path = "../../crates/thalweg/src/serve/file.rs"]
#[allow(dead_code, unused_imports)]
mod file;
#[path = "../../crates/thalweg/src/serve/limits.rs"]
#[allow(dead_code, unused_imports)]
mod limits;
#[path = "../../crates/thalweg/src/serve/merge.rs"]
#[allow(dead_code, unused_imports)]
mod merge;
#[path = "../../crates/thalweg/src/serve/renamed.rs"]
#[allow(dead_code, unused_imports)]
mod renamed;
#[path = "../../crates/thalweg/src/serve/settings.rs"]
#[allow(dead_code, unused_imports)]
mod settings;
#[path = "../../crates/thalweg/src/serve/short.rs"]
#[allow(dead_code, unused_imports)]
mod short;
#[path = "../../crates/thalweg/src/serve/signalr.rs"]
#[allow(dead_code, unused_imports)]
mod signalr;
#[path = "../../crates/thalweg/src/serve/store.rs"]
#[allow(dead_code, unused_imports)]
mod store;
#[path = "../../crates/thalweg/src/serve/stream.rs"]
#[allow(dead_code, unused_imports)]
mod stream;
#[path = "../../crates/thalweg/src/serve/tables.rs"]
#[allow(dead_code, unused_imports)]
mod tables;
#[path = "../../crates/thalweg/src/serve/tokens.rs"]
#[allow(dead_code, unused_imports)]
mod tokens;
#[path = "../../crates/thalweg/src/serve/values.rs"]
#[allow(dead_code, unused_imports)]
mod values;
// `values` reads addresses as the clients do.
#[path = "../../crates/thalweg/src/address.rs"]
#[allow(dead_code)]
mod address;

use libfuzzer_sys::fuzz_target;
use settings::Settings;
use thalweg_server::config::Config;

const FILE: &str = "thalweg.toml";

fuzz_target!(|text: &str| {
    let read = file::parse(FILE, text);
    check_moved(text, &read);
    match read {
        Ok(settings) => check_accepted(text, settings),
        Err(refusal) => {
            let (line, _) = check_refusal(&refusal);
            let last = 1 + text.matches('\n').count();
            assert!((1..=last).contains(&line), "{refusal}");
        }
    }
});

/// Two lines further down, a mistake is two lines further down, and all else is the same.
fn check_moved(text: &str, read: &Result<Settings, String>) {
    // A byte order mark stands only at the beginning.
    if text.starts_with('\u{feff}') {
        return;
    }
    match (read, file::parse(FILE, &format!("# mine\n\n{text}"))) {
        (Ok(read), Ok(moved)) => assert_eq!(format!("{read:?}"), format!("{moved:?}")),
        (Err(refusal), Err(moved)) => {
            let ((line, why), (moved, moved_why)) = (check_refusal(refusal), check_refusal(&moved));
            assert_eq!((line + 2, why), (moved, moved_why));
        }
        (read, moved) => panic!("{read:?}, but moved {moved:?}"),
    }
}

/// Checks that the same values in another spelling give the same settings.
fn check_accepted(text: &str, settings: Settings) {
    let made = made(settings);
    // It holds no number that `Settings` take as a text, but for tokens.
    if let Ok(table) = text.parse::<toml::Table>() {
        let text = table.to_string();
        let again = file::parse(FILE, &text).expect("the same values in other words");
        assert_eq!(self::made(again), made, "{text}");
    }
}

/// Returns the configuration that the settings make, or the error.
fn made(settings: Settings) -> String {
    // Secrets and keys may name any file of this machine.
    let settings =
        Settings { token: Vec::new(), jwt_key: Vec::new(), jwt_secret: None, ..settings };
    match config::config(settings) {
        Ok((config, brokers)) => {
            // Certificates may name any file, too.
            let checked = Config { tls: None, ..config.clone() };
            if let Err(refusal) = thalweg_server::check(&checked, &brokers.topics()) {
                check_sentence(&refusal.to_string());
            }
            format!("{config:?} {brokers:?}")
        }
        Err(refusal) => {
            check_sentence(&refusal);
            refusal
        }
    }
}

/// The line to blame, and why.
fn check_refusal(refusal: &str) -> (usize, &str) {
    let rest = refusal.strip_prefix(FILE).and_then(|rest| rest.strip_prefix(':'));
    let (line, why) = rest.and_then(|rest| rest.split_once(": ")).expect("FILE:LINE: why");
    check_sentence(why);
    (line.parse().expect("a line"), why)
}

fn check_sentence(text: &str) {
    assert!(!text.trim().is_empty(), "says nothing");
    assert!(!text.contains(char::is_control), "{text:?} is no one line");
}
