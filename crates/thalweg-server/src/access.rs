//! The access policy. Contract: `docs/reference/access.md`.
//!
//! Every request passes three checks here:
//!
//! ```text
//! admit       is it for this server, and from a web page that may use it?
//! identify    whose token does it present? (the keeper of tickets resolves a ticket)
//! authorise   may that holder subscribe to this topic, publish to that one?
//! ```
//!
//! Pure except for the random numbers of tickets: the shard passes the time in.

mod cors;
mod holder;
mod holders;
mod host;
mod keys;
mod origin;
mod signed;
#[cfg(test)]
mod tests;
mod ticket;
mod token;

use std::{collections::HashMap, net::SocketAddr, ops::Deref, sync::Arc};

use http::request::Parts;
use rustls::crypto::SecureRandom;
use thalweg_token::{Rights, TopicScope, Topics};
use thalweg_wire::{ErrorCode, Excerpt, KeyFilter, Topic, key::push_key};

use crate::{
    config::{AD_HOC_TOPICS, Access},
    derived::AdHocQueries,
    refusal::Refusal,
};
use host::{HostPort, Hosts, OwnNames, RequestedHost};
use origin::Origins;
use ticket::Digests;

pub(crate) use cors::Admitted;
pub(crate) use holder::{Holder, Identity, Kind};
pub(crate) use holders::{Holders, Unidentified};
pub(crate) use keys::{KeysEnd, PublishedKeys};
pub(crate) use ticket::{IssueRates, TICKET_LIFE_S, Ticket, Tickets};

pub(crate) struct AccessPolicy {
    hosts: Hosts,
    origins: Origins,
    pub(crate) holders: Holders,
    made_of: MadeOf,
    random: &'static dyn SecureRandom,
    digests: Digests,
}

/// Topics derived from others: reading such a topic needs the right to its sources.
#[derive(Clone, Default)]
pub(crate) struct MadeOf {
    /// The topics of the configuration's queries, each with its source.
    pub(crate) configured: Arc<HashMap<Topic, Topic>>,
    /// The ad hoc queries of clients.
    pub(crate) ad_hoc: Arc<AdHocQueries>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Right<'a> {
    /// Subscribe to keys of a topic, read its history or ack its events.
    Subscribe(&'a Topic, WantedKeys<'a>),
    /// Write a key of a topic. Without a key: publish anything to the topic, or delete it.
    Publish(&'a Topic, Option<&'a str>),
    ViewRuns,
    /// List topics: those that the holder may inspect.
    ViewTopics,
    /// See a topic's settings.
    ViewTopic(&'a Topic),
    /// Read `/metrics`, which covers all topics.
    ViewMetrics,
    /// See what a subject does, in all topics.
    TraceSubject,
    /// Close connections of others.
    Administer,
}

/// The keys of a topic that a holder wants to read.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WantedKeys<'a> {
    /// All keys, or a topic without keys.
    All,
    /// The keys that a filter selects.
    Selected(&'a KeyFilter),
    /// Any keys that the holder may read.
    Any,
}

impl<'a> From<Option<&'a KeyFilter>> for WantedKeys<'a> {
    fn from(filter: Option<&'a KeyFilter>) -> Self {
        filter.map_or(Self::All, Self::Selected)
    }
}

/// A request for something that needs rights.
pub(crate) trait Wanted {
    fn rights(&self) -> impl Iterator<Item = Right<'_>>;
}

/// A value to which the client has the rights. Only the access policy creates it, and protected functions take nothing
/// else, so no code path can forget the check.
#[derive(Debug)]
pub(crate) struct Allowed<T> {
    wanted: T,
}

impl<T> Allowed<T> {
    pub(crate) fn into_inner(self) -> T {
        self.wanted
    }
}

impl<T> Deref for Allowed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.wanted
    }
}

impl<T: Wanted> Wanted for Box<T> {
    fn rights(&self) -> impl Iterator<Item = Right<'_>> {
        (**self).rights()
    }
}

/// A topic whose events, history or columns a client requests.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) topic: Topic,
    /// The keys that the client requests. `None`: all.
    pub(crate) filter: Option<Arc<KeyFilter>>,
}

impl Reading {
    pub(crate) fn all(topic: Topic) -> Self {
        Self { topic, filter: None }
    }
}

impl Wanted for Reading {
    fn rights(&self) -> impl Iterator<Item = Right<'_>> {
        [Right::Subscribe(&self.topic, self.filter.as_deref().into())].into_iter()
    }
}

/// A topic to publish to, or to delete.
#[derive(Debug, Clone)]
pub(crate) struct Writing {
    pub(crate) topic: Topic,
    /// The only key that is written, if the client names one.
    pub(crate) key: Option<Box<str>>,
}

impl Wanted for Writing {
    fn rights(&self) -> impl Iterator<Item = Right<'_>> {
        [Right::Publish(&self.topic, self.key.as_deref())].into_iter()
    }
}

/// A topic whose settings a client requests.
#[derive(Debug)]
pub(crate) struct ViewTopic(pub(crate) Topic);

impl Wanted for ViewTopic {
    fn rights(&self) -> impl Iterator<Item = Right<'_>> {
        [Right::ViewTopic(&self.0)].into_iter()
    }
}

#[derive(Debug)]
pub(crate) struct ViewRuns;

impl Wanted for ViewRuns {
    fn rights(&self) -> impl Iterator<Item = Right<'_>> {
        [Right::ViewRuns].into_iter()
    }
}

#[derive(Debug)]
pub(crate) struct Administering;

impl Wanted for Administering {
    fn rights(&self) -> impl Iterator<Item = Right<'_>> {
        [Right::Administer].into_iter()
    }
}

#[derive(Debug)]
pub(crate) struct ViewMetrics;

impl Wanted for ViewMetrics {
    fn rights(&self) -> impl Iterator<Item = Right<'_>> {
        [Right::ViewMetrics].into_iter()
    }
}

/// A subject whose actions a client wants to see.
#[derive(Debug)]
pub(crate) struct TraceSubject(pub(crate) Box<str>);

impl Wanted for TraceSubject {
    fn rights(&self) -> impl Iterator<Item = Right<'_>> {
        [Right::TraceSubject].into_iter()
    }
}

impl AccessPolicy {
    /// Returns the access policy of a server that listens on `listen`. `published` has the keys at the configured URL. The error
    /// is one sentence that tells the user what to set.
    pub(crate) fn new(
        access: &Access,
        listen: SocketAddr,
        made_of: MadeOf,
        published: Option<Arc<PublishedKeys>>,
    ) -> Result<Self, String> {
        let is_loopback = listen.ip().to_canonical().is_loopback();
        if !is_loopback && !access.limits_publishers() {
            return Err(format!(
                "{listen} is reachable from other machines: set --token or --jwt-key to say which clients may \
                 publish, or allow all with --token everybody,subscribe=**,publish=**"
            ));
        }
        Ok(Self {
            hosts: Hosts::new(
                if is_loopback { OwnNames::Loopback } else { OwnNames::All },
                &access.hosts,
            )?,
            origins: Origins::new(&access.origins)?,
            holders: Holders::new(access, listen, published)?,
            made_of,
            random: rustls::crypto::ring::default_provider().secure_random,
            digests: Digests::new(access),
        })
    }

    /// Returns the access policy of the admin listener, where everybody may inspect and administer. `access` is that
    /// of the other listener, with the host names of the server.
    ///
    /// # Errors
    /// Same as [`AccessPolicy::new`].
    pub(crate) fn new_admin(listen: SocketAddr, access: &Access) -> Result<Self, String> {
        let inspect = Rights { inspect: Topics::all(), admin: true, ..Rights::default() };
        let own = Access { everybody: Some(inspect), ..Access::default() };
        let is_loopback = listen.ip().to_canonical().is_loopback();
        let names = if is_loopback { OwnNames::Loopback } else { OwnNames::Addresses };
        let hosts = Hosts::new(names, &access.hosts)?;
        Ok(Self { hosts, ..Self::new(&own, listen, MadeOf::default(), None)? })
    }

    /// Admits a request for this server, unless it comes from a web page of a forbidden origin. Call it first for every
    /// request. `is_https` tells whether the client is known to use TLS. Fails with `BadHost`, `BadOrigin`, or, for more than one
    /// `Host`, `BadParameter`.
    pub(crate) fn admit(&self, request: &Parts, is_https: bool) -> Result<Admitted, Refusal> {
        let requested = HostPort::from_request(request)?;
        self.hosts.check(&requested)?;
        let own = if let RequestedHost::For(host) = &requested { Some(host) } else { None };
        self.origins.check(request, own, is_https)
    }

    /// Returns `wanted` as allowed if `holder` has the rights to it. Every protected action passes through here: each topic of a
    /// subscription, each command, each read, each list. Fails with `Unauthorized` or `Forbidden`.
    pub(crate) fn allow<T: Wanted>(
        &self,
        holder: &Holder,
        wanted: T,
    ) -> Result<Allowed<T>, Refusal> {
        wanted.rights().try_for_each(|right| self.authorise(holder, right))?;
        Ok(Allowed { wanted })
    }

    /// Checks that a holder has a right. [`Self::allow`] checks this first; callers check again when rights may have changed. Fails
    /// with `Unauthorized` without a token, and `Forbidden` with one. Neither tells whether the topic exists.
    pub(crate) fn authorise(&self, holder: &Holder, right: Right<'_>) -> Result<(), Refusal> {
        let has = |has: fn(&Rights, &Topic) -> bool, topic: &Topic| {
            has(&holder.rights, topic) || has(&self.holders.everybody.rights, topic)
        };
        let is = |is: fn(&Rights) -> bool| is(&holder.rights) || is(&self.holders.everybody.rights);
        let may = match right {
            Right::Publish(topic, key) => {
                has(|rights, topic| rights.publish.contain(topic), topic)
                    || key.is_some_and(|key| self.may_write_key(holder, topic, key))
            }
            Right::Subscribe(topic, keys) => self.may_read(holder, topic, keys),
            Right::ViewRuns => is(|rights| rights.subscribe.are_all()),
            Right::ViewTopic(topic) => {
                let may_inspect =
                    |topic: &Topic| has(|rights, topic| rights.inspect.contain(topic), topic);
                // The origin of rows has the query, which names its source.
                may_inspect(topic) && self.made_of.configured.get(topic).is_none_or(may_inspect)
            }
            Right::ViewTopics => is(|rights| !rights.inspect.are_none()),
            Right::ViewMetrics | Right::TraceSubject => is(|rights| rights.inspect.are_all()),
            Right::Administer => is(|rights| rights.admin),
        };
        if may {
            return Ok(());
        }
        let topic = match right {
            Right::Subscribe(topic, _) | Right::Publish(topic, _) | Right::ViewTopic(topic) => {
                topic.as_str()
            }
            _ => "",
        };
        Err(self.refusal(holder, right).with_subject(holder.names(), topic))
    }

    fn may_write_key(&self, holder: &Holder, topic: &Topic, key: &str) -> bool {
        let mut json = Vec::new();
        push_key(key, &mut json);
        let [own, all] = [&holder.rights.publish, &self.holders.everybody.rights.publish];
        own.keys_of(topic).chain(all.keys_of(topic)).any(|keys| keys.matches(&json))
    }

    /// Returns whether a holder may read the event of a key.
    pub(crate) fn may_read_key(&self, holder: &Holder, topic: &Topic, key: Option<&str>) -> bool {
        let filter = key.and_then(|key| KeyFilter::new(&[key], None).ok().flatten());
        self.may_read(holder, topic, WantedKeys::from(filter.as_ref()))
    }

    fn may_read(&self, holder: &Holder, topic: &Topic, keys: WantedKeys<'_>) -> bool {
        let [own, all] = [&holder.rights.subscribe, &self.holders.everybody.rights.subscribe];
        if topic.as_str().starts_with(AD_HOC_TOPICS) {
            // The topic's name does not tell its source.
            return match self.made_of.ad_hoc.source_of(topic) {
                Some(source) => self.may_read(holder, &source, WantedKeys::All),
                None => own.are_all() || all.are_all(),
            };
        }
        let source = self.made_of.configured.get(topic);
        let mut limits = own.keys_of(topic).chain(all.keys_of(topic));
        let may_read_keys = match keys {
            _ if own.contain(topic) || all.contain(topic) => true,
            WantedKeys::All => false,
            WantedKeys::Selected(filter) => filter.is_within_all(&limits),
            WantedKeys::Any => limits.next().is_some(),
        };
        may_read_keys
            // The recursion ends: no query reads its own rows.
            && source.is_none_or(|source| self.may_read(holder, source, WantedKeys::All))
    }

    fn refusal(&self, holder: &Holder, right: Right<'_>) -> Refusal {
        if let Right::ViewTopics | Right::ViewTopic(_) | Right::ViewMetrics | Right::TraceSubject =
            right
            && !self.holders.has_tokens()
        {
            return Refusal::unauthorized(
                "no client may see the topics and metrics of this server: start it with \
                 --admin-listen, or with a --token that has inspect=**",
            );
        }
        let everybody = &self.holders.everybody.rights;
        let is_limited = |has: fn(&Rights) -> &Topics, topic: &Topic| {
            [has(&holder.rights), has(everybody)]
                .iter()
                .any(|own| own.keys_of(topic).next().is_some())
        };
        let (doing, claim) = match right {
            Right::Publish(topic, None) if is_limited(|rights| &rights.publish, topic) => (
                format!("publishing to {} without key=", Excerpt(topic.as_str())),
                "publish patterns match it and have no ?key= or ?prefix=",
            ),
            Right::Publish(topic, Some(key)) if is_limited(|rights| &rights.publish, topic) => (
                format!("writing the key {:?} of {}", Excerpt(key), Excerpt(topic.as_str())),
                "publish patterns match both",
            ),
            Right::Publish(topic, _) => {
                (format!("publishing to {}", Excerpt(topic.as_str())), "publish patterns match it")
            }
            Right::Subscribe(topic, WantedKeys::All)
                if is_limited(|rights| &rights.subscribe, topic) =>
            {
                (
                    format!("reading {} without key= or prefix=", Excerpt(topic.as_str())),
                    "subscribe patterns match it and have no ?key= or ?prefix=",
                )
            }
            Right::Subscribe(topic, _) if is_limited(|rights| &rights.subscribe, topic) => (
                format!("reading these keys of {}", Excerpt(topic.as_str())),
                "subscribe patterns match all of them",
            ),
            Right::Subscribe(topic, _) => (
                format!("subscribing to {}", Excerpt(topic.as_str())),
                "subscribe patterns match it and, if it has the rows of a query, the topic that the query reads",
            ),
            Right::ViewRuns => ("viewing runs".to_owned(), "subscribe has \"**\""),
            Right::ViewTopic(topic) => (
                format!("viewing the settings of {}", Excerpt(topic.as_str())),
                "inspect patterns match it and, if it has the rows of a query, the topic that the query reads",
            ),
            Right::ViewTopics => ("the list of topics".to_owned(), "inspect has a pattern"),
            Right::ViewMetrics => ("viewing the metrics".to_owned(), "inspect has \"**\""),
            Right::TraceSubject => ("tracing a subject".to_owned(), "inspect has \"**\""),
            Right::Administer => ("closing connections".to_owned(), "admin is true"),
        };
        match holder.kind {
            Kind::Nobody => Refusal::unauthorized(format!(
                "{doing} needs a token: send Authorization: Bearer TOKEN"
            )),
            Kind::Named | Kind::Signed => {
                Refusal::new(ErrorCode::Forbidden, format!("{doing} needs a token whose {claim}"))
            }
        }
    }

    /// Returns the topics that a holder may see in the list.
    pub(crate) fn shown_to(&self, holder: &Holder) -> Topics {
        let patterns = [&holder.rights.inspect, &self.holders.everybody.rights.inspect];
        patterns
            .into_iter()
            .flat_map(|topics| topics.patterns())
            .cloned()
            .map(TopicScope::from)
            .collect()
    }

    pub(crate) fn lets_publish(&self, holder: &Holder) -> bool {
        !holder.rights.publish.are_none() || !self.holders.everybody.rights.publish.are_none()
    }

    /// Returns a new ticket for `holder`. A ticket is valid once it is stored. Fails with `Unauthorized` if the server has tokens
    /// and the client presents none, because a ticket stands for a token.
    pub(crate) fn new_ticket(&self, holder: &Holder) -> Result<Ticket, Refusal> {
        if holder.kind == Kind::Nobody && self.holders.has_tokens() {
            let message = "a ticket needs a token: send the header \"Authorization: Bearer TOKEN\"";
            return Err(Refusal::unauthorized(message));
        }
        Ok(Ticket::new(self.random()?))
    }

    /// Returns the digest of a ticket, equal on every server with the same tokens.
    pub(crate) fn ticket_digest(&self, ticket: Ticket) -> [u8; 32] {
        self.digests.digest(ticket)
    }

    pub(crate) fn void_ticket() -> Refusal {
        Refusal::unauthorized("the ticket is unknown, used or expired: request a new one")
    }

    /// Returns an unpredictable number. Fails with `Busy` if the system returns no random numbers.
    pub(crate) fn random(&self) -> Result<u128, Refusal> {
        let mut random = [0; 16];
        self.random.fill(&mut random).map_err(|_| {
            Refusal::new(ErrorCode::Busy, "the system returns no random numbers: try again")
        })?;
        Ok(u128::from_ne_bytes(random))
    }
}
