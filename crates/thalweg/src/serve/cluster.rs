//! The settings of a cluster: servers that share topics through NATS JetStream.

use std::path::PathBuf;

use thalweg_server::{broker::BrokerService, config::Config};

use super::{settings::Settings, stream::StreamConfig};

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
}

impl Cluster {
    /// The cluster of the settings; `None` without NATS. The error is one sentence about settings that contradict each other.
    pub(super) fn new(settings: &Settings) -> Result<Option<Self>, String> {
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
        Ok(Some(Self {
            servers: nats.clone(),
            credentials: nats_credentials.clone(),
            ca_file: nats_ca.clone(),
            node: node.clone(),
            source_node: source_node.clone(),
            time_node: time_node.clone(),
        }))
    }

    /// Runs the sources on the server that `source-node` names only, for each server would generate its own events. Closes
    /// windows on the server that `time-node` names. Fails if there are sources, and no `source-node`.
    pub(super) fn settle(&self, config: &mut Config) -> Result<(), String> {
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

    /// Checks the settings of NATS without a server.
    ///
    /// # Errors
    /// One sentence with the remedy.
    #[cfg(feature = "nats")]
    pub(super) fn check(&self, config: &Config, streams: &[StreamConfig]) -> Result<(), String> {
        self.nats_settings(config, streams).check()
    }

    /// Connects, and creates or checks the streams.
    ///
    /// # Errors
    /// One sentence with the remedy.
    #[cfg(feature = "nats")]
    pub(super) fn open(
        self,
        config: &Config,
        streams: &[StreamConfig],
    ) -> Result<BrokerService, String> {
        BrokerService::open(thalweg_nats::open(&self.nats_settings(config, streams)))
    }

    #[cfg(feature = "nats")]
    fn nats_settings(&self, config: &Config, streams: &[StreamConfig]) -> thalweg_nats::Settings {
        let warm = std::time::Duration::from_micros(config.topic_defaults.history.age_us_max);
        let stream = |stream: &StreamConfig| thalweg_nats::StreamSettings {
            name: stream.name.clone(),
            pattern: stream.pattern.clone(),
            has_values: stream.kind.has_versions(),
            replicas: stream.replicas,
            age: stream.age,
            bytes: stream.bytes,
            warm,
        };
        // Tickets have as many replicas as the safest stream.
        let replicas = streams.iter().map(|stream| stream.replicas).max().unwrap_or(1);
        let tickets = config.access.has_tokens().then_some(thalweg_nats::TicketSettings {
            replicas,
            life: thalweg_server::broker::TICKET_LIFE,
        });
        thalweg_nats::Settings {
            servers: self.servers.clone(),
            credentials: self.credentials.clone(),
            ca_file: self.ca_file.clone(),
            streams: streams.iter().map(stream).collect(),
            tickets,
        }
    }

    /// Always fails, because this build has no NATS.
    #[cfg(not(feature = "nats"))]
    pub(super) fn check(&self, _: &Config, _: &[StreamConfig]) -> Result<(), String> {
        Err("this build has no NATS: build it with --features nats".into())
    }

    /// Fails as [`Self::check`].
    ///
    /// # Errors
    /// Always.
    #[cfg(not(feature = "nats"))]
    pub(super) fn open(
        self,
        config: &Config,
        streams: &[StreamConfig],
    ) -> Result<BrokerService, String> {
        self.check(config, streams).and(Err(String::new()))
    }
}
