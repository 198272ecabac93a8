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
//! - `token`: comparing secrets
//! - `ticket`: tokens for URLs, used once

mod cors;
mod host;
mod origin;
#[cfg(test)]
mod tests;
mod ticket;
mod token;

use std::net::SocketAddr;

use http::{HeaderMap, header, request::Parts};
use rustls::crypto::SecureRandom;
use thalweg_wire::{ErrorCode, Excerpt, Topic};

use crate::{config::Access, refusal::Refusal};
use host::{HostPort, Hosts, RequestedHost};
use origin::Origins;
use ticket::Digests;
use token::Token;

pub(crate) use cors::Admitted;
pub(crate) use ticket::{IssueRates, Ticket, Tickets};

/// How long a ticket is valid, in seconds: a page uses it at once.
pub(crate) const TICKET_LIFE_S: u64 = 30;

/// All requests of all shards go through this one access policy.
pub(crate) struct AccessPolicy {
    hosts: Hosts,
    origins: Origins,
    publish_token: Option<Token>,
    subscribe_token: Option<Token>,
    inspect_token: Option<Token>,
    /// Everybody may inspect.
    is_open_to_inspect: bool,
    random: &'static dyn SecureRandom,
    digests: Digests,
}

/// Which token was presented.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Identity {
    /// No token was presented, or the server has none.
    Nobody,
    /// The inspect token. It gives no other right.
    Inspector,
    /// The subscribe token.
    Subscriber,
    /// The publish token. It also gives the rights to subscribe and inspect.
    Publisher,
}

impl Identity {
    /// A name that stays the same in all releases.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nobody => "nobody",
            Self::Inspector => "inspector",
            Self::Subscriber => "subscriber",
            Self::Publisher => "publisher",
        }
    }

    /// The identity with a name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let all = [Self::Nobody, Self::Inspector, Self::Subscriber, Self::Publisher];
        all.into_iter().find(|identity| identity.name() == name)
    }
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

impl AccessPolicy {
    /// The access policy of a server that listens on `listen`.
    ///
    /// With `open` the server needs no publish token. Nothing else changes: the tokens that are
    /// set still protect what they protect.
    ///
    /// # Errors
    /// One sentence for the user that says what to set.
    pub(crate) fn new(access: &Access, listen: SocketAddr) -> Result<Self, String> {
        let token = |name: &str, variable, secret: &Option<_>| {
            let token = secret.as_ref().map(Token::new).transpose();
            // It is not known whether the token was set by flag, environment variable or file:
            // name all three.
            token.map_err(|error| format!("--{name}, {variable} or {name} of the file: {error}"))
        };
        let publish_token = token("publish-token", "THALWEG_PUBLISH_TOKEN", &access.publish_token)?;
        let subscribe_token =
            token("subscribe-token", "THALWEG_SUBSCRIBE_TOKEN", &access.subscribe_token)?;
        let inspect_token = token("inspect-token", "THALWEG_INSPECT_TOKEN", &access.inspect_token)?;
        if publish_token.is_none() && subscribe_token.is_some() {
            return Err("--subscribe-token needs --publish-token: whoever may publish may \
                        subscribe, and without it that is everybody"
                .into());
        }
        // Each token gives fewer rights than those before it.
        let secrets = [
            ("publish", &access.publish_token),
            ("subscribe", &access.subscribe_token),
            ("inspect", &access.inspect_token),
        ];
        for (at, (more, secret)) in secrets.iter().enumerate() {
            let same =
                secrets[at + 1..].iter().find(|(_, other)| secret.is_some() && secret == other);
            if let Some((less, _)) = same {
                return Err(format!(
                    "--{more}-token and --{less}-token are the same: whoever may {less} could {more}"
                ));
            }
        }
        let is_loopback = listen.ip().to_canonical().is_loopback();
        if !is_loopback && publish_token.is_none() && !access.open {
            return Err(format!(
                "{listen} is reachable from other machines: say who may publish with \
                 --publish-token, or that everybody may with --open"
            ));
        }
        Ok(Self {
            hosts: Hosts::new(is_loopback, &access.hosts)?,
            origins: Origins::new(&access.origins)?,
            publish_token,
            subscribe_token,
            inspect_token,
            is_open_to_inspect: access.lets_everybody_inspect(listen),
            random: rustls::crypto::ring::default_provider().secure_random,
            digests: Digests::new(secrets.map(|(_, secret)| secret.as_ref())),
        })
    }

    /// The access policy of a listener where everybody may inspect. On loopback it has only
    /// loopback's names.
    ///
    /// # Errors
    /// As [`AccessPolicy::new`].
    pub(crate) fn of_admin(listen: SocketAddr) -> Result<Self, String> {
        let access = Self::new(&Access { open: true, ..Access::default() }, listen)?;
        Ok(Self { is_open_to_inspect: true, ..access })
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

    /// The identity of the token that a request presents, if it presents no ticket.
    ///
    /// A server without tokens ignores any token: so the same client also works with a server
    /// on its developer's machine. Schemes other than `Bearer` concern only the client and a
    /// proxy.
    ///
    /// # Errors
    /// `Unauthorized` for a wrong token, even if the request needs none: a client that presents
    /// one believes that it is valid. Answers with this code carry `WWW-Authenticate: Bearer`
    /// (RFC 9110 §11.6.1).
    pub(crate) fn identify(&self, headers: &HeaderMap) -> Result<Identity, Refusal> {
        if !self.has_tokens() {
            return Ok(Identity::Nobody);
        }
        let mut presented = headers.get_all(header::AUTHORIZATION).iter();
        let Some(credentials) = presented.next() else { return Ok(Identity::Nobody) };
        if presented.next().is_some() {
            return Err(unauthorized("a request carries one Authorization"));
        }
        let Some(presented) = token::bearer(credentials.as_bytes()) else {
            return Ok(Identity::Nobody);
        };
        // Always compares all, so that the time does not show which one matches.
        let is = |token: &Option<Token>| token.as_ref().is_some_and(|own| own.is(presented));
        match (is(&self.publish_token), is(&self.subscribe_token), is(&self.inspect_token)) {
            (true, _, _) => Ok(Identity::Publisher),
            (_, true, _) => Ok(Identity::Subscriber),
            (_, _, true) => Ok(Identity::Inspector),
            _ => Err(unauthorized("the token is not the right one")),
        }
    }

    /// Whether an identity has a right. Only this function decides it, and it is called for
    /// each topic of each subscription and each publish. Rights on single topics would be
    /// looked up here.
    ///
    /// # Errors
    /// `Unauthorized`.
    pub(crate) fn authorise(&self, identity: Identity, right: Right<'_>) -> Result<(), Refusal> {
        let may = match right {
            Right::Publish(_) => self.lets_publish(identity),
            Right::Subscribe(_) | Right::ViewRuns => {
                matches!(identity, Identity::Subscriber | Identity::Publisher)
                    || self.subscribe_token.is_none()
            }
            Right::Inspect => {
                matches!(identity, Identity::Inspector | Identity::Publisher)
                    || self.is_open_to_inspect
            }
        };
        if may {
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

    /// Whether an identity may publish to any topic at all.
    pub(crate) fn lets_publish(&self, identity: Identity) -> bool {
        identity == Identity::Publisher || self.publish_token.is_none()
    }

    /// A new ticket for `identity`. It is valid once it is kept.
    ///
    /// # Errors
    /// `Unauthorized` if the server has tokens and the client presents none: a ticket stands
    /// for a token.
    pub(crate) fn new_ticket(&self, identity: Identity) -> Result<Ticket, Refusal> {
        if identity == Identity::Nobody && self.has_tokens() {
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
        // There is no subscribe token without a publish token.
        self.publish_token.is_some() || self.inspect_token.is_some()
    }
}

fn unauthorized(message: impl Into<String>) -> Refusal {
    Refusal::new(ErrorCode::Unauthorized, message)
}
