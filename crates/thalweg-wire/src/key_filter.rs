//! Filters that select keys of a keyed topic. Form: `docs/reference/subscribing.md`, "Keys".

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::{
    key::{KeyError, check_key, push_key},
    limits::{FILTER_BYTES_MAX, FILTER_KEYS_MAX},
};

/// Some keys of a keyed topic, and perhaps all keys with a prefix. Subscribers with equal filters get the same bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyFilter {
    /// JSON strings, sorted, each once, without those that have the prefix.
    keys: Box<[Box<[u8]>]>,
    /// A JSON string without its last quote.
    prefix: Option<Box<[u8]>>,
    hash: u64,
}

/// The reason why a filter is invalid: one sentence with the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// A key or the prefix cannot be a key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The filter has too many keys.
    #[error("a filter has at most {FILTER_KEYS_MAX} keys: use a prefix, or subscribe to all keys")]
    TooMany,
    /// The keys have too many bytes.
    #[error("the keys of a filter have at most {FILTER_BYTES_MAX} bytes: name fewer keys")]
    TooLarge,
}

impl KeyFilter {
    /// Returns the filter of these keys and this prefix. `None` if there are none.
    ///
    /// # Errors
    /// When a key is invalid, or there are too many.
    pub fn new(keys: &[&str], prefix: Option<&str>) -> Result<Option<Self>, FilterError> {
        if keys.is_empty() && prefix.is_none() {
            return Ok(None);
        }
        keys.iter().copied().chain(prefix).try_for_each(check_key)?;
        if keys.len() > FILTER_KEYS_MAX {
            return Err(FilterError::TooMany);
        }
        let is_named = |key: &&&str| prefix.is_none_or(|prefix| !key.starts_with(prefix));
        let mut named: Vec<Box<[u8]>> =
            keys.iter().filter(is_named).map(|key| json(key).into()).collect();
        named.sort_unstable();
        named.dedup();
        let prefix = prefix.map(|prefix| {
            let mut json = json(prefix);
            json.pop();
            Box::from(json)
        });
        let bytes: usize = named.iter().chain(&prefix).map(|key| key.len()).sum();
        if bytes > FILTER_BYTES_MAX {
            return Err(FilterError::TooLarge);
        }
        let mut hasher = DefaultHasher::new();
        (&named, &prefix).hash(&mut hasher);
        Ok(Some(Self { keys: named.into(), prefix, hash: hasher.finish() }))
    }

    /// Returns whether the filter selects a key, given as the JSON string of an envelope.
    pub fn matches(&self, key: &[u8]) -> bool {
        let has_prefix = self.prefix.as_ref().is_some_and(|prefix| key.starts_with(prefix));
        has_prefix || self.keys.binary_search_by(|own| (**own).cmp(key)).is_ok()
    }

    /// Returns whether the filters together select each key that this filter selects.
    pub fn is_within_all<'a>(&self, others: &(impl Iterator<Item = &'a Self> + Clone)) -> bool {
        let is_covered = |prefix: &[u8]| {
            others.clone().filter_map(|other| other.prefix()).any(|own| prefix.starts_with(own))
        };
        self.keys.iter().all(|key| others.clone().any(|other| other.matches(key)))
            && self.prefix().is_none_or(is_covered)
    }

    /// Returns the keys, as JSON strings, without those that have the prefix.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.keys.iter().map(|key| &**key)
    }

    /// Returns the prefix, as a JSON string without its last quote.
    pub fn prefix(&self) -> Option<&[u8]> {
        self.prefix.as_deref()
    }

    /// Returns the memory of the filter, in bytes.
    pub fn memory_bytes(&self) -> usize {
        // The allocation of a key, and its place in the list.
        const OVERHEAD: usize = 32;
        let texts = self.keys.iter().chain(&self.prefix);
        size_of::<Self>() + texts.map(|text| text.len() + OVERHEAD).sum::<usize>()
    }
}

impl Hash for KeyFilter {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

fn json(key: &str) -> Vec<u8> {
    let mut json = Vec::with_capacity(key.len() + 2);
    push_key(key, &mut json);
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(keys: &[&str], prefix: Option<&str>) -> KeyFilter {
        KeyFilter::new(keys, prefix).expect("valid").expect("not empty")
    }

    #[test]
    fn a_filter_selects_its_keys_and_those_with_its_prefix() {
        let filter = filter(&["b", "a\"", "b", "x/1"], Some("x/\\"));
        for (key, is_selected) in [
            ("b", true),
            ("a\"", true),
            ("x/1", true),
            ("x/\\", true),
            ("x/\\\"y", true),
            ("a", false),
            ("bb", false),
            ("x/", false),
            ("x/2", false),
            ("", false),
        ] {
            assert_eq!(filter.matches(&json(key)), is_selected, "{key}");
        }
        assert_eq!(filter.keys().count(), 3);
    }

    #[test]
    fn equal_filters_have_equal_hashes() {
        let hash = |filter: &KeyFilter| {
            let mut hasher = DefaultHasher::new();
            filter.hash(&mut hasher);
            hasher.finish()
        };
        let one = filter(&["a", "b", "pa"], Some("p"));
        let other = filter(&["b", "a", "a"], Some("p"));
        assert_eq!((&one, hash(&one)), (&other, hash(&other)));
        assert_ne!(one, filter(&["a", "b"], None));
    }

    #[test]
    fn filters_are_bounded() {
        assert_eq!(KeyFilter::new(&[], None), Ok(None));
        let bad = Err(FilterError::Key(KeyError::BadText));
        assert_eq!(KeyFilter::new(&[""], None), bad);
        assert_eq!(KeyFilter::new(&["a"], Some("")), bad);
        let keys: Vec<String> = (0..=FILTER_KEYS_MAX).map(|n| n.to_string()).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        assert_eq!(KeyFilter::new(&keys, None), Err(FilterError::TooMany));
        assert!(KeyFilter::new(&keys[1..], None).is_ok());
        let long: Vec<String> = (0..99).map(|n| format!("{n:0>200}")).collect();
        let long: Vec<&str> = long.iter().map(String::as_str).collect();
        assert_eq!(KeyFilter::new(&long, None), Err(FilterError::TooLarge));
    }

    #[test]
    fn a_filter_is_within_others_that_select_all_its_keys() {
        let check = |one: &KeyFilter, others: &[KeyFilter], expected: bool| {
            assert_eq!(one.is_within_all(&others.iter()), expected, "{one:?} {others:?}");
        };
        let alice = filter(&["alice"], None);
        let bob = filter(&["bob"], None);
        let both = filter(&["alice", "bob"], None);
        let letters = filter(&[], Some("a"));
        check(&alice, std::slice::from_ref(&both), true);
        check(&both, std::slice::from_ref(&alice), false);
        check(&both, &[alice.clone(), bob.clone()], true);
        check(&both, &[letters.clone(), bob.clone()], true);
        check(&alice, &[], false);
        check(&letters, &[both], false);
        check(&filter(&[], Some("al")), std::slice::from_ref(&letters), true);
        check(&letters, &[filter(&[], Some("al"))], false);
        check(&filter(&["bob"], Some("al")), &[letters, bob], true);
    }
}
