//! Settings, and names in NATS.

use std::{fs::File, path::PathBuf, time::Duration};

use async_nats::ServerAddr;
use thalweg_core::stream::FeedKind;
use thalweg_wire::{Pattern, Topic, topic::TopicError};

/// The time for which the stream recognises repeated messages: as long as a publisher may retry.
pub(crate) const DUPLICATE_WINDOW: Duration = Duration::from_secs(5 * 60);

const SUBJECT_PREFIX: &str = "thalweg.";

/// The prefixes of the subjects of stored states: of their parts, and of the indexes of these.
const PART_PREFIX: &str = "thalweg-state.part.";
const INDEX_PREFIX: &str = "thalweg-state.index.";

/// The subjects of stored states, before the pattern of a stream.
const STATE_PREFIX: &str = "thalweg-state.*.";

const STREAM_PREFIX: &str = "thalweg-";

/// Longest [`StreamSettings::name`]: JetStream makes folders and subjects from it.
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
    /// The streams. Patterns of two streams must not match the same topic, because JetStream refuses such streams.
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
    /// The name, which operators see: letters, digits, `-` and `_`.
    pub name: String,
    /// The pattern of its topics.
    pub pattern: Pattern,
    /// The kind of its topics. The stream keeps the newest message of a value topic, and the newest event of each key of a keyed
    /// topic, until the topic ends.
    pub kind: FeedKind,
    /// Number of servers that store each message: 1, 3 or 5.
    pub replicas: usize,
    /// Retention of messages, except for value topics and keyed topics; at least 5 minutes.
    pub age: Duration,
    /// Maximum bytes on each replica. Beyond it, the stream removes the oldest messages; a stream of values or keys refuses new ones.
    pub bytes: Option<u64>,
    /// The age from which on messages are delivered at the start: that of this server's own history.
    pub warm: Duration,
}

impl Settings {
    /// Checks the settings without a server.
    ///
    /// # Errors
    /// One sentence with the remedy.
    pub fn check(&self) -> Result<(), String> {
        if self.servers.is_empty() {
            return Err(
                "no NATS server is named: name at least one, as nats://host:4222".to_owned()
            );
        }
        self.server_addresses()?;
        for (is, path) in [("credentials", &self.credentials), ("authorities", &self.ca_file)] {
            let Some(path) = path else { continue };
            File::open(path).map_err(|error| {
                format!(
                    "cannot read the NATS {is} {} ({error}): name a file that this user may read",
                    path.display()
                )
            })?;
        }
        self.streams.iter().try_for_each(StreamSettings::check)
    }

    /// Returns the addresses of the servers.
    ///
    /// # Errors
    /// One sentence with the remedy, without a password.
    pub(crate) fn server_addresses(&self) -> Result<Vec<ServerAddr>, String> {
        self.servers.iter().map(|url| server_address(url)).collect()
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

fn server_address(url: &str) -> Result<ServerAddr, String> {
    // A password may be where the port belongs, so errors repeat neither.
    let (scheme, rest) = url.split_once("://").unwrap_or(("nats", url));
    let address = rest.rsplit_once('@').map_or(rest, |(_, address)| address);
    let end = address.find(']').map_or(0, |end| end + 1);
    let end = address[end..].find([':', '/', '?', '#']).map_or(address.len(), |at| end + at);
    let (host, rest) = address.split_at(end);
    let port = rest.strip_prefix(':').map(|rest| rest.split('/').next().unwrap_or_default());
    let is_port = |port: &str| {
        let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
        is_number && port.parse::<u16>().is_ok_and(|port| port != 0)
    };
    if port.is_some_and(|port| !is_port(port)) {
        return Err(format!(
            "the port of the NATS server {host:?} is not a number from 1 to 65535: write it as nats://host:4222"
        ));
    }
    match url.parse::<ServerAddr>() {
        Ok(server) if ["nats", "tls"].contains(&scheme) && !server.host().is_empty() => Ok(server),
        _ => Err(format!(
            "the address of the NATS server {host:?} cannot be read: write it as nats://host:4222 or tls://host:4222"
        )),
    }
}

impl StreamSettings {
    fn check(&self) -> Result<(), String> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let name = &self.name;
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(is_allowed) {
            return Err(format!(
                "{name:?} is not the name of a stream: use 1 to {NAME_BYTES_MAX} letters, digits, \"-\" and \"_\""
            ));
        }
        if !(1..=5).contains(&self.replicas) {
            return Err(format!("stream {name:?} has {} replicas: set 1, 3 or 5", self.replicas));
        }
        if !self.kind.is_state() && self.age < DUPLICATE_WINDOW {
            return Err(format!(
                "stream {name:?} keeps messages for {}: set at least {}, because repeated publishes are recognised for this long",
                humantime::format_duration(self.age),
                humantime::format_duration(DUPLICATE_WINDOW)
            ));
        }
        Ok(())
    }

    pub(crate) fn stream_name(&self) -> String {
        format!("{STREAM_PREFIX}{}", self.name)
    }

    /// Returns the subjects of its messages: those of the topics come first.
    pub(crate) fn subjects(&self) -> Vec<String> {
        let tokens = self.pattern.as_str().split('/').map(|segment| match segment {
            "**" => ">".to_owned(),
            segment => segment.replace('.', "/"),
        });
        let tokens = tokens.collect::<Vec<_>>().join(".");
        let mut subjects = vec![format!("{SUBJECT_PREFIX}{tokens}")];
        if self.kind.has_keys() {
            subjects.push(format!("{STATE_PREFIX}{tokens}"));
        }
        subjects
    }
}

pub(crate) fn subject_of(topic: &Topic) -> String {
    format!("{SUBJECT_PREFIX}{}", topic.to_nats_subject())
}

/// Returns the subject of the parts of a keyed topic's state.
pub(crate) fn part_subject_of(topic: &Topic) -> String {
    format!("{PART_PREFIX}{}", topic.to_nats_subject())
}

/// Returns the subject of the index of a keyed topic's state.
pub(crate) fn index_subject_of(topic: &Topic) -> String {
    format!("{INDEX_PREFIX}{}", topic.to_nats_subject())
}

/// Returns the topic of an index; `None` for any other subject.
pub(crate) fn topic_of_index(subject: &str) -> Option<Topic> {
    Topic::from_nats_subject(subject.strip_prefix(INDEX_PREFIX)?).ok()
}

/// Returns whether a message is a part of a state.
pub(crate) fn is_part(subject: &str) -> bool {
    subject.starts_with(PART_PREFIX)
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
            kind: FeedKind::Log,
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
            assert_eq!(stream("s", pattern).subjects(), [subject]);
        }
        let keyed = StreamSettings { kind: FeedKind::Keyed, ..stream("s", "cars/v1.2/**") };
        assert_eq!(keyed.subjects(), ["thalweg.cars.v1/2.>", "thalweg-state.*.cars.v1/2.>"]);
    }

    #[test]
    fn a_state_has_subjects_beside_those_of_its_topic() {
        let topic: Topic = "cars/v1.2".parse().unwrap();
        let (part, index) = (part_subject_of(&topic), index_subject_of(&topic));
        assert_eq!((part.as_str(), is_part(&part)), ("thalweg-state.part.cars.v1/2", true));
        assert_eq!((topic_of_index(&index), is_part(&index)), (Some(topic.clone()), false));
        assert!(topic_of_index(&part).is_none() && topic_of_index(&subject_of(&topic)).is_none());
        assert!(topic_of(&part).is_err() && topic_of(&index).is_err());
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
    fn server_addresses_have_a_host_and_a_valid_port() {
        for url in
            ["nats://h", "nats://h:4222", "tls://u:p%40@h:1/", "h:65535", "nats://[::1]:4222"]
        {
            server_address(url).unwrap_or_else(|error| panic!("{url}: {error}"));
        }
        let refused = |url: &str, words: &str| {
            let error = server_address(url).unwrap_err();
            let is_safe =
                !error.contains("s3cret") && error.contains("write it as nats://host:4222");
            assert!(error.contains(words) && is_safe, "{url}: {error}");
        };
        for port in ["", "0", "65536", "http", "-1", "+1", "s3cret/"] {
            refused(&format!("nats://h:{port}"), "\"h\" is not a number from 1 to 65535");
            refused(&format!("tls://u:s3cret@[::1]:{port}"), "\"[::1]\" is not a number");
            refused(&format!("u:s3cret@h:{port}"), "\"h\" is not a number from 1 to 65535");
        }
        for url in ["nats://", "", "http://h:80", "ws://h", "nats://[h", "nats://u:s3cret@"] {
            refused(url, "cannot be read");
        }
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
