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
//! - `rights`: what the holder of a token may do
//! - `token`: comparing secrets
//! - `ticket`: tokens for URLs, used once

mod cors;
mod host;
mod origin;
mod rights;
#[cfg(test)]
mod tests;
mod ticket;
mod token;

use std::{net::SocketAddr, sync::Arc};

use http::{HeaderMap, header, request::Parts};
use rustls::crypto::SecureRandom;
use thalweg_wire::{ErrorCode, Excerpt, Topic};

use crate::{config::Access, refusal::Refusal};
use host::{HostPort, Hosts, RequestedHost};
use origin::Origins;
use ticket::Digests;
use token::Token;

pub(crate) use cors::Admitted;
pub(crate) use rights::{Holder, Identity};
use rights::{Rights, Topics};
pub(crate) use ticket::{IssueRates, Ticket, Tickets};

/// How long a ticket is valid, in seconds: a page uses it at once.
pub(crate) const TICKET_LIFE_S: u64 = 30;

/// All requests of all shards go through this one access policy.
pub(crate) struct AccessPolicy {
    hosts: Hosts,
    origins: Origins,
    tokens: Vec<(Token, Arc<Holder>)>,
    /// Who presents no token. Others have their rights, too: they could leave theirs away.
    everybody: Arc<Holder>,
    random: &'static dyn SecureRandom,
    digests: Digests,
}

/// What a client wants to do.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Right<'a> {
    /// To subscribe to a topic, read its history or ack its events.
    Subscribe(&'a Topic),
    /// To publish to a topic.
    Publish(&'a Topic),
    /// To see the lab's runs.
    ViewRuns,
    /// To see the list of topics and `/metrics`.
    Inspect,
}

/// What needs rights.
pub(crate) trait Wanted {
    /// The rights that it needs.
    fn rights(&self) -> impl Iterator<Item = Right<'_>>;
}

/// Something that its client has the right to. Only the access policy makes it, and what needs a
/// right takes nothing else: so no way in can forget to ask.
#[derive(Debug)]
pub(crate) struct Allowed<T>(T);

impl<T> Allowed<T> {
    /// What is allowed.
    pub(crate) fn into_inner(self) -> T {
        self.0
    }
}

impl AccessPolicy {
    /// The access policy of a server that listens on `listen`.
    ///
    /// With `open` the server needs no publish token. Nothing else changes: the tokens that are
    /// set still protect what they protect.
    ///
    /// # Errors
    /// One sentence for the user that says what to set.
    pub(crate) fn new(access: &Access, listen: SocketAddr) -> Result<Self, String> {
        if access.publish_token.is_none() && access.subscribe_token.is_some() {
            return Err("--subscribe-token needs --publish-token: whoever may publish may \
                        subscribe, and without it that is everybody"
                .into());
        }
        let (all, none) = (Topics::all, Topics::default);
        // Each gives fewer rights than those before it.
        let given = [
            ("publish", &access.publish_token, "publisher", [all(), all(), all()]),
            ("subscribe", &access.subscribe_token, "subscriber", [all(), none(), none()]),
            ("inspect", &access.inspect_token, "inspector", [none(), none(), all()]),
        ];
        let secrets = given.each_ref().map(|(_, secret, _, _)| secret.as_ref());
        let mut tokens = Vec::new();
        for (at, (flag, secret, name, [subscribe, publish, inspect])) in
            given.into_iter().enumerate()
        {
            let Some(secret) = secret else { continue };
            // It is not known whether the token was set by flag, environment variable or file:
            // name all three.
            let token = Token::new(secret).map_err(|error| {
                let variable = flag.to_uppercase();
                format!(
                    "--{flag}-token, THALWEG_{variable}_TOKEN or {flag}-token of the file: {error}"
                )
            })?;
            if let Some(more) = secrets[..at].iter().position(|other| *other == Some(secret)) {
                let more = ["publish", "subscribe", "inspect"][more];
                return Err(format!(
                    "--{more}-token and --{flag}-token are the same: whoever may {flag} could {more}"
                ));
            }
            let rights = Rights { subscribe, publish, inspect };
            tokens.push((token, Arc::new(Holder::new(name, rights))));
        }
        let is_loopback = listen.ip().to_canonical().is_loopback();
        if !is_loopback && access.publish_token.is_none() && !access.open {
            return Err(format!(
                "{listen} is reachable from other machines: say who may publish with \
                 --publish-token, or that everybody may with --open"
            ));
        }
        let all_if = |is_open: bool| if is_open { all() } else { none() };
        let rights = Rights {
            subscribe: all_if(access.subscribe_token.is_none()),
            publish: all_if(access.publish_token.is_none()),
            inspect: all_if(access.lets_everybody_inspect(listen)),
        };
        Ok(Self {
            hosts: Hosts::new(is_loopback, &access.hosts)?,
            origins: Origins::new(&access.origins)?,
            tokens,
            everybody: Arc::new(Holder::new("nobody", rights)),
            random: rustls::crypto::ring::default_provider().secure_random,
            digests: Digests::new(secrets),
        })
    }

    /// The access policy of a listener where everybody may inspect. On loopback it has only
    /// loopback's names.
    ///
    /// # Errors
    /// As [`AccessPolicy::new`].
    pub(crate) fn of_admin(listen: SocketAddr) -> Result<Self, String> {
        let access = Self::new(&Access { open: true, ..Access::default() }, listen)?;
        let inspect = Topics::all();
        let rights = Rights { inspect, ..access.everybody.rights.clone() };
        Ok(Self { everybody: Arc::new(Holder::new("nobody", rights)), ..access })
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
    pub(crate) fn identify(&self, headers: &HeaderMap) -> Result<Arc<Holder>, Refusal> {
        if !self.has_tokens() {
            return Ok(self.everybody());
        }
        let mut presented = headers.get_all(header::AUTHORIZATION).iter();
        let Some(credentials) = presented.next() else { return Ok(self.everybody()) };
        if presented.next().is_some() {
            return Err(unauthorized("a request carries one Authorization"));
        }
        let Some(presented) = token::bearer(credentials.as_bytes()) else {
            return Ok(self.everybody());
        };
        // Always compares all, so that the time does not show which one matches.
        let mut holder = None;
        for (token, own) in &self.tokens {
            holder = if token.is(presented) { Some(own) } else { holder };
        }
        holder.cloned().ok_or_else(|| unauthorized("the token is not the right one"))
    }

    /// The holder of no token.
    pub(crate) fn everybody(&self) -> Arc<Holder> {
        Arc::clone(&self.everybody)
    }

    /// The holder with a name, as a ticket of another server has it.
    pub(crate) fn named(&self, name: &str) -> Option<Arc<Holder>> {
        let mut holders = self.tokens.iter().map(|(_, holder)| holder).chain([&self.everybody]);
        holders.find(|holder| holder.name() == name).cloned()
    }

    /// Lets `holder` have what it wants, if it has the right to it. All that needs a right passes
    /// here: each topic of a subscription, each command, each read, each list.
    ///
    /// # Errors
    /// `Unauthorized`.
    pub(crate) fn allow<T: Wanted>(
        &self,
        holder: &Holder,
        wanted: T,
    ) -> Result<Allowed<T>, Refusal> {
        wanted.rights().try_for_each(|right| self.authorise(holder, right))?;
        Ok(Allowed(wanted))
    }

    /// Whether a holder has a right.
    ///
    /// # Errors
    /// `Unauthorized`.
    pub(crate) fn authorise(&self, holder: &Holder, right: Right<'_>) -> Result<(), Refusal> {
        let has = |rights: &Rights| match right {
            Right::Publish(topic) => rights.publish.contain(topic),
            Right::Subscribe(topic) => rights.subscribe.contain(topic),
            Right::ViewRuns => rights.subscribe.are_all(),
            Right::Inspect => rights.inspect.are_all(),
        };
        if has(&holder.rights) || has(&self.everybody.rights) {
            return Ok(());
        }
        let what = match right {
            Right::Publish(topic) => {
                format!("publishing to {} needs the publish token", Excerpt(topic.as_str()))
            }
            Right::Subscribe(topic) => {
                format!("subscribing to {} needs a token", Excerpt(topic.as_str()))
            }
            Right::ViewRuns => "this needs a token".to_owned(),
            Right::Inspect if !self.has_tokens() => {
                return Err(unauthorized(
                    "the list of topics and the metrics are not for everybody who reaches this \
                     server: start it with --inspect-token or --admin-listen",
                ));
            }
            Right::Inspect => {
                "the list of topics and the metrics need the inspect token or the publish token"
                    .to_owned()
            }
        };
        Err(unauthorized(format!("{what}: send Authorization: Bearer TOKEN")))
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
        if holder.identity == self.everybody.identity && self.has_tokens() {
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
        !self.tokens.is_empty()
    }
}

fn unauthorized(message: impl Into<String>) -> Refusal {
    Refusal::new(ErrorCode::Unauthorized, message)
}
