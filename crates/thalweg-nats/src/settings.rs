//! Settings, and names in NATS.

use std::{path::PathBuf, time::Duration};

use thalweg_wire::{Pattern, Topic, topic::TopicError};

/// The time for which the stream recognises repeated messages: as late as a publisher's retry may come.
pub(crate) const DUPLICATE_WINDOW: Duration = Duration::from_secs(5 * 60);

const SUBJECT_PREFIX: &str = "thalweg.";

const STREAM_PREFIX: &str = "thalweg-";

/// Longest [`StreamSettings::name`]: JetStream makes folders and subjects of it.
const NAME_BYTES_MAX: usize = 64;

/// The addresses of NATS, and the streams.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Servers of one cluster: `nats://host:port` or `tls://host:port`, with `user:password@` before the host if they require it.
    pub servers: Vec<String>,
    /// A credentials file of `nsc`: a JWT, and the seed that signs for it.
    pub credentials: Option<PathBuf>,
    /// A PEM file of the certificate authorities of the servers, instead of those of the system.
    pub ca_file: Option<PathBuf>,
    /// The streams. Patterns of two streams must not match the same topic: JetStream refuses it.
    pub streams: Vec<StreamSettings>,
    /// The tickets; `None` if the server needs none.
    pub tickets: Option<TicketSettings>,
}

/// The bucket of tickets, as it is created, and as it must be if it exists.
#[derive(Debug, Clone, Copy)]
pub struct TicketSettings {
    /// Number of servers that store each ticket: 1, 3 or 5.
    pub replicas: usize,
    /// The time for which a ticket is kept.
    pub life: Duration,
}

/// A stream, as it is created, and as it must be if it exists.
#[derive(Debug, Clone)]
pub struct StreamSettings {
    /// Its name, which operators see: letters, digits, `-` and `_`.
    pub name: String,
    /// The pattern of its topics.
    pub pattern: Pattern,
    /// Whether its topics are value topics. The stream keeps the newest message of a value topic until it ends.
    pub has_values: bool,
    /// Number of servers that store each message: 1, 3 or 5.
    pub replicas: usize,
    /// Retention of messages, except for value topics; at least 5 minutes.
    pub age: Duration,
    /// Maximum bytes on each replica. Beyond it, the stream removes the oldest messages; a stream of values refuses new ones.
    pub bytes: Option<u64>,
    /// The age from which on messages are delivered at the start: that of this server's own history.
    pub warm: Duration,
}

impl Settings {
    /// Checks the settings without a server. Fails with one sentence with the remedy.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.servers.is_empty() {
            return Err(
                "no NATS server is named: name at least one, as nats://host:4222".to_owned()
            );
        }
        self.streams.iter().try_for_each(StreamSettings::check)
    }

    /// Returns the servers without passwords, for messages.
    pub(crate) fn server_names(&self) -> String {
        let name = |url: &String| match (url.find("://"), url.rfind('@')) {
            (Some(scheme), Some(at)) if at > scheme => {
                format!("{}{}", &url[..scheme + 3], &url[at + 1..])
            }
            (None, Some(at)) => url[at + 1..].to_owned(),
            _ => url.clone(),
        };
        self.servers.iter().map(name).collect::<Vec<_>>().join(", ")
    }
}

impl StreamSettings {
    fn check(&self) -> Result<(), String> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let name = &self.name;
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(is_allowed) {
            return Err(format!(
                "a stream's name has 1 to {NAME_BYTES_MAX} letters, digits, \"-\" and \"_\", and {name:?} has not"
            ));
        }
        if !(1..=5).contains(&self.replicas) {
            return Err(format!("stream {name:?} has {} replicas: set 1, 3 or 5", self.replicas));
        }
        if !self.has_values && self.age < DUPLICATE_WINDOW {
            return Err(format!(
                "stream {name:?} keeps messages for {}: set at least {}, for which repeated publishes are recognised",
                humantime::format_duration(self.age),
                humantime::format_duration(DUPLICATE_WINDOW)
            ));
        }
        Ok(())
    }

    pub(crate) fn stream_name(&self) -> String {
        format!("{STREAM_PREFIX}{}", self.name)
    }

    pub(crate) fn subject(&self) -> String {
        let tokens = self.pattern.as_str().split('/').map(|segment| match segment {
            "**" => ">".to_owned(),
            segment => segment.replace('.', "/"),
        });
        format!("{SUBJECT_PREFIX}{}", tokens.collect::<Vec<_>>().join("."))
    }
}

pub(crate) fn subject_of(topic: &Topic) -> String {
    format!("{SUBJECT_PREFIX}{}", topic.to_nats_subject())
}

/// Returns the topic of a subject. Fails if no topic has the subject.
pub(crate) fn topic_of(subject: &str) -> Result<Topic, TopicError> {
    Topic::from_nats_subject(subject.strip_prefix(SUBJECT_PREFIX).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(name: &str, pattern: &str) -> StreamSettings {
        StreamSettings {
            name: name.to_owned(),
            pattern: pattern.parse().unwrap(),
            has_values: false,
            replicas: 1,
            age: Duration::from_secs(3600),
            bytes: None,
            warm: Duration::from_secs(60),
        }
    }

    #[test]
    fn a_pattern_has_subjects() {
        for (pattern, subject) in [
            ("cars", "thalweg.cars"),
            ("**", "thalweg.>"),
            ("*", "thalweg.*"),
            ("users/*/inbox", "thalweg.users.*.inbox"),
            ("cars/v1.2/**", "thalweg.cars.v1/2.>"),
        ] {
            assert_eq!(stream("s", pattern).subject(), subject);
        }
    }

    #[test]
    fn a_topic_has_a_subject_and_back() {
        let topic: Topic = "cars/v1.2".parse().unwrap();
        assert_eq!(subject_of(&topic), "thalweg.cars.v1/2");
        assert_eq!(topic_of("thalweg.cars.v1/2").unwrap(), topic);
        for other in ["", "thalweg", "thalweg.", "other.cars", "thalweg.a b", "thalweg.$a"] {
            assert!(topic_of(other).is_err(), "{other}");
        }
    }

    #[test]
    fn messages_name_servers_without_passwords() {
        let servers = ["nats://me:secret@a:4222", "tls://b:4222", "me:secret@c"].map(str::to_owned);
        let settings = Settings {
            servers: servers.into(),
            credentials: None,
            ca_file: None,
            streams: vec![],
            tickets: None,
        };
        assert_eq!(settings.server_names(), "nats://a:4222, tls://b:4222, c");
    }

    #[test]
    fn invalid_settings_are_reported() {
        assert!(stream("matches-1_a", "**").check().is_ok());
        for name in ["", "a.b", "a b", "a/b", "a>"] {
            assert!(stream(name, "**").check().unwrap_err().contains("letters, digits"), "{name}");
        }
        let short = StreamSettings { age: Duration::from_secs(60), ..stream("s", "**") };
        assert!(short.check().unwrap_err().contains("set at least 5m"));
        let none = StreamSettings { replicas: 0, ..stream("s", "**") };
        assert!(none.check().unwrap_err().contains("set 1, 3 or 5"));
    }
}
