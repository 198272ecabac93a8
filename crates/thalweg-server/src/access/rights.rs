//! What a token lets its holder do, and who that is.

use std::fmt;

use ring::digest::{SHA256, digest};
use thalweg_wire::{Pattern, Topic};

/// What somebody may do: to which topics each right is given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Rights {
    /// Topics to subscribe to, to read, and to ask queries of.
    pub(crate) subscribe: Topics,
    /// Topics to publish to, and to delete.
    pub(crate) publish: Topics,
    /// Topics that the list of topics shows. Of all topics: `/metrics`, too.
    pub(crate) inspect: Topics,
}

/// Topics, by patterns: those that one of them means.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Topics(Box<[Pattern]>);

impl Topics {
    /// Every topic there is.
    pub(crate) fn all() -> Self {
        Self::from_iter([Pattern::all()])
    }

    /// Whether a topic is one of them.
    pub(crate) fn contain(&self, topic: &Topic) -> bool {
        self.0.iter().any(|pattern| pattern.matches(topic))
    }

    /// Whether these are all topics.
    pub(crate) fn are_all(&self) -> bool {
        self.0.iter().any(Pattern::is_all)
    }

    /// Whether there are none.
    pub(crate) fn are_none(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<Pattern> for Topics {
    fn from_iter<I: IntoIterator<Item = Pattern>>(patterns: I) -> Self {
        Self(patterns.into_iter().collect())
    }
}

/// Who a client is, as limits are counted: a digest of the holder's name, the same on every server.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Identity([u8; 16]);

impl Identity {
    /// The identity of whose token has this name.
    pub(crate) fn of(name: &str) -> Self {
        let mut identity = [0; 16];
        identity.copy_from_slice(&digest(&SHA256, name.as_bytes()).as_ref()[..16]);
        Self(identity)
    }

    /// The bytes that name it on every server.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// Somebody who presented a token, or none.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) identity: Identity,
    /// The token's name.
    name: Box<str>,
    pub(super) rights: Rights,
}

impl Holder {
    pub(super) fn new(name: &str, rights: Rights) -> Self {
        Self { identity: Identity::of(name), name: name.into(), rights }
    }

    /// The name of the token, which stays the same in all releases.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}
