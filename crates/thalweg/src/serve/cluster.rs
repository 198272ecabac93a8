//! The settings of a cluster: servers that share topics through NATS JetStream.

use std::path::PathBuf;

use thalweg_core::stream::FeedKind;
use thalweg_server::{broker::BrokerService, config::Config};
use thalweg_token::Pattern;

use super::{
    configured_broker::ConfiguredBroker, data::covers, settings::Settings, stream::StreamConfig,
};

/// The topics that list the members of other topics. Servers share all of them, or none.
const PRESENCE_TOPICS: &str = "presence/**";

/// Streams that the screens name.
const STREAMS_SHOWN: usize = 4;

/// The NATS servers of a cluster, and the names of its Thalweg servers.
// A build without NATS only checks them.
#[cfg_attr(not(feature = "nats"), expect(dead_code))]
#[derive(Debug)]
pub(super) struct Cluster {
    /// URLs of the NATS servers.
    servers: Vec<String>,
    credentials: Option<PathBuf>,
    ca_file: Option<PathBuf>,
    /// The names of this server, of the one that runs sources, and of the one that closes windows.
    node: Option<String>,
    source_node: Option<String>,
    time_node: Option<String>,
    streams: Vec<StreamConfig>,
}

impl ConfiguredBroker for Cluster {
    fn new(settings: &Settings) -> Result<Option<Self>, String> {
        let Settings {
            nats, nats_credentials, nats_ca, stream, node, source_node, time_node, ..
        } = settings;
        if nats.is_empty() {
            let given = [
                ("stream", !stream.is_empty()),
                ("nats-credentials", nats_credentials.is_some()),
                ("nats-ca", nats_ca.is_some()),
                ("source-node", source_node.is_some()),
                ("time-node", time_node.is_some()),
            ];
            return match given.into_iter().find(|(_, is_given)| *is_given) {
                Some((name, _)) => {
                    Err(format!("{name} needs nats: set it to the URLs of the NATS servers"))
                }
                None => Ok(None),
            };
        }
        if stream.is_empty() {
            return Err(
                "nats needs a stream: add --stream live=**, for instance, which stores all topics"
                    .into(),
            );
        }
        for (name, is_given) in
            [("source-node", source_node.is_some()), ("time-node", time_node.is_some())]
        {
            if is_given && node.is_none() {
                return Err(format!("{name} needs node: set it to the name of this server"));
            }
        }
        let mut streams = Vec::<StreamConfig>::new();
        for table in stream {
            let stream = table.stream().map_err(|error| format!("stream: {error}"))?;
            if streams.iter().any(|other| other.name == stream.name) {
                return Err(format!("stream: the name {:?} occurs twice: rename one", stream.name));
            }
            streams.push(stream);
        }
        Ok(Some(Self {
            servers: nats.clone(),
            credentials: nats_credentials.clone(),
            ca_file: nats_ca.clone(),
            node: node.clone(),
            source_node: source_node.clone(),
            time_node: time_node.clone(),
            streams,
        }))
    }

    /// Runs the sources on the server that `source-node` names only, for each server would generate its own events. Closes
    /// windows on the server that `time-node` names.
    fn settle(&self, config: &mut Config, earlier: &[(Pattern, FeedKind)]) -> Result<(), String> {
        self.check_kinds(config, earlier)?;
        config.tells_time = self.time_node.is_some() && self.time_node == self.node;
        match &self.source_node {
            None if config.sources.is_empty() => Ok(()),
            None => Err(
                "with nats, every server would run the sources: choose one with source-node, and \
                     name each server with node"
                    .into(),
            ),
            Some(source_node) => {
                config.runs_sources = self.node.as_ref() == Some(source_node);
                Ok(())
            }
        }
    }

    #[cfg(feature = "nats")]
    fn check(&self, config: &Config) -> Result<(), String> {
        self.nats_settings(config).check()
    }

    #[cfg(not(feature = "nats"))]
    fn check(&self, _: &Config) -> Result<(), String> {
        Err("this build has no NATS: build it with --features nats".into())
    }

    fn topics(&self) -> Vec<(Pattern, FeedKind)> {
        self.streams.iter().map(|stream| (stream.pattern.clone(), stream.kind)).collect()
    }

    fn about(&self) -> (&'static str, String) {
        let shown = self.streams.iter().take(STREAMS_SHOWN);
        let streams: Vec<_> =
            shown.map(|stream| format!("{} ({})", stream.name, stream.pattern)).collect();
        ("streams", format!("{}, shared through NATS", streams.join(", ")))
    }

    #[cfg(feature = "nats")]
    fn open(&self, config: &Config) -> Result<BrokerService, String> {
        BrokerService::open(thalweg_nats::open(&self.nats_settings(config)))
    }

    #[cfg(not(feature = "nats"))]
    fn open(&self, config: &Config) -> Result<BrokerService, String> {
        self.check(config).and(Err(String::new()))
    }
}

impl Cluster {
    /// Refuses value topics in a stream of events, which keeps all of them, keyed topics that neither an earlier broker nor a stream of
    /// keys has, and streams of keys without keyed topics.
    fn check_kinds(&self, config: &Config, earlier: &[(Pattern, FeedKind)]) -> Result<(), String> {
        let all = (Pattern::all(), config.topic_defaults.clone());
        let topics = config.topics.iter().chain([&all]);
        for (pattern, _) in topics.filter(|(_, settings)| settings.kind.has_versions()) {
            let has_some = |stream: &&StreamConfig| {
                !stream.kind.has_versions() && stream.pattern.overlaps(pattern)
            };
            if let Some(stream) = self.streams.iter().find(has_some) {
                return Err(format!(
                    "topic: {pattern} has kind=value, but stream {:?} stores some of these topics as events: \
                     give value topics a stream of their own, with kind=value",
                    stream.name
                ));
            }
        }
        for pattern in config.keyed_patterns() {
            let keeps =
                |stream: &StreamConfig| stream.kind.has_keys() && covers(&stream.pattern, &pattern);
            if earlier.iter().any(|(other, kind)| kind.has_keys() && *other == pattern)
                || self.streams.iter().any(keeps)
            {
                continue;
            }
            let mut streams = self.streams.iter();
            if let Some(stream) = streams.find(|stream| stream.pattern.overlaps(&pattern)) {
                return Err(format!(
                    "topic: {pattern} has kind=keyed, but stream {:?} shares some of these topics between servers, \
                     and no stream of keys has all of them: give them a stream of their own, with --stream 'keys={pattern},kind=keyed', \
                     or keep them in a data directory of one server with --data and --store '{pattern},kind=keyed'",
                    stream.name
                ));
            }
        }
        let presence: Pattern = PRESENCE_TOPICS.parse().map_err(|error| format!("{error}"))?;
        for stream in self.streams.iter().filter(|stream| stream.kind.has_keys()) {
            if config.has_presence() && stream.pattern.overlaps(&presence) {
                if covers(&stream.pattern, &presence) {
                    continue;
                }
                let StreamConfig { name, pattern, .. } = stream;
                return Err(format!(
                    "stream {name:?} has the topics {pattern}, which are some of those that list members: give it the pattern {presence}"
                ));
            }
            if !config.keyed_patterns().any(|pattern| pattern.overlaps(&stream.pattern)) {
                let StreamConfig { name, pattern, .. } = stream;
                return Err(format!(
                    "stream {name:?} has kind=keyed, but none of its topics has keys: add --topic '{pattern},kind=keyed'"
                ));
            }
        }
        Ok(())
    }

    #[cfg(feature = "nats")]
    fn nats_settings(&self, config: &Config) -> thalweg_nats::Settings {
        let warm = std::time::Duration::from_micros(config.topic_defaults.history.age_us_max);
        let stream = |stream: &StreamConfig| thalweg_nats::StreamSettings {
            name: stream.name.clone(),
            pattern: stream.pattern.clone(),
            kind: stream.kind,
            replicas: stream.replicas,
            age: stream.age,
            bytes: stream.bytes,
            warm,
        };
        // Tickets have as many replicas as the safest stream.
        let replicas = self.streams.iter().map(|stream| stream.replicas).max().unwrap_or(1);
        let tickets = config.access.has_tokens().then_some(thalweg_nats::TicketSettings {
            replicas,
            life: thalweg_server::broker::TICKET_LIFE,
        });
        thalweg_nats::Settings {
            servers: self.servers.clone(),
            credentials: self.credentials.clone(),
            ca_file: self.ca_file.clone(),
            streams: self.streams.iter().map(stream).collect(),
            tickets,
        }
    }
}
