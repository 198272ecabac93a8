//! The brokers that settings can configure.

use thalweg_server::{
    broker::BrokerService,
    config::{Config, SharedTopics},
};

use super::{
    cluster::Cluster, configured_broker::ConfiguredBroker, data::Data, settings::Settings,
};

type Made = Result<Option<Box<dyn ConfiguredBroker>>, String>;

/// All brokers. The first one whose patterns match a topic has the topic, and the first one that keeps tickets has all of
/// them. A later broker overrides what an earlier one settles: a directory is a server's own, streams are a cluster's.
const ALL: &[fn(&Settings) -> Made] = &[made::<Data>, made::<Cluster>];

fn made<B: ConfiguredBroker + 'static>(settings: &Settings) -> Made {
    Ok(B::new(settings)?.map(|broker| Box::new(broker) as _))
}

/// The configured brokers, in the order of the list. Methods fail as the first broker that does.
#[derive(Debug)]
pub(super) struct Brokers(Vec<Box<dyn ConfiguredBroker>>);

impl Brokers {
    /// Returns the brokers of the settings.
    pub(super) fn new(settings: &Settings) -> Result<Self, String> {
        ALL.iter().filter_map(|made| made(settings).transpose()).collect::<Result<_, _>>().map(Self)
    }

    /// Adapts the server's configuration to them.
    pub(super) fn settle(&self, config: &mut Config) -> Result<(), String> {
        let mut earlier = Vec::new();
        for broker in &self.0 {
            broker.settle(config, &earlier)?;
            earlier.extend(broker.topics());
        }
        Ok(())
    }

    /// Checks their settings, and files that these name, without opening them.
    pub(super) fn check(&self, config: &Config) -> Result<(), String> {
        self.0.iter().try_for_each(|broker| broker.check(config))
    }

    /// Returns the topics of their streams, in the order that the open brokers have.
    pub(super) fn topics(&self) -> SharedTopics {
        SharedTopics::new(self.0.iter().flat_map(|broker| broker.topics()))
    }

    /// Returns their rows of the screens.
    pub(super) fn about(&self) -> impl Iterator<Item = (&'static str, String)> {
        self.0.iter().map(|broker| broker.about())
    }

    /// Opens them one after the other.
    pub(super) fn open(&self, config: &Config) -> Result<Vec<BrokerService>, String> {
        self.0.iter().map(|broker| broker.open(config)).collect()
    }
}
