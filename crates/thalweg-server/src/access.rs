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
//! - `holder`: who presents a token
//! - `signed`: tokens that somebody else signs
//! - `keys`: the keys of these that an issuer publishes
//! - `token`: comparing secrets
//! - `ticket`: tokens for URLs, used once

mod cors;
mod holder;
mod host;
mod keys;
mod origin;
mod signed;
#[cfg(test)]
mod tests;
mod ticket;
mod token;

use std::{collections::HashMap, net::SocketAddr, ops::Deref, sync::Arc};

use http::{HeaderMap, header, request::Parts};
use rustls::crypto::SecureRandom;
use thalweg_token::{Rights, TokenError, Topics};
use thalweg_wire::{ErrorCode, Excerpt, Topic};

use crate::{
    clock::Now,
    config::{ASKED_TOPICS, Access, NamedToken, Secret},
    derived::AskedQueries,
    refusal::Refusal,
};
use host::{HostPort, Hosts, OwnNames, RequestedHost};
use origin::Origins;
use signed::SignedTokens;
use ticket::Digests;
use token::Token;

pub(crate) use cors::Admitted;
pub(crate) use holder::{Holder, Identity, Kind};
pub(crate) use keys::{KeysEnd, PublishedKeys};
pub(crate) use ticket::{IssueRates, Ticket, Tickets};

/// How long a ticket is valid, in seconds: a page uses it at once.
pub(crate) const TICKET_LIFE_S: u64 = 30;

/// All requests of all shards go through this one access policy.
pub(crate) struct AccessPolicy {
    hosts: Hosts,
    origins: Origins,
    /// The tokens of the configuration.
    tokens: Vec<(Token, Arc<Holder>)>,
    /// Those that somebody else signs, if there are keys.
    signed: Option<SignedTokens>,
    /// Who presents no token. Others have their rights, too: they could leave theirs away.
    everybody: Arc<Holder>,
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

/// Why it is not known whose token it is.
#[derive(Debug)]
pub(crate) enum Unidentified {
    /// It is nobody's.
    Refused(Refusal),
    /// Its key may have been published meanwhile: ask for [`AccessPolicy::published_keys`].
    UnknownKey,
    /// It is signed, and was not verified before: that takes as long as a hundred visits
    /// ([`AccessPolicy::verify`]).
    Unverified,
}

impl From<Refusal> for Unidentified {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Unidentified> for Refusal {
    fn from(unidentified: Unidentified) -> Self {
        match unidentified {
            Unidentified::Refused(refusal) => refusal,
            Unidentified::UnknownKey | Unidentified::Unverified => {
                unauthorized(TokenError::UnknownKey.to_string())
            }
        }
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
        if access.publish_token.is_none() && access.subscribe_token.is_some() {
            return Err("--subscribe-token needs --publish-token: whoever may publish may \
                        subscribe, and without it that is everybody"
                .into());
        }
        let is_loopback = listen.ip().to_canonical().is_loopback();
        if !is_loopback && !access.says_who_publishes() && !access.open {
            return Err(format!(
                "{listen} is reachable from other machines: say who may publish with \
                 --publish-token, or that everybody may with --open"
            ));
        }
        let tokens = tokens(access)?;
        let all_if = |is_open: bool| if is_open { Topics::all() } else { Topics::default() };
        let rights = access.everybody.clone().unwrap_or_else(|| Rights {
            subscribe: all_if(access.subscribe_token.is_none() && !access.has_own_rights()),
            publish: all_if(!access.says_who_publishes()),
            inspect: all_if(access.lets_everybody_inspect(listen)),
            admin: false,
        });
        let signed = access.signed.as_ref().map(|signed| {
            SignedTokens::new(signed.expected.clone(), signed.keys.clone(), published)
        });
        Ok(Self {
            hosts: Hosts::new(
                if is_loopback { OwnNames::Loopback } else { OwnNames::All },
                &access.hosts,
            )?,
            origins: Origins::new(&access.origins)?,
            tokens,
            signed,
            everybody: Arc::new(Holder::nobody(rights)),
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

    /// The holder of the token that a request presents, if it presents no ticket.
    ///
    /// A server without tokens ignores any token: so the same client also works with a server
    /// on its developer's machine. Schemes other than `Bearer` concern only the client and a
    /// proxy.
    ///
    /// # Errors
    /// `Unauthorized` for a wrong token, even if the request needs none: a client that presents
    /// one believes that it is valid. Answers with this code carry `WWW-Authenticate: Bearer`
    /// (RFC 9110 §11.6.1).
    pub(crate) fn verify(
        &self,
        headers: &HeaderMap,
        now: Now,
    ) -> Result<Arc<Holder>, Unidentified> {
        self.identify_by(headers, |signed, token| Self::signed_holder(signed, token, now))
    }

    /// The same, but of a signed token that was not verified before.
    ///
    /// # Errors
    /// As [`Self::verify`], and `Unverified`.
    pub(crate) fn identify(
        &self,
        headers: &HeaderMap,
        now: Now,
    ) -> Result<Arc<Holder>, Unidentified> {
        self.identify_by(headers, |signed, token| {
            let verified = signed.verified(token, now).ok_or(Unidentified::Unverified)?;
            verified.map_err(|error| unauthorized(error.to_string()).into())
        })
    }

    fn identify_by(
        &self,
        headers: &HeaderMap,
        of_signed: impl FnOnce(&SignedTokens, &[u8]) -> Result<Arc<Holder>, Unidentified>,
    ) -> Result<Arc<Holder>, Unidentified> {
        if !self.has_tokens() {
            return Ok(self.everybody());
        }
        let mut presented = headers.get_all(header::AUTHORIZATION).iter();
        let Some(credentials) = presented.next() else { return Ok(self.everybody()) };
        if presented.next().is_some() {
            return Err(unauthorized("a request carries one Authorization").into());
        }
        let Some(presented) = token::bearer(credentials.as_bytes()) else {
            return Ok(self.everybody());
        };
        self.holder_by(presented, of_signed)
    }

    /// The holder of a token.
    ///
    /// # Errors
    /// `Unauthorized`.
    pub(crate) fn holder(&self, presented: &[u8], now: Now) -> Result<Arc<Holder>, Unidentified> {
        self.holder_by(presented, |signed, token| Self::signed_holder(signed, token, now))
    }

    fn holder_by(
        &self,
        presented: &[u8],
        of_signed: impl FnOnce(&SignedTokens, &[u8]) -> Result<Arc<Holder>, Unidentified>,
    ) -> Result<Arc<Holder>, Unidentified> {
        // Always compares all, so that the time does not show which one matches.
        let mut holder = None;
        for (token, own) in &self.tokens {
            holder = if token.is(presented) { Some(own) } else { holder };
        }
        if let Some(holder) = holder {
            return Ok(Arc::clone(holder));
        }
        // What is none of ours may be signed: the parts of such a token are joined by points (RFC 7515 §7.1).
        match self.signed.as_ref().filter(|_| presented.contains(&b'.')) {
            Some(signed) => of_signed(signed, presented),
            None => Err(unauthorized("the token is not the right one").into()),
        }
    }

    fn signed_holder(
        signed: &SignedTokens,
        token: &[u8],
        now: Now,
    ) -> Result<Arc<Holder>, Unidentified> {
        signed.holder(token, now).map_err(|error| match error {
            TokenError::UnknownKey if signed.published().is_some() => Unidentified::UnknownKey,
            error => unauthorized(error.to_string()).into(),
        })
    }

    /// The keys at a URL, if there is one.
    pub(crate) fn published_keys(&self) -> Option<&Arc<PublishedKeys>> {
        self.signed.as_ref()?.published()
    }

    /// The holder of no token.
    pub(crate) fn everybody(&self) -> Arc<Holder> {
        Arc::clone(&self.everybody)
    }

    /// The same holder under this policy, which is newer than the one that it was identified by.
    /// `None` if its token is not good any more.
    pub(crate) fn successor(&self, holder: &Arc<Holder>) -> Option<Arc<Holder>> {
        match holder.kind {
            Kind::Nobody => Some(self.everybody()),
            Kind::Named => {
                let mut holders = self.tokens.iter().map(|(_, own)| own);
                holders.find(|own| own.identity == holder.identity).cloned()
            }
            Kind::Signed => self.signed.as_ref().map(|_| Arc::clone(holder)),
        }
    }

    /// The holder of the token with a name; of none, for `nobody`.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn named(&self, name: &str) -> Option<Arc<Holder>> {
        let mut holders = self.tokens.iter().map(|(_, holder)| holder);
        let named = holders.find(|holder| holder.token() == name);
        named.or((name == "nobody").then_some(&self.everybody)).cloned()
    }

    /// The holder that a ticket of another server carries.
    pub(crate) fn of_text(&self, text: &str, now: Now) -> Option<Arc<Holder>> {
        Holder::of_text(text, now)
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

    /// Whether a holder has a right. So it is asked again for what it was allowed before.
    ///
    /// # Errors
    /// `Unauthorized` of who presents no token, `Forbidden` of who presents one. Neither says
    /// whether there is such a topic.
    pub(crate) fn authorise(&self, holder: &Holder, right: Right<'_>) -> Result<(), Refusal> {
        let has = |has: fn(&Rights, &Topic) -> bool, topic: &Topic| {
            has(&holder.rights, topic) || has(&self.everybody.rights, topic)
        };
        let is = |is: fn(&Rights) -> bool| is(&holder.rights) || is(&self.everybody.rights);
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
        Err(self.refusal(holder, right).of([holder.subject(), holder.token()], topic))
    }

    /// Whether a holder may read a topic, and what it is made of.
    fn may_read(&self, holder: &Holder, topic: &Topic) -> bool {
        let [own, all] = [&holder.rights.subscribe, &self.everybody.rights.subscribe];
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
            && !self.has_tokens()
        {
            return unauthorized(
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
            Kind::Nobody => {
                unauthorized(format!("{doing} needs a token: send Authorization: Bearer TOKEN"))
            }
            Kind::Named | Kind::Signed => {
                Refusal::new(ErrorCode::Forbidden, format!("{doing} needs a token whose {claim}"))
            }
        }
    }

    /// The topics that a holder may see in the list.
    pub(crate) fn shown_to(&self, holder: &Holder) -> Topics {
        let patterns = [&holder.rights.inspect, &self.everybody.rights.inspect];
        patterns.into_iter().flat_map(|topics| topics.patterns()).cloned().collect()
    }

    /// Whether a holder may publish to any topic at all.
    pub(crate) fn lets_publish(&self, holder: &Holder) -> bool {
        !holder.rights.publish.are_none() || !self.everybody.rights.publish.are_none()
    }

    /// A new ticket for `holder`. It is valid once it is kept.
    ///
    /// # Errors
    /// `Unauthorized` if the server has tokens and the client presents none: a ticket stands
    /// for a token.
    pub(crate) fn new_ticket(&self, holder: &Holder) -> Result<Ticket, Refusal> {
        if holder.kind == Kind::Nobody && self.has_tokens() {
            let message = "a ticket is given for a token: send Authorization: Bearer TOKEN";
            return Err(unauthorized(message));
        }
        Ok(Ticket::new(self.random()?))
    }

    /// The digest of a ticket, the same on every server with the same tokens.
    pub(crate) fn ticket_digest(&self, ticket: Ticket) -> [u8; 32] {
        self.digests.of(ticket)
    }

    /// A ticket that gives no rights.
    pub(crate) fn void_ticket() -> Refusal {
        unauthorized("the ticket is not known, used or expired: ask for a new one")
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

    /// Whether it has any. A server without tokens does not check tickets.
    pub(crate) fn has_tokens(&self) -> bool {
        !self.tokens.is_empty() || self.signed.is_some()
    }
}

/// The tokens of a configuration.
///
/// # Errors
/// One sentence for the user.
fn tokens(access: &Access) -> Result<Vec<(Token, Arc<Holder>)>, String> {
    let (all, none) = (Topics::all, Topics::default);
    // Each gives fewer rights than those before it.
    let given = [
        ("publish", &access.publish_token, "publisher", [all(), all(), all()]),
        ("subscribe", &access.subscribe_token, "subscriber", [all(), none(), none()]),
        ("inspect", &access.inspect_token, "inspector", [none(), none(), all()]),
    ];
    let mut tokens = Vec::new();
    let mut known: Vec<(&Secret, String)> = Vec::new();
    let mut add = |secret, called: String, name: &str, rights: Rights, places: &str| {
        let token = Token::new(secret).map_err(|error| format!("{places}: {error}"))?;
        if let Some((_, other)) = known.iter().find(|(other, _)| *other == secret) {
            return Err(format!(
                "{other} and {called} are the same: whoever has the one has the rights of the other"
            ));
        }
        known.push((secret, called));
        tokens.push((token, Arc::new(Holder::named(name, secret, rights))));
        Ok(())
    };
    for (flag, secret, name, [subscribe, publish, inspect]) in given {
        let Some(secret) = secret else { continue };
        // It is not known whether the token was set by flag, environment variable or file:
        // name all three.
        let variable = flag.to_uppercase();
        let places =
            format!("--{flag}-token, THALWEG_{variable}_TOKEN or {flag}-token of the file");
        let rights = Rights { subscribe, publish, inspect, admin: flag == "publish" };
        add(secret, format!("--{flag}-token"), name, rights, &places)?;
    }
    for NamedToken { name, secret, rights } in &access.tokens {
        let called = format!("--token {name}");
        add(secret, called.clone(), name, rights.clone(), &called)?;
    }
    Ok(tokens)
}

fn unauthorized(message: impl Into<String>) -> Refusal {
    Refusal::new(ErrorCode::Unauthorized, message)
}
