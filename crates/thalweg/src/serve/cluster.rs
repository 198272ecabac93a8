//! Servers that share topics through NATS JetStream: what of the settings is about that.

use std::path::PathBuf;

#[cfg(feature = "nats")]
use thalweg_core::stream::FeedKind;
#[cfg(feature = "nats")]
use thalweg_server::config::StreamConfig;
use thalweg_server::{backend::Backend, config::Config};

use super::settings::Settings;

/// Where the streams are that this server shares.
// Without NATS they are only checked.
#[cfg_attr(not(feature = "nats"), expect(dead_code))]
#[derive(Debug)]
pub(super) struct Cluster {
    /// Of NATS, as URLs.
    servers: Vec<String>,
    credentials: Option<PathBuf>,
    ca_file: Option<PathBuf>,
    /// This server's name, and those of the ones that run sources and tell the time.
    node: Option<String>,
    source_node: Option<String>,
    time_node: Option<String>,
}

impl Cluster {
    /// Those of the settings; `None` if there is no NATS.
    ///
    /// # Errors
    /// One sentence about what does not go together.
    pub(super) fn of(settings: &Settings) -> Result<Option<Self>, String> {
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
                Some((name, _)) => Err(format!("{name} needs nats, the servers of NATS")),
                None => Ok(None),
            };
        }
        if stream.is_empty() {
            return Err("nats needs a stream: stream=live=**, for instance, has all topics".into());
        }
        for (name, is_given) in
            [("source-node", source_node.is_some()), ("time-node", time_node.is_some())]
        {
            if is_given && node.is_none() {
                return Err(format!("{name} needs node, the name of this server"));
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

    /// Leaves the sources to the one server that is named for them: on several each would make its
    /// own events. And telling the time to the one that is named for that.
    ///
    /// # Errors
    /// When there are sources and none is named.
    pub(super) fn settle(&self, config: &mut Config) -> Result<(), String> {
        config.tells_time = self.time_node.is_some() && self.time_node == self.node;
        match &self.source_node {
            None if config.sources.is_empty() => Ok(()),
            None => {
                Err("with nats every server would run the sources: name the one that does with \
                         source-node, and each with node"
                    .into())
            }
            Some(source_node) => {
                config.runs_sources = self.node.as_ref() == Some(source_node);
                Ok(())
            }
        }
    }

    /// Connects, and creates or checks the streams.
    ///
    /// # Errors
    /// One sentence with the remedy.
    #[cfg(feature = "nats")]
    pub(super) fn open(self, config: &Config) -> Result<Box<dyn Backend>, String> {
        let warm = std::time::Duration::from_micros(config.topic_defaults.history.age_us_max);
        let stream = |stream: &StreamConfig| thalweg_nats::StreamSettings {
            name: stream.name.clone(),
            pattern: stream.pattern.clone(),
            has_values: stream.kind == FeedKind::Value,
            replicas: stream.replicas,
            age: stream.age,
            bytes: stream.bytes,
            warm,
        };
        // Tickets are as safe as the safest stream.
        let replicas = config.streams.iter().map(|stream| stream.replicas).max().unwrap_or(1);
        let tickets = config.access.has_tokens().then_some(thalweg_nats::TicketSettings {
            replicas,
            life: thalweg_server::backend::TICKET_LIFE,
        });
        let settings = thalweg_nats::Settings {
            servers: self.servers,
            credentials: self.credentials,
            ca_file: self.ca_file,
            streams: config.streams.iter().map(stream).collect(),
            tickets,
        };
        Ok(Box::new(thalweg_nats::open(&settings)?))
    }

    /// Refuses: what it needs is not in this build.
    ///
    /// # Errors
    /// Always.
    #[cfg(not(feature = "nats"))]
    pub(super) fn open(self, _: &Config) -> Result<Box<dyn Backend>, String> {
        Err("this build has no NATS: build it with --features nats".into())
    }
}
