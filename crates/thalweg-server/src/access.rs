//! Who may do what. Contract: `docs/wire.md`, "Access".
//!
//! A request passes here three times:
//!
//! ```text
//! admit       is it for this server, and of a web page that may use it?
//! identify    whose token does it present? (whose ticket, those say who keep tickets)
//! authorise   may that one subscribe to this topic, publish to that one?
//! ```
//!
//! Pure except for the random numbers of tickets: the shard passes the time in.
//!
//! - `host`: the names of a server
//! - `origin`: the web pages that may use it
//! - `cors`: what browsers learn about that
//! - `holders`: whose token it is
//! - `holder`: somebody who presents one
//! - `signed`: tokens that somebody else signs
//! - `keys`: the keys of these that an issuer publishes
//! - `token`: comparing secrets
//! - `ticket`: tokens for URLs, used once

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
use thalweg_token::{Rights, Topics};
use thalweg_wire::{ErrorCode, Excerpt, Topic};

use crate::{
    config::{ASKED_TOPICS, Access},
    derived::AskedQueries,
    refusal::Refusal,
};
use host::{HostPort, Hosts, OwnNames, RequestedHost};
use origin::Origins;
use ticket::Digests;

pub(crate) use cors::Admitted;
pub(crate) use holder::{Holder, Identity, Kind};
pub(crate) use holders::{Holders, Unidentified};
pub(crate) use keys::{KeysEnd, PublishedKeys};
pub(crate) use ticket::{IssueRates, Ticket, Tickets};

/// How long a ticket is valid, in seconds: a page uses it at once.
pub(crate) const TICKET_LIFE_S: u64 = 30;

/// All requests of all shards go through this one access policy.
pub(crate) struct AccessPolicy {
    hosts: Hosts,
    origins: Origins,
    /// Who presents a token, or none.
    pub(crate) holders: Holders,
    made_of: MadeOf,
    random: &'static dyn SecureRandom,
    digests: Digests,
}

/// Which topics are made of others: whoever reads such a topic reads those.
#[derive(Clone, Default)]
pub(crate) struct MadeOf {
    /// The topics of the configuration's queries, each with the one that it reads.
    pub(crate) configured: Arc<HashMap<Topic, Topic>>,
    /// The queries that clients ask for.
    pub(crate) asked: Arc<AskedQueries>,
}

/// What a client wants to do.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Right<'a> {
    /// To subscribe to a topic, read its history or ack its events.
    Subscribe(&'a Topic),
    /// To publish to a topic, or delete it.
    Publish(&'a Topic),
    /// To see the lab's runs.
    ViewRuns,
    /// To see the list of topics: those of them that it may inspect.
    ViewTopics,
    /// To see `/metrics`, which is of all topics.
    ViewMetrics,
    /// To end connections of others.
    Administer,
}

/// What needs rights.
pub(crate) trait Wanted {
    /// The rights that it needs.
    fn rights(&self) -> impl Iterator<Item = Right<'_>>;
}

/// Something that its client has the right to. Only the access policy makes it, and what needs a
/// right takes nothing else: so no way in can forget to ask.
#[derive(Debug)]
pub(crate) struct Allowed<T> {
    wanted: T,
}

impl<T> Allowed<T> {
    /// What is allowed.
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

/// A topic to read: to subscribe to, or its history or columns.
#[derive(Debug)]
pub(crate) struct Reading(pub(crate) Topic);

impl Wanted for Reading {
    fn rights(&self) -> impl Iterator<Item = Right<'_>> {
        [Right::Subscribe(&self.0)].into_iter()
    }
}

/// A topic to publish to, or to delete.
#[derive(Debug)]
pub(crate) struct Writing(pub(crate) Topic);

impl Wanted for Writing {
    fn rights(&self) -> impl Iterator<Item = Right<'_>> {
        [Right::Publish(&self.0)].into_iter()
    }
}

/// The lab's runs.
#[derive(Debug)]
pub(crate) struct ViewRuns;

impl Wanted for ViewRuns {
    fn rights(&self) -> impl Iterator<Item = Right<'_>> {
        [Right::ViewRuns].into_iter()
    }
}

/// What administrators do.
#[derive(Debug)]
pub(crate) struct Administering;

impl Wanted for Administering {
    fn rights(&self) -> impl Iterator<Item = Right<'_>> {
        [Right::Administer].into_iter()
    }
}

/// `/metrics`.
#[derive(Debug)]
pub(crate) struct ViewMetrics;

impl Wanted for ViewMetrics {
    fn rights(&self) -> impl Iterator<Item = Right<'_>> {
        [Right::ViewMetrics].into_iter()
    }
}

impl AccessPolicy {
    /// The access policy of a server that listens on `listen`. `published`: the keys at the URL
    /// of the configuration.
    ///
    /// With `open` the server needs no publish token. Nothing else changes: the tokens that are
    /// set still protect what they protect.
    ///
    /// # Errors
    /// One sentence for the user that says what to set.
    pub(crate) fn new(
        access: &Access,
        listen: SocketAddr,
        made_of: MadeOf,
        published: Option<Arc<PublishedKeys>>,
    ) -> Result<Self, String> {
        if !access.says_who_publishes() && access.subscribe_token.is_some() {
            return Err(
                "--subscribe-token needs --publish-token, or other tokens: whoever may publish \
                        may subscribe, and without them that is everybody"
                    .into(),
            );
        }
        let is_loopback = listen.ip().to_canonical().is_loopback();
        if !is_loopback && !access.says_who_publishes() && !access.open {
            return Err(format!(
                "{listen} is reachable from other machines: say who may publish with \
                 --publish-token, --token, --jwt-key or --everybody, or that everybody may with --open"
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

    /// The access policy of a listener where everybody may inspect, and administer. `access`: the
    /// other listener's, with names of the server.
    ///
    /// # Errors
    /// As [`AccessPolicy::new`].
    pub(crate) fn of_admin(listen: SocketAddr, access: &Access) -> Result<Self, String> {
        let inspect = Rights { inspect: Topics::all(), admin: true, ..Rights::default() };
        let own = Access { open: true, everybody: Some(inspect), ..Access::default() };
        let is_loopback = listen.ip().to_canonical().is_loopback();
        let names = if is_loopback { OwnNames::Loopback } else { OwnNames::Addresses };
        let hosts = Hosts::new(names, &access.hosts)?;
        Ok(Self { hosts, ..Self::new(&own, listen, MadeOf::default(), None)? })
    }

    /// Admits a request that is meant for this server and does not come from a web page, or
    /// comes from one that may use it. Call it first for every request. `is_https` says whether
    /// its client is known to use TLS.
    ///
    /// # Errors
    /// `BadHost`, `BadOrigin`; `BadParameter` for more than one `Host`.
    pub(crate) fn admit(&self, request: &Parts, is_https: bool) -> Result<Admitted, Refusal> {
        let requested = HostPort::of(request)?;
        self.hosts.check(&requested)?;
        let own = if let RequestedHost::For(host) = &requested { Some(host) } else { None };
        self.origins.check(request, own, is_https)
    }

    /// Lets `holder` have what it wants, if it has the right to it. All that needs a right passes
    /// here: each topic of a subscription, each command, each read, each list.
    ///
    /// # Errors
    /// `Unauthorized`, `Forbidden`.
    pub(crate) fn allow<T: Wanted>(
        &self,
        holder: &Holder,
        wanted: T,
    ) -> Result<Allowed<T>, Refusal> {
        wanted.rights().try_for_each(|right| self.authorise(holder, right))?;
        Ok(Allowed { wanted })
    }

    /// Whether a holder has a right. [`Self::allow`] asks this first; it is asked again when rights may have
    /// changed since.
    ///
    /// # Errors
    /// `Unauthorized` of who presents no token, `Forbidden` of who presents one. Neither says
    /// whether there is such a topic.
    pub(crate) fn authorise(&self, holder: &Holder, right: Right<'_>) -> Result<(), Refusal> {
        let has = |has: fn(&Rights, &Topic) -> bool, topic: &Topic| {
            has(&holder.rights, topic) || has(&self.holders.everybody.rights, topic)
        };
        let is = |is: fn(&Rights) -> bool| is(&holder.rights) || is(&self.holders.everybody.rights);
        let may = match right {
            Right::Publish(topic) => has(|rights, topic| rights.publish.contain(topic), topic),
            Right::Subscribe(topic) => self.may_read(holder, topic),
            Right::ViewRuns => is(|rights| rights.subscribe.are_all()),
            Right::ViewTopics => is(|rights| !rights.inspect.are_none()),
            Right::ViewMetrics => is(|rights| rights.inspect.are_all()),
            Right::Administer => is(|rights| rights.admin),
        };
        if may {
            return Ok(());
        }
        let topic = match right {
            Right::Subscribe(topic) | Right::Publish(topic) => topic.as_str(),
            _ => "",
        };
        Err(self.refusal(holder, right).of(holder.names(), topic))
    }

    /// Whether a holder may read a topic, and what it is made of.
    fn may_read(&self, holder: &Holder, topic: &Topic) -> bool {
        let [own, all] = [&holder.rights.subscribe, &self.holders.everybody.rights.subscribe];
        if topic.as_str().starts_with(ASKED_TOPICS) {
            // Its name says nothing of what it shows.
            return match self.made_of.asked.source_of(topic) {
                Some(source) => self.may_read(holder, &source),
                None => own.are_all() || all.are_all(),
            };
        }
        let source = self.made_of.configured.get(topic);
        (own.contain(topic) || all.contain(topic))
            // It ends: no query reads its own rows.
            && source.is_none_or(|source| self.may_read(holder, source))
    }

    fn refusal(&self, holder: &Holder, right: Right<'_>) -> Refusal {
        if let Right::ViewTopics | Right::ViewMetrics = right
            && !self.holders.has_tokens()
        {
            return Refusal::unauthorized(
                "the list of topics and the metrics are not for everybody who reaches this \
                 server: start it with --inspect-token or --admin-listen",
            );
        }
        let (doing, claim) = match right {
            Right::Publish(topic) => (
                format!("publishing to {}", Excerpt(topic.as_str())),
                "publish has a pattern for it",
            ),
            Right::Subscribe(topic) => (
                format!("subscribing to {}", Excerpt(topic.as_str())),
                "subscribe has patterns for it and for what it is made of",
            ),
            Right::ViewRuns => ("seeing runs".to_owned(), "subscribe has \"**\""),
            Right::ViewTopics => ("the list of topics".to_owned(), "inspect has a pattern"),
            Right::ViewMetrics => ("seeing the metrics".to_owned(), "inspect has \"**\""),
            Right::Administer => ("this".to_owned(), "admin is true"),
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

    /// The topics that a holder may see in the list.
    pub(crate) fn shown_to(&self, holder: &Holder) -> Topics {
        let patterns = [&holder.rights.inspect, &self.holders.everybody.rights.inspect];
        patterns.into_iter().flat_map(|topics| topics.patterns()).cloned().collect()
    }

    /// Whether a holder may publish to any topic at all.
    pub(crate) fn lets_publish(&self, holder: &Holder) -> bool {
        !holder.rights.publish.are_none() || !self.holders.everybody.rights.publish.are_none()
    }

    /// A new ticket for `holder`. It is valid once it is kept.
    ///
    /// # Errors
    /// `Unauthorized` if the server has tokens and the client presents none: a ticket stands
    /// for a token.
    pub(crate) fn new_ticket(&self, holder: &Holder) -> Result<Ticket, Refusal> {
        if holder.kind == Kind::Nobody && self.holders.has_tokens() {
            let message = "a ticket is given for a token: send Authorization: Bearer TOKEN";
            return Err(Refusal::unauthorized(message));
        }
        Ok(Ticket::new(self.random()?))
    }

    /// The digest of a ticket, the same on every server with the same tokens.
    pub(crate) fn ticket_digest(&self, ticket: Ticket) -> [u8; 32] {
        self.digests.of(ticket)
    }

    /// A ticket that gives no rights.
    pub(crate) fn void_ticket() -> Refusal {
        Refusal::unauthorized("the ticket is not known, used or expired: ask for a new one")
    }

    /// A number that nobody can predict.
    ///
    /// # Errors
    /// `Busy` if the system gives no random numbers.
    pub(crate) fn random(&self) -> Result<u128, Refusal> {
        let mut random = [0; 16];
        self.random.fill(&mut random).map_err(|_| {
            Refusal::new(ErrorCode::Busy, "the system gives no random numbers: try again")
        })?;
        Ok(u128::from_ne_bytes(random))
    }
}
