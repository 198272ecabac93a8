//! Names that settings had before version 0.2, each with the way to write it now.

use std::ffi::OsString;

/// The current form of an old setting.
enum Now {
    /// A flag, and a key at the top of the file.
    Flag(&'static str),
    /// A key of the file without a flag.
    Key(&'static str),
    /// A key of each `[[topic]]`.
    Topic(&'static str),
    /// Something else: on the command line, and in the file.
    Other { flag: &'static str, key: &'static str },
    /// The setting was removed, for this reason.
    Gone(&'static str),
}

use Now::{Flag, Gone, Key, Other, Topic};

/// Old flags and keys.
const SETTINGS: &[(&str, Now)] = &[
    ("drain", Flag("shutdown-timeout")),
    ("drain-delay", Flag("shutdown-delay")),
    ("head-wait", Flag("header-timeout")),
    ("body-wait", Flag("body-timeout")),
    ("stall", Flag("write-timeout")),
    ("history-bytes", Topic("history-bytes=8MiB")),
    ("history-events", Topic("history-events=100000")),
    ("history-age", Topic("history-age=5m")),
    ("flush", Topic("flush=5ms")),
    ("batch-events", Topic("batch-events=8192")),
    ("batch-bytes", Topic("batch-bytes=63KiB")),
    (
        "publish-token",
        Other {
            flag: "--token publisher=@FILE,subscribe=**,publish=**,inspect=**,admin=true, with \
                   --token everybody,subscribe=** if clients may subscribe without a token",
            key: "a [[token]] with a name, the secret, subscribe, publish and inspect = [\"**\"] and admin = true, \
                  and one with name = \"everybody\" and subscribe = [\"**\"] if clients may subscribe without a \
                  token",
        },
    ),
    (
        "subscribe-token",
        Other {
            flag: "--token subscriber=@FILE,subscribe=**",
            key: "a [[token]] with a name, the secret, and subscribe = [\"**\"]",
        },
    ),
    (
        "inspect-token",
        Other {
            flag: "--token inspector=@FILE,inspect=**",
            key: "a [[token]] with a name, the secret, and inspect = [\"**\"]",
        },
    ),
    (
        "everybody",
        Other {
            flag: "--token everybody,subscribe=…,publish=…",
            key: "a [[token]] with name = \"everybody\" and no secret",
        },
    ),
    (
        "open",
        Other {
            flag: "--token everybody,subscribe=**,publish=**",
            key: "a [[token]] with name = \"everybody\", subscribe = [\"**\"] and publish = [\"**\"]",
        },
    ),
    (
        "subscribe",
        Other { flag: "--set existing-topics-only=true", key: "existing-topics-only = true" },
    ),
    (
        "websocket-protocol",
        Other {
            flag: "--set websocket-protocols='[\"NAME\"]'",
            key: "websocket-protocols = [\"NAME\"]",
        },
    ),
    (
        "topics",
        Other {
            flag: "--topic or --query",
            key: "a [[topic]] with pattern and columns, or a [[query]] with topic and sql",
        },
    ),
    ("nats-credentials", Key("nats-credentials")),
    ("nats-ca", Key("nats-ca")),
    ("jwt-claim", Key("jwt-claim")),
    ("jwt-leeway", Key("jwt-leeway")),
    ("max-connections", Key("limits.connections")),
    ("max-connections-per-address", Key("limits.connections-per-address")),
    ("max-event", Key("limits.event-bytes")),
    ("max-history", Key("limits.history-bytes")),
    ("max-topics", Key("limits.topics")),
    ("max-subscribed-topics", Key("limits.subscribed-topics")),
    ("max-subscribed-topics-per-address", Key("limits.subscribed-topics-per-address")),
    ("max-subscriptions", Key("limits.subscriptions-per-connection")),
    ("max-queries", Key("limits.queries")),
    ("max-queries-per-address", Key("limits.queries-per-address")),
    ("query-lead", Key("limits.query-lead")),
    ("max-fetches", Key("limits.fetches")),
    ("max-new-fetched-per-address", Key("limits.new-fetched-topics-per-address")),
    ("connection-rates", Key("limits.connection-rates.commands")),
    ("subject-rates", Key("limits.subject-rates.commands")),
    ("address-rates", Key("limits.address-rates.commands")),
    ("max-head", Key("limits.header-bytes")),
    ("keep-alive", Key("limits.keep-alive-timeout")),
    ("peer-timeout", Key("limits.peer-timeout")),
    ("max-requests", Key("limits.requests")),
    ("max-unfinished", Key("limits.unfinished-bytes")),
    ("max-streams", Key("limits.http2-streams")),
    ("max-resets", Gone("no known client needs more than 20 early resets of streams")),
    ("retry-keys", Key("limits.idempotency-keys")),
    ("retry-time", Key("limits.idempotency-window")),
    ("max-answers", Key("limits.unread-answer-bytes")),
    ("send-buffer", Key("tuning.send-buffer-bytes")),
    ("unsent", Key("tuning.unsent-bytes")),
    ("stream-buffer", Key("tuning.stream-buffer-bytes")),
    ("control-buffer", Key("tuning.control-buffer-bytes")),
    ("max-pinned", Key("tuning.pinned-bytes")),
    ("visit", Key("tuning.visit-bytes")),
    ("walk-slice", Key("tuning.delivery-slice")),
    ("read-slice", Key("tuning.read-slice")),
    ("mail", Key("tuning.messages-per-shard")),
    ("publishes", Key("tuning.publishes-per-shard")),
];

/// Old keys of tables: the table, the old name, the new one.
const OF_TABLES: &[(&str, &str, &str)] =
    &[("upstream", "least", "min-interval"), ("upstream", "most", "max-interval")];

/// The variable of the token that clients send.
const CLIENT_TOKEN: &str = "THALWEG_TOKEN";

/// Old variables for tokens. If the server ignored them, it would accept every client.
const TOKENS: [&str; 3] =
    ["THALWEG_PUBLISH_TOKEN", "THALWEG_SUBSCRIBE_TOKEN", "THALWEG_INSPECT_TOKEN"];

/// Returns a message about an old flag. `flag` includes its dashes. Returns `None` if there was never such a
/// flag.
pub(super) fn flag(flag: &str) -> Option<String> {
    let now = find(flag.strip_prefix("--")?)?;
    Some(match now {
        Flag(name) => format!("{flag} is now --{name}"),
        Key(key) => format!("{flag} is now --set {key}=…; in the file: {}", place(key)),
        Topic(option) => format!("{flag} is now a key of --topic: --topic '**,{option}'"),
        Other { flag: form, .. } => format!("{flag} is now {form}"),
        Gone(reason) => format!("{flag} was removed, because {reason}: delete it"),
    })
}

/// Returns a message about an old key of a section. Returns `None` if there was never such a key.
pub(super) fn key(section: &str, key: &str) -> Option<String> {
    if !section.is_empty() {
        let (_, _, name) =
            OF_TABLES.iter().find(|(table, old, _)| *table == section && *old == key)?;
        return Some(format!("{section}: {key} is now {name}"));
    }
    Some(match find(key)? {
        Flag(name) => format!("{key} is now {name}"),
        Key(new) => format!("{key} is now {}", place(new)),
        Topic(option) => {
            let option = option.split('=').next().unwrap_or(option);
            format!("{key} is now a key of a [[topic]]: pattern = \"**\" and {option} apply to all")
        }
        Other { key: form, .. } => format!("{key} is now {form}"),
        Gone(reason) => format!("{key} was removed, because {reason}: delete it"),
    })
}

/// Rejects variables that an older version read. Also rejects a token of the server in `THALWEG_TOKEN`, the
/// variable of clients; `has_rights` recognises such a token.
///
/// # Errors
/// Returns a sentence with the current variable.
pub(super) fn check_variables(
    variable: impl Fn(&str) -> Option<OsString>,
    has_rights: impl Fn(&str) -> bool,
) -> Result<(), String> {
    if let Some(name) = TOKENS.into_iter().find(|name| variable(name).is_some()) {
        return Err(format!(
            "{name} is now THALWEG_TOKENS, with one token per line in the form of --token: \
             NAME=SECRET,subscribe=PATTERN …,publish=…"
        ));
    }
    // A shell that also runs clients may have the variable. If the text has rights, the user meant it for the
    // server. Ignoring it might let everybody publish.
    match variable(CLIENT_TOKEN).is_some_and(|value| has_rights(&value.to_string_lossy())) {
        true => Err(format!(
            "{CLIENT_TOKEN} is the token that thalweg tail and thalweg pub send: write the tokens that the server \
             accepts to THALWEG_TOKENS"
        )),
        false => Ok(()),
    }
}

fn find(name: &str) -> Option<&'static Now> {
    SETTINGS.iter().find(|(old, _)| *old == name).map(|(_, now)| now)
}

/// Returns a key with its section.
fn place(key: &str) -> String {
    match key.rsplit_once('.') {
        Some((section, key)) => format!("{key} in [{section}]"),
        None => key.to_owned(),
    }
}

#[cfg(test)]
pub(super) fn old_names() -> impl Iterator<Item = &'static str> {
    SETTINGS.iter().map(|(name, _)| *name)
}
