//! The configuration file of experiment C's published program, which it reads unchanged:
//!
//! ```toml
//! [server]
//! host = "localhost"
//! port = 8080
//! dummy_message_size = "10KB"
//! dummy_message_duration = "500us"
//! [client]
//! request_duration = "1ms"
//! total_request = 1000
//! ```

use super::ScenarioError;
use super::quantity;
use serde::Deserialize;

/// The suite that has the published program, and the subjects that are compared with it.
pub const SUITE: &str = "peers";
/// The floor, Thalweg, and the published program with late messages caught up and as published.
pub const SUBJECTS: [&str; 4] = ["limit", "thalweg", "gorilla", "gorilla published"];
/// The published program keeps the worst of so many runs.
pub const REPEATS: u32 = 5;
/// A start is one of these runs, also if its load could pause.
pub const ROUNDS: u32 = 1;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigFile {
    server: Server,
    client: Client,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Server {
    // The lab starts the servers itself, each at a port of its own.
    #[serde(rename = "host")]
    _host: String,
    #[serde(rename = "port")]
    _port: toml::Value,
    #[serde(deserialize_with = "quantity::bytes")]
    dummy_message_size: u32,
    #[serde(deserialize_with = "quantity::us")]
    dummy_message_duration: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Client {
    #[serde(deserialize_with = "quantity::us")]
    request_duration: u64,
    total_request: u32,
}

/// Returns the settings of a configuration file, as `key=value`.
///
/// # Errors
/// The line, and what is wrong there.
pub fn settings(text: &str) -> Result<Vec<String>, ScenarioError> {
    let ConfigFile { server, client } =
        toml::from_str(text).map_err(|error| ScenarioError::from_toml(text, &error))?;
    let run_us = client.request_duration.saturating_mul(client.total_request.into());
    // An interval longer than the run means no messages: the published program writes `1h`.
    let (bytes, interval_us) = match server.dummy_message_duration {
        interval_us if interval_us < run_us => (server.dummy_message_size, interval_us),
        _ => (0, 500),
    };
    Ok(vec![
        format!("dummy_bytes={bytes}"),
        format!("interval_us={interval_us}"),
        format!("request_us={}", client.request_duration),
        format!("requests={}", client.total_request),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(size: &str, interval: &str) -> String {
        format!(
            "[server]\nhost = \"localhost\"\nport = 8080\ndummy_message_size = \"{size}\"\n\
             dummy_message_duration = \"{interval}\"\n[client]\nrequest_duration = \"1ms\"\ntotal_request = 1000\n"
        )
    }

    #[test]
    fn a_file_becomes_settings() {
        assert_eq!(
            settings(&file("10KB", "500us")).unwrap(),
            ["dummy_bytes=10000", "interval_us=500", "request_us=1000", "requests=1000"]
        );
    }

    #[test]
    fn a_message_an_hour_is_none() {
        assert_eq!(settings(&file("10KB", "1h")).unwrap()[0], "dummy_bytes=0");
    }

    #[test]
    fn mistakes_are_answered_with_their_line() {
        let error = |text: &str| settings(text).unwrap_err().to_string();
        assert_eq!(
            error(&file("10 potatoes", "1h")),
            "line 4: `10 potatoes` needs bytes, or a number and B, KB, MB, GB, KiB, MiB or GiB"
        );
        assert_eq!(error("[server]\n"), "line 1: missing field `host`");
    }
}
