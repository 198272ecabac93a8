//! The data directory: topics that survive a restart.

use std::path::PathBuf;

use thalweg_core::stream::FeedKind;
use thalweg_disk::StoreSettings;
use thalweg_server::{
    broker::{BrokerService, TICKET_LIFE},
    config::Config,
};
use thalweg_token::Pattern;

use super::{
    configured_broker::ConfiguredBroker,
    settings::Settings,
    store::{LOG_BYTES, StoreConfig},
};

/// The directory, and its stores.
#[derive(Debug)]
pub(super) struct Data {
    directory: PathBuf,
    /// Bytes of the directory above which the oldest events are deleted.
    bytes: Option<u64>,
    /// Bytes of events in all stores above which the oldest ones are deleted.
    log_bytes: Option<u64>,
    stores: Vec<StoreConfig>,
}

/// Gives keyed topics that a store of another kind would have a store of their own before it. Fails if the
/// directory cannot have it.
fn keep_keys(stores: &mut Vec<StoreConfig>, kinds: &[(Pattern, FeedKind)]) -> Result<(), String> {
    for (pattern, _) in kinds.iter().filter(|(_, kind)| kind.has_keys()) {
        let has_keys = |store: &StoreConfig| store.kind.has_keys();
        if stores.iter().any(|store| has_keys(store) && covers(&store.pattern, pattern)) {
            continue;
        }
        let overlaps = |store: &StoreConfig| store.pattern.overlaps(pattern);
        let Some(other) = stores.iter().position(|store| overlaps(store) && !has_keys(store))
        else {
            continue;
        };
        if stores.iter().any(|store| store.pattern == *pattern) {
            return Err(format!(
                "topic: {pattern} has kind=keyed, but the store {pattern} keeps events without keys: add kind=keyed to the store, or give it another pattern"
            ));
        }
        // The first store of its kind has a topic, so keys that are stored stay where they are.
        let keyed = stores.iter().rposition(|store| overlaps(store) && has_keys(store));
        let at = keyed.map_or(other, |keyed| keyed + 1);
        let sync = stores[other].sync;
        let keyed = StoreConfig { sync, ..StoreConfig::new(pattern.clone(), FeedKind::Keyed) };
        stores.insert(at, keyed);
    }
    Ok(())
}

/// Returns whether a pattern matches all topics that another one matches.
pub(super) fn covers(pattern: &Pattern, other: &Pattern) -> bool {
    let mut others = other.as_str().split('/');
    for segment in pattern.as_str().split('/') {
        match (segment, others.next()) {
            ("**", Some(_)) => return true,
            ("*", Some(other)) if other != "**" => {}
            (segment, Some(other)) if segment == other => {}
            _ => return false,
        }
    }
    others.next().is_none()
}

impl ConfiguredBroker for Data {
    fn new(settings: &Settings) -> Result<Option<Self>, String> {
        let Settings { data, data_bytes, store, topic, nats, .. } = settings;
        let Some(directory) = data.clone() else {
            if data_bytes.is_some() {
                return Err("data-bytes needs data: set it to a directory".into());
            }
            return match store.is_empty() {
                true => Ok(None),
                false => Err("store needs data: set it to a directory".into()),
            };
        };
        let mut stores = Vec::new();
        for table in store {
            stores.push(table.store().map_err(|error| format!("store: {error}"))?);
        }
        if stores.is_empty() && !nats.is_empty() {
            return Err(
                "with nats, data needs a store: add --store orders/**, for instance, which \
                 keeps these topics in the directory"
                    .into(),
            );
        }
        let kinds: Vec<_> = topic.iter().map(|table| table.kind()).collect();
        let log_bytes = stores.is_empty().then_some(LOG_BYTES);
        if stores.is_empty() {
            let has_states = kinds.iter().any(|(_, kind)| kind.is_state());
            let named = kinds.iter().filter(|(pattern, _)| has_states && !pattern.is_all());
            stores.extend(named.map(|(pattern, kind)| StoreConfig::new(pattern.clone(), *kind)));
            let all = kinds.iter().find(|(pattern, _)| pattern.is_all());
            let kind = all.map(|(_, kind)| *kind).unwrap_or_default();
            stores.push(StoreConfig::new(Pattern::all(), kind));
            // They share a limit, because the settings do not have these stores.
            stores.iter_mut().for_each(|store| store.bytes = None);
        }
        keep_keys(&mut stores, &kinds)?;
        for (pattern, _) in kinds.iter().filter(|(_, kind)| kind.has_versions()) {
            let before = stores
                .iter()
                .take_while(|store| !store.kind.has_versions() || store.pattern != *pattern);
            let mut before = before.filter(|store| !store.kind.has_versions());
            if let Some(store) = before.find(|store| store.pattern.overlaps(pattern)) {
                return Err(format!(
                    "topic: {pattern} has kind=value, but the store {} keeps some of these topics as events: \
                     give value topics a store of their own before it, with kind=value",
                    store.pattern
                ));
            }
        }
        let bytes = data_bytes.map(|size| usize::from(size) as u64);
        Ok(Some(Self { directory, bytes, log_bytes, stores }))
    }

    /// Lets this server close windows of queries, because it is the only one that has the topics.
    fn settle(&self, config: &mut Config, _: &[(Pattern, FeedKind)]) -> Result<(), String> {
        config.tells_time = true;
        Ok(())
    }

    fn check(&self, config: &Config) -> Result<(), String> {
        self.settings(config).check()
    }

    fn topics(&self) -> Vec<(Pattern, FeedKind)> {
        self.stores.iter().map(|store| (store.pattern.clone(), store.kind)).collect()
    }

    fn about(&self) -> (&'static str, String) {
        let patterns: Vec<_> = self.stores.iter().map(|store| store.pattern.to_string()).collect();
        ("data", format!("{} keeps {}", self.directory.display(), patterns.join(", ")))
    }

    fn open(&self, config: &Config) -> Result<BrokerService, String> {
        BrokerService::open(thalweg_disk::open(&self.settings(config)))
    }
}

impl Data {
    pub(super) fn settings(&self, config: &Config) -> thalweg_disk::Settings {
        let store = |store: &StoreConfig| StoreSettings {
            pattern: store.pattern.clone(),
            kind: store.kind,
            age: store.age,
            bytes: store.bytes,
            sync: store.sync.mode(),
        };
        thalweg_disk::Settings {
            directory: self.directory.clone(),
            stores: self.stores.iter().map(store).collect(),
            bytes: self.bytes,
            log_bytes: self.log_bytes,
            event_bytes: config.limits.event_bytes,
            ticket_life: config.access.has_tokens().then_some(TICKET_LIFE),
        }
    }
}
