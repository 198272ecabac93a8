use std::{fmt, str::FromStr};

use thalweg_wire::{KeyFilter, Pattern, Topic, pattern::PatternError};

/// The rights of a holder: the topics of each right.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rights {
    /// Topics to subscribe to, to read and to query.
    pub subscribe: Topics,
    /// Topics to publish to and to delete.
    pub publish: Topics,
    /// Topics to show in the list of topics. The right to all topics includes `/metrics`.
    pub inspect: Topics,
    /// Whether the holder may close connections of others.
    pub admin: bool,
}

impl Rights {
    /// Returns all rights to all topics.
    pub fn all() -> Self {
        let [subscribe, publish, inspect] = [Topics::all(), Topics::all(), Topics::all()];
        Self { subscribe, publish, inspect, admin: true }
    }

    /// Returns the right to subscribe to all topics.
    pub fn to_subscribe() -> Self {
        Self { subscribe: Topics::all(), ..Self::default() }
    }
}

/// Topics that match one of the patterns, some of them only with certain keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Topics(Box<[TopicScope]>);

/// A pattern of topics, and the keys of these topics to which a right is limited, if it is: `PATTERN`, `PATTERN?key=KEY`, or
/// `PATTERN?prefix=PREFIX`. The text after `=` is not decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicScope {
    pattern: Pattern,
    limit: Option<KeyLimit>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct KeyLimit {
    text: Box<str>,
    keys: KeyFilter,
}

impl Topics {
    /// Returns all topics.
    pub fn all() -> Self {
        Self::from_iter([Pattern::all().into()])
    }

    /// Returns whether a topic is among these topics, with all its keys.
    pub fn contain(&self, topic: &Topic) -> bool {
        self.0.iter().any(|scope| scope.limit.is_none() && scope.pattern.matches(topic))
    }

    /// Returns the keys of a topic to which patterns are limited.
    pub fn keys_of<'a>(&'a self, topic: &'a Topic) -> impl Iterator<Item = &'a KeyFilter> + Clone {
        let matching = self.0.iter().filter(|scope| scope.pattern.matches(topic));
        matching.filter_map(|scope| scope.limit.as_ref()).map(|limit| &limit.keys)
    }

    /// Returns whether these are all topics.
    pub fn are_all(&self) -> bool {
        self.0.iter().any(|scope| scope.limit.is_none() && scope.pattern.is_all())
    }

    /// Returns whether these are no topics.
    pub fn are_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a pattern is limited to keys.
    pub fn have_limits(&self) -> bool {
        self.0.iter().any(|scope| scope.limit.is_some())
    }

    /// Returns the patterns of the topics with all their keys.
    pub fn patterns(&self) -> impl Iterator<Item = &Pattern> {
        self.0.iter().filter(|scope| scope.limit.is_none()).map(|scope| &scope.pattern)
    }

    /// Returns the patterns with their limits.
    pub fn scopes(&self) -> &[TopicScope] {
        &self.0
    }
}

impl From<Pattern> for TopicScope {
    fn from(pattern: Pattern) -> Self {
        Self { pattern, limit: None }
    }
}

impl FromIterator<TopicScope> for Topics {
    fn from_iter<I: IntoIterator<Item = TopicScope>>(scopes: I) -> Self {
        Self(scopes.into_iter().collect())
    }
}

impl FromStr for TopicScope {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (pattern, limit) = match text.split_once('?') {
            Some((pattern, limit)) => (pattern, Some(limit.parse()?)),
            None => (text, None),
        };
        let pattern = pattern.parse().map_err(|error: PatternError| error.to_string())?;
        Ok(Self { pattern, limit })
    }
}

impl FromStr for KeyLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let keys = match text.split_once('=') {
            Some(("key", key)) => KeyFilter::new(&[key], None),
            Some(("prefix", prefix)) => KeyFilter::new(&[], Some(prefix)),
            _ => return Err("write ?key=KEY or ?prefix=PREFIX after the pattern".to_owned()),
        };
        // A filter with a key or a prefix is not empty.
        let keys = keys.map_err(|error| error.to_string())?.ok_or("the key is missing")?;
        Ok(Self { text: text.into(), keys })
    }
}

impl fmt::Display for TopicScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.limit {
            Some(limit) => write!(f, "{}?{}", self.pattern, limit.text),
            None => self.pattern.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topics(texts: &[&str]) -> Topics {
        texts.iter().map(|text| text.parse::<TopicScope>().expect("a pattern")).collect()
    }

    #[test]
    fn a_pattern_may_be_limited_to_keys() {
        let topic = |text: &str| text.parse::<Topic>().expect("a topic");
        let texts = ["news/*", "users?key=al=ice?", "users/*?prefix=a,b/"];
        let topics = topics(&texts);
        assert!(topics.contain(&topic("news/1")) && !topics.contain(&topic("users")));
        let has = |name: &str, key: &str| {
            topics.keys_of(&topic(name)).any(|keys| keys.matches(key.as_bytes()))
        };
        assert!(has("users", r#""al=ice?""#) && !has("users", r#""al""#));
        assert!(has("users/x", r#""a,b/c""#) && !has("users/x", r#""a,b""#));
        assert!(!has("news/1", r#""a""#));
        let written: Vec<String> = topics.scopes().iter().map(ToString::to_string).collect();
        assert_eq!(written, texts);
        assert!(topics.have_limits() && !topics.are_all());
        assert_eq!(topics.patterns().count(), 1);
        let all = super::tests::topics(&["**?prefix=x"]);
        assert!(!all.are_all() && !all.are_none());
    }

    #[test]
    fn a_limit_is_a_key_or_a_prefix() {
        for wrong in ["a?", "a?key", "a?key=", "a?prefix=", "a?keys=b", "?key=b", "a?key=\n"] {
            assert!(wrong.parse::<TopicScope>().is_err(), "{wrong}");
        }
    }
}
