//! The settings of a topic as text, for people.

use std::fmt::Display;

use serde::Serialize;
use thalweg_wire::Topic;

use super::{Config, SharedTopics, TopicSettings};

/// A setting of a topic, as a settings file writes it, and where it comes from.
#[derive(Debug, Serialize, PartialEq, Eq)]
pub(crate) struct DescribedSetting {
    name: &'static str,
    value: String,
    /// `default`, `**` for the settings of all topics, or the pattern of a `[[topic]]`.
    from: String,
}

const UNSET: &str = "–";

impl Config {
    /// Returns the settings of a topic. A setting that equals the default counts as such, unless it replaces another value of `**`.
    pub(crate) fn described(&self, topic: &Topic) -> Vec<DescribedSetting> {
        let texts = texts(&self.topic(topic));
        let (all, default) = (texts_of(&self.topic_defaults), texts_of(&TopicSettings::default()));
        let set = texts_of(self.settings(topic));
        let named = self.topics.iter().find(|(pattern, _)| pattern.matches(topic));
        let pattern = named.map(|(pattern, _)| pattern.to_string());
        let setting = |(index, (name, value)): (usize, (&'static str, String))| {
            let from = match &pattern {
                // The kind of documents, members and rows is not set.
                _ if value != set[index] && value != all[index] => "default".to_owned(),
                Some(pattern) if value != all[index] => pattern.clone(),
                _ if value == default[index] => "default".to_owned(),
                _ => "**".to_owned(),
            };
            DescribedSetting { name, value, from }
        };
        texts.into_iter().enumerate().map(setting).collect()
    }

    /// Returns the origin of a topic's events in words. `shared` has the topics that brokers store.
    pub(crate) fn origin_of(&self, topic: &Topic, shared: &SharedTopics) -> String {
        if let Some(query) = self.queries.iter().find(|query| query.topic == *topic) {
            return format!("rows of the query {}", query.text);
        }
        if self.is_derived(topic) {
            return "rows of an ad hoc query".to_owned();
        }
        if self.is_presence(topic) {
            return "members of a topic".to_owned();
        }
        if let Some(upstream) = self.upstream(topic) {
            return format!(
                "fetched over HTTP, as [[upstream]] {}",
                self.upstreams[upstream].pattern
            );
        }
        let source = self.sources.iter().find(|source| source.topic == *topic);
        let from = source.map_or("published by clients".to_owned(), |source| {
            format!("made by the source {}, or published by clients", source.kind)
        });
        match shared.patterns().find(|pattern| pattern.matches(topic)) {
            Some(pattern) => format!("{from}, stored by the broker ({pattern})"),
            None => from,
        }
    }
}

fn texts_of(settings: &TopicSettings) -> Vec<String> {
    texts(settings).into_iter().map(|(_, value)| value).collect()
}

fn texts(settings: &TopicSettings) -> Vec<(&'static str, String)> {
    let TopicSettings { kind, columns, history, batch, keys, presence } = settings;
    let or_unset = |value: Option<&dyn Display>| value.map_or(UNSET.into(), ToString::to_string);
    let columns = columns.as_ref().map(|columns| {
        let columns = columns.iter();
        let columns = columns.map(|column| format!("{}:{}", column.name, column.type_name()));
        columns.collect::<Vec<_>>().join(", ")
    });
    let presence = presence
        .map(|presence| format!("{}, grace {}", presence.of.name(), duration(presence.grace_us)));
    let pointer = keys.pointer.as_ref().map(|pointer| pointer as &dyn Display);
    let mut texts = vec![
        ("kind", kind.name().to_owned()),
        ("history-events", history.events_max.to_string()),
        ("history-bytes", bytes(history.bytes_max)),
        ("history-age", duration(history.age_us_max)),
        ("flush", duration(batch.flush_us)),
        ("batch-events", batch.events_max.to_string()),
        ("batch-bytes", bytes(batch.bytes_max)),
        ("columns", columns.unwrap_or_else(|| "inferred".into())),
        ("presence", presence.unwrap_or_else(|| UNSET.into())),
    ];
    texts.extend([
        ("key", or_unset(pointer)),
        ("keys", keys.count_max.to_string()),
        ("ttl", keys.ttl_us.map_or("never".into(), duration)),
    ]);
    texts
}

fn bytes(bytes: usize) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit = units.iter().find(|(shift, _)| bytes > 0 && bytes.is_multiple_of(1 << shift));
    unit.map_or_else(|| bytes.to_string(), |(shift, unit)| format!("{}{unit}", bytes >> shift))
}

fn duration(us: u64) -> String {
    let units = [(3_600_000_000, "h"), (60_000_000, "m"), (1_000_000, "s"), (1_000, "ms")];
    let unit = units.iter().find(|(size, _)| us > 0 && us.is_multiple_of(*size));
    match unit {
        Some((size, unit)) => format!("{}{unit}", us / size),
        None if us == 0 => "0".to_owned(),
        None => format!("{us}us"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(config: &Config, topic: &str, name: &str) -> (String, String) {
        let settings = config.described(&topic.parse().unwrap());
        let setting = settings.into_iter().find(|setting| setting.name == name).unwrap();
        (setting.value, setting.from)
    }

    #[test]
    fn a_setting_has_the_pattern_that_set_it() {
        let mut config = Config::default();
        config.topic_defaults.history.bytes_max = 16 << 20;
        let mut cars = config.topic_defaults.clone();
        cars.history.age_us_max = 90_000_000;
        config.topics.push(("cars/*".parse().unwrap(), cars));
        let check = |topic, name, expected: (&str, &str)| {
            let (value, from) = from(&config, topic, name);
            assert_eq!((&*value, &*from), expected, "{topic} {name}");
        };
        check("cars/7", "history-age", ("90s", "cars/*"));
        check("cars/7", "history-bytes", ("16MiB", "**"));
        check("cars/7", "batch-bytes", ("63KiB", "default"));
        check("news", "history-age", ("5m", "default"));
        let mut usual = config.topic_defaults.clone();
        usual.history.bytes_max = TopicSettings::default().history.bytes_max;
        config.topics.push(("usual".parse().unwrap(), usual));
        assert_eq!(from(&config, "usual", "history-bytes").1, "usual");
        let check = |topic, name, expected: (&str, &str)| {
            let (value, from) = from(&config, topic, name);
            assert_eq!((&*value, &*from), expected, "{topic} {name}");
        };
        check("news", "history-bytes", ("16MiB", "**"));
        check("news", "ttl", ("never", "default"));
    }

    #[test]
    fn texts_are_those_of_a_settings_file() {
        for (text, expected) in [
            (duration(0), "0"),
            (duration(1_500), "1500us"),
            (duration(250_000), "250ms"),
            (duration(7_200_000_000), "2h"),
            (bytes(1 << 30), "1GiB"),
            (bytes(1_000), "1000"),
            (bytes(0), "0"),
        ] {
            assert_eq!(text, expected);
        }
    }
}
