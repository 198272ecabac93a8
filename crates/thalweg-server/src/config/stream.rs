use std::time::Duration;

use thalweg_wire::Pattern;

use super::Options;
use thalweg_core::stream::FeedKind;

/// `NAME=PATTERN,key=value,…`: a stream of the backend, as it is created, and must be if it is there.
#[derive(Clone, Debug)]
pub struct StreamConfig {
    /// What operators see.
    pub name: String,
    /// The topics in it.
    pub pattern: Pattern,
    /// What subscriptions to them read: of value topics the newest version is kept, for ever.
    pub kind: FeedKind,
    /// On how many servers of NATS each event is.
    pub replicas: usize,
    /// How long events are kept, but for value topics.
    pub age: Duration,
    /// How many bytes at most, on each replica: above that the oldest events go; of value topics no
    /// more versions are taken.
    pub bytes: Option<u64>,
}

impl StreamConfig {
    /// Reads `NAME=PATTERN,key=value,…`.
    ///
    /// # Errors
    /// One sentence saying what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, rest) = text.split_once('=').ok_or(
            "a stream is NAME=PATTERN,key=value,…, for instance live=live/**,replicas=3,age=1h",
        )?;
        let (pattern, options) = rest.split_once(',').unwrap_or((rest, ""));
        let pattern = pattern.parse().map_err(|error| format!("pattern {pattern:?}: {error}"))?;
        let options = Options::parse(options)?;
        options.check_keys(&["kind", "replicas", "age", "bytes"])?;
        let kind = options.kind()?.unwrap_or_default();
        let replicas = options.number("replicas")?.unwrap_or(3);
        if ![1, 3, 5].contains(&replicas) {
            return Err(format!("replicas: 1, 3 or 5, and not {replicas}"));
        }
        let age = options.duration("age")?;
        if kind == FeedKind::Value && age.is_some() {
            return Err("age: with kind=value a version is kept until there is another".to_owned());
        }
        let age = age.unwrap_or(Duration::from_secs(60 * 60));
        let bytes = options.bytes("bytes")?.map(|bytes| bytes as u64);
        let (name, replicas) = (name.to_owned(), replicas as usize);
        Ok(Self { name, pattern, kind, replicas, age, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_a_name_and_a_pattern_and_what_it_keeps() {
        let plain = StreamConfig::parse("live=live/**").unwrap();
        assert_eq!((&*plain.name, plain.pattern.as_str()), ("live", "live/**"));
        assert_eq!((plain.replicas, plain.age.as_secs(), plain.bytes), (3, 3600, None));
        let set = StreamConfig::parse("live=**,replicas=1,age=10m,bytes=1GiB").unwrap();
        assert_eq!((set.replicas, set.age.as_secs(), set.bytes), (1, 600, Some(1 << 30)));
        let values = StreamConfig::parse("scores=live/**,kind=value").unwrap();
        assert_eq!((plain.kind, values.kind), (FeedKind::Log, FeedKind::Value));
        let wrong = |text: &str| StreamConfig::parse(text).unwrap_err();
        assert!(wrong("live").contains("NAME=PATTERN"));
        assert!(wrong("live=a//b").contains("pattern"));
        assert!(wrong("live=**,replicas=2").contains("1, 3 or 5"));
        assert!(wrong("live=**,kind=value,age=1h").contains("until there is another"));
        assert!(wrong("live=**,kind=other").contains("log, value"));
        assert!(wrong("live=**,replica=3").contains("replicas"));
    }
}
