//! A settings file is read or refused: in one sentence, with the line to blame, and
//! the same however it is written.

#![no_main]

// `thalweg` is a program and no library, so its modules are compiled again here.
#[path = "../../crates/thalweg/src/serve/config.rs"]
mod config;
#[path = "../../crates/thalweg/src/serve/file.rs"]
#[allow(dead_code)]
mod file;
#[path = "../../crates/thalweg/src/serve/settings.rs"]
#[allow(dead_code)]
mod settings;
#[path = "../../crates/thalweg/src/serve/values.rs"]
#[allow(dead_code)]
mod values;

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

/// Two lines further down, a mistake is two lines further down, and all else is the
/// same.
fn check_moved(text: &str, read: &Result<Settings, String>) {
    // Only at the beginning it is a byte order mark.
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

/// What is accepted is understood the same in other words for the same values.
fn check_accepted(text: &str, settings: Settings) {
    let made = made(settings);
    // It holds no number that `Settings` take as a text, but for tokens.
    if let Ok(table) = text.parse::<toml::Table>() {
        let text = table.to_string();
        let again = file::parse(FILE, &text).expect("the same values in other words");
        assert_eq!(self::made(again), made, "{text}");
    }
}

/// What the settings come to, or the sentence that refuses them.
fn made(settings: Settings) -> String {
    // They may name any file of this machine.
    let settings = Settings { publish_token: None, subscribe_token: None, ..settings };
    match config::config(settings) {
        Ok(config) => {
            // As may these.
            let checked = Config { tls: None, ..config.clone() };
            if let Err(refusal) = thalweg_server::check(&checked) {
                check_sentence(&refusal.to_string());
            }
            format!("{config:?}")
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
