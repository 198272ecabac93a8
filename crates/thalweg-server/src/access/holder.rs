//! The holder of a token.

use std::{fmt, sync::Arc};

use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use thalweg_token::{Granted, Rights, TopicScope, Topics};

use crate::{
    clock::Now,
    config::{SUBJECT_TICKETS_MAX, Secret, TICKETS_MAX},
    connection_limits::Address,
    rates::Rated,
};

/// A client's identity for limits: a digest of its name, the same on every server.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Identity([u8; 16]);

impl Identity {
    pub(crate) fn new(kind: Kind, name: &str) -> Self {
        let digest = digest(&SHA256, format!("{kind:?} {name}").as_bytes());
        let mut identity = [0; 16];
        identity.copy_from_slice(&digest.as_ref()[..16]);
        Self(identity)
    }

    /// Returns bytes that identify the client on every server.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// The kind of a presented token. Names of different kinds are distinct.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Nobody,
    /// A token of the configuration, which has a name.
    Named,
    /// A signed token, which has a subject.
    Signed,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) identity: Identity,
    pub(super) kind: Kind,
    name: Box<str>,
    pub(super) rights: Rights,
    /// When the token expires, in µs of the server's clock; `u64::MAX` if never.
    pub(crate) ends_us: u64,
    /// The description of the holder for other members of its topics, as JSON. Its token has it.
    pub(crate) info: Option<Box<str>>,
}

impl Holder {
    pub(super) fn nobody(rights: Rights) -> Self {
        Self::new(Kind::Nobody, "", rights, u64::MAX)
    }

    /// Returns the holder of a configured token. The same name with another secret is another holder.
    pub(super) fn named(name: &str, secret: &Secret, rights: Rights) -> Self {
        let holder = Self::new(Kind::Named, name, rights, u64::MAX);
        let secret = digest(&SHA256, secret.as_bytes());
        Self { identity: Identity::new(Kind::Named, &format!("{name} {secret:?}")), ..holder }
    }

    pub(super) fn from_signed(granted: Granted, now: Now) -> Self {
        let left_s = granted.ends_s.saturating_sub(now.unix_s);
        let ends_us = now.us.saturating_add(left_s.saturating_mul(1_000_000));
        let info = granted.info.map(String::into_boxed_str);
        Self { info, ..Self::new(Kind::Signed, &granted.subject, granted.rights, ends_us) }
    }

    fn new(kind: Kind, name: &str, rights: Rights, ends_us: u64) -> Self {
        let (identity, name) = (Identity::new(kind, name), name.into());
        Self { identity, kind, name, rights, ends_us, info: None }
    }

    /// Returns the subject of the signed token; empty without one.
    pub(crate) fn subject(&self) -> &str {
        if self.kind == Kind::Signed { &self.name } else { "" }
    }

    /// Returns the name of the configured token; empty without one.
    pub(crate) fn token(&self) -> &str {
        if self.kind == Kind::Named { &self.name } else { "" }
    }

    /// Returns the subject and the name of the token, for the log.
    pub(crate) fn names(&self) -> [&str; 2] {
        [self.subject(), self.token()]
    }

    pub(crate) fn is_nobody(&self) -> bool {
        self.kind == Kind::Nobody
    }

    pub(crate) fn is_over(&self, now_us: u64) -> bool {
        self.ends_us <= now_us
    }

    /// Returns the subject and address whose rate limits apply. None apply to the holder of a configured token.
    pub(crate) fn rated(&self, address: Option<Address>) -> Option<Rated> {
        match self.kind {
            Kind::Named => None,
            Kind::Nobody => address.map(|address| Rated { subject: None, address: Some(address) }),
            Kind::Signed => {
                Some(Rated { subject: Some(u128::from_be_bytes(self.identity.0)), address })
            }
        }
    }

    /// Returns the maximum number of unused tickets. A configured token's holder requests them for others, a subject only for its own tabs.
    pub(crate) fn tickets_max(&self) -> usize {
        if self.kind == Kind::Signed { SUBJECT_TICKETS_MAX } else { TICKETS_MAX }
    }

    /// Returns the remaining lifetime of the token in seconds, if it expires.
    pub(crate) fn left_s(&self, now_us: u64) -> Option<u64> {
        (self.ends_us != u64::MAX).then(|| self.ends_us.saturating_sub(now_us) / 1_000_000)
    }
}

/// A holder, as a ticket carries it between servers.
#[derive(Serialize, Deserialize)]
struct Carried {
    kind: Kind,
    name: String,
    identity: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    ends_s: Option<u64>,
    subscribe: Vec<String>,
    publish: Vec<String>,
    inspect: Vec<String>,
    admin: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    info: Option<Box<str>>,
}

impl Holder {
    /// Returns the text that [`Self::from_text`] parses on any server that shares the tickets.
    pub(crate) fn to_text(&self, now: Now) -> String {
        fn texts(topics: &Topics) -> Vec<String> {
            topics.scopes().iter().map(ToString::to_string).collect()
        }
        let carried = Carried {
            kind: self.kind,
            name: self.name.to_string(),
            identity: format!("{:?}", self.identity),
            ends_s: self.left_s(now.us).map(|left_s| now.unix_s + left_s),
            subscribe: texts(&self.rights.subscribe),
            publish: texts(&self.rights.publish),
            inspect: texts(&self.rights.inspect),
            admin: self.rights.admin,
            info: self.info.clone(),
        };
        // Every value has a JSON form.
        serde_json::to_string(&carried).unwrap_or_default()
    }

    /// Parses a holder. Returns `None` if another release wrote the text differently.
    pub(crate) fn from_text(text: &str, now: Now) -> Option<Arc<Self>> {
        let carried: Carried = serde_json::from_str(text).ok()?;
        let topics = |texts: Vec<String>| -> Option<Topics> {
            texts.into_iter().map(|text| text.parse::<TopicScope>().ok()).collect()
        };
        let rights = Rights {
            subscribe: topics(carried.subscribe)?,
            publish: topics(carried.publish)?,
            inspect: topics(carried.inspect)?,
            admin: carried.admin,
        };
        let identity = u128::from_str_radix(&carried.identity, 16).ok()?;
        let ends_us = carried.ends_s.map_or(u64::MAX, |ends_s| {
            let left_s = ends_s.saturating_sub(now.unix_s);
            now.us.saturating_add(left_s.saturating_mul(1_000_000))
        });
        Some(Arc::new(Self {
            identity: Identity(identity.to_be_bytes()),
            kind: carried.kind,
            name: carried.name.into(),
            rights,
            ends_us,
            info: carried.info,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_the_same_on_every_server() {
        let now = Now { us: 5_000_000, unix_s: 1_800_000_000 };
        let topics = |text: &str| Topics::from_iter([text.parse::<TopicScope>().unwrap()]);
        let rights =
            Rights { subscribe: topics("a/*"), inspect: Topics::all(), ..Rights::default() };
        let granted = Granted {
            subject: "\"alice\"\\".to_owned(),
            ends_s: now.unix_s + 60,
            rights: rights.clone(),
            info: Some(r#"{"name":"Alice"}"#.to_owned()),
        };
        let admin = Rights { admin: true, publish: topics("b?key=c"), ..rights.clone() };
        for holder in [
            Holder::from_signed(granted, now),
            Holder::named("x", &Secret::new("secret"), admin),
            Holder::nobody(rights),
        ] {
            // Clocks with other origins.
            let there = Now { us: 77_000_000, unix_s: now.unix_s + 10 };
            let found = Holder::from_text(&holder.to_text(now), there).unwrap();
            assert_eq!(
                (found.identity, found.kind, &found.name),
                (holder.identity, holder.kind, &holder.name)
            );
            assert_eq!((&found.rights, &found.info), (&holder.rights, &holder.info));
            assert_eq!(found.left_s(there.us), holder.left_s(now.us).map(|left_s| left_s - 10));
        }
        assert_eq!(Holder::from_text("subscriber", now), None);
        let named = |secret| Holder::named("x", &Secret::new(secret), Rights::default()).identity;
        assert_ne!(named("one"), named("other"));
        assert_ne!(named("one"), Identity::new(Kind::Signed, "x"));
    }
}
