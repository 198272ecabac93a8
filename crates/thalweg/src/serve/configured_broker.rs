//! A broker as the settings describe it.

use std::fmt::Debug;

use thalweg_core::stream::FeedKind;
use thalweg_server::{broker::BrokerService, config::Config};
use thalweg_token::Pattern;

use super::settings::Settings;

/// A broker that the settings configure, before it is open. Each error is one sentence with the remedy.
pub(super) trait ConfiguredBroker: Debug {
    /// Returns the broker of the settings; `None` if they configure none. Fails if they contradict each other.
    fn new(settings: &Settings) -> Result<Option<Self>, String>
    where
        Self: Sized;

    /// Adapts the server's configuration. `earlier` has the topics of earlier brokers. Fails if topics have a kind that the broker
    /// cannot store, or if settings of both contradict each other.
    fn settle(&self, config: &mut Config, earlier: &[(Pattern, FeedKind)]) -> Result<(), String>;

    /// Checks the settings without opening the broker. May read files that the settings name.
    fn check(&self, config: &Config) -> Result<(), String>;

    /// Returns the pattern of each stream and the kind of its topics, in the order that the open broker has.
    fn topics(&self) -> Vec<(Pattern, FeedKind)>;

    /// Describes it in a row of the screens: the name of the row, and its text.
    fn about(&self) -> (&'static str, String);

    /// Opens it. Blocks until it can serve.
    fn open(&self, config: &Config) -> Result<BrokerService, String>;
}
