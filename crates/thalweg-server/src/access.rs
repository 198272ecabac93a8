//! Who may do what. Contract: `docs/wire.md`, "Access".
//!
//! A request passes here three times:
//!
//! ```text
//! admit       is it for this server, and of a web page that may use it?
//! identify    whose token or ticket does it present?
//! authorise   may that one subscribe to this topic, publish to that one?
//! ```
//!
//! Pure but for the random numbers of tickets: the shard tells it the time.
//!
//! - `host`: the names of a server
//! - `origin`: the web pages that may use it
//! - `cors`: what browsers are told of that
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
use std::sync::{Mutex, PoisonError};

use http::{HeaderMap, header, request::Parts};
use rustls::crypto::SecureRandom;
use thalweg_wire::{ErrorCode, Excerpt, Topic};

use crate::{config::Access, refusal::Refusal};
use host::{HostPort, Hosts, RequestedHost};
use origin::Origins;
use ticket::Tickets;
use token::Token;

pub(crate) use cors::Admitted;
pub(crate) use ticket::Issued;

/// How long a ticket is good, in seconds: a page uses it at once.
pub(crate) const TICKET_LIFE_S: u64 = 30;

/// Every request of all shards goes through the one access policy.
pub(crate) struct AccessPolicy {
    hosts: Hosts,
    origins: Origins,
    publish_token: Option<Token>,
    subscribe_token: Option<Token>,
    inspect_token: Option<Token>,
    /// Whoever asks may inspect.
    is_open_to_inspect: bool,
    random: &'static dyn SecureRandom,
    /// Locked for a look or an insertion, never across anything else.
    tickets: Mutex<Tickets>,
}

/// Whose token was presented.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Identity {
    /// None was, or the server has none.
    Nobody,
    /// The inspect token, which is for nothing else.
    Inspector,
    /// The subscribe token.
    Subscriber,
    /// The publish token: whoever may publish may subscribe and inspect.
    Publisher,
}

/// What somebody wants to do.
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
    /// `open` takes away the duty to have a publish token and nothing else: tokens
    /// that there are hold for what they protect.
    ///
    /// # Errors
    /// One sentence for the user that says what to set.
    pub(crate) fn new(access: &Access, listen: SocketAddr) -> Result<Self, String> {
        let token = |name: &str, variable, secret: &Option<_>| {
            let token = secret.as_ref().map(Token::new).transpose();
            // It does not show where it was set: on the command line, nor in a file.
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
        // Each may less than those before it.
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
            tickets: Mutex::default(),
        })
    }

    /// The access policy of a listener where everybody may inspect. On loopback it has loopback's
    /// names alone.
    ///
    /// # Errors
    /// As [`AccessPolicy::new`].
    pub(crate) fn of_admin(listen: SocketAddr) -> Result<Self, String> {
        let access = Self::new(&Access { open: true, ..Access::default() }, listen)?;
        Ok(Self { is_open_to_inspect: true, ..access })
    }

    /// Lets in what is meant for this server and comes of no web page, or of one
    /// that may use it. To be asked first, of every request. `is_https` is whether its
    /// client is known to speak TLS.
    ///
    /// # Errors
    /// `BadHost`, `BadOrigin`; `BadParameter` for more than one `Host`.
    pub(crate) fn admit(&self, request: &Parts, is_https: bool) -> Result<Admitted, Refusal> {
        let requested = HostPort::of(request)?;
        self.hosts.check(&requested)?;
        let own = if let RequestedHost::For(host) = &requested { Some(host) } else { None };
        self.origins.check(request, own, is_https)
    }

    /// Whose token or ticket a request presents. A ticket wins, and is used up.
    ///
    /// Where there are no tokens nobody asks for one, and any is as good as none:
    /// the same client works with a server on its developer's machine. Schemes other
    /// than `Bearer` are between the client and a proxy.
    ///
    /// # Errors
    /// `Unauthorized` for what is not right, at once, even where nobody's rights
    /// would do: whoever presents something believes that it holds. Answers with
    /// this code carry `WWW-Authenticate: Bearer` (RFC 9110 §11.6.1).
    pub(crate) fn identify(
        &self,
        headers: &HeaderMap,
        ticket: Option<&str>,
        now_us: u64,
    ) -> Result<Identity, Refusal> {
        if !self.has_tokens() {
            return Ok(Identity::Nobody);
        }
        if let Some(ticket) = ticket {
            let mut tickets = self.tickets.lock().unwrap_or_else(PoisonError::into_inner);
            return tickets.redeem(ticket, now_us).ok_or_else(|| {
                unauthorized("the ticket is not known, used or expired: ask for a new one")
            });
        }
        let mut presented = headers.get_all(header::AUTHORIZATION).iter();
        let Some(credentials) = presented.next() else { return Ok(Identity::Nobody) };
        if presented.next().is_some() {
            return Err(unauthorized("a request carries one Authorization"));
        }
        let Some(presented) = token::bearer(credentials.as_bytes()) else {
            return Ok(Identity::Nobody);
        };
        // Always all: the time does not tell which one it is.
        let is = |token: &Option<Token>| token.as_ref().is_some_and(|own| own.is(presented));
        match (is(&self.publish_token), is(&self.subscribe_token), is(&self.inspect_token)) {
            (true, _, _) => Ok(Identity::Publisher),
            (_, true, _) => Ok(Identity::Subscriber),
            (_, _, true) => Ok(Identity::Inspector),
            _ => Err(unauthorized("the token is not the right one")),
        }
    }

    /// Whether somebody may do something: the one place that decides it, asked for
    /// each topic of each subscription and each publish. Rights on single topics
    /// would be looked up here.
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

    /// Whether somebody may publish to any topic at all.
    pub(crate) fn lets_publish(&self, identity: Identity) -> bool {
        identity == Identity::Publisher || self.publish_token.is_none()
    }

    /// A ticket with the rights of `identity`, good once, for [`TICKET_LIFE_S`].
    ///
    /// # Errors
    /// `Unauthorized` if a server with tokens is asked by nobody: a ticket stands for one.
    pub(crate) fn issue_ticket(&self, identity: Identity, now_us: u64) -> Result<Issued, Refusal> {
        let id = self.random()?;
        if identity != Identity::Nobody {
            let mut tickets = self.tickets.lock().unwrap_or_else(PoisonError::into_inner);
            return Ok(tickets.issue(id, identity, now_us));
        }
        if self.has_tokens() {
            let message = "a ticket is given for a token: send Authorization: Bearer TOKEN";
            return Err(unauthorized(message));
        }
        // Nothing will look at it.
        Ok(Issued { ticket: ticket::text(id), has_replaced: false })
    }

    /// A number that nobody can foresee.
    ///
    /// # Errors
    /// `Busy` if the system has none.
    pub(crate) fn random(&self) -> Result<u128, Refusal> {
        let mut random = [0; 16];
        self.random.fill(&mut random).map_err(|_| {
            Refusal::new(ErrorCode::Busy, "the system gives no random numbers: try again")
        })?;
        Ok(u128::from_ne_bytes(random))
    }

    fn has_tokens(&self) -> bool {
        // There is no subscribe token without a publish token.
        self.publish_token.is_some() || self.inspect_token.is_some()
    }
}

fn unauthorized(message: impl Into<String>) -> Refusal {
    Refusal::new(ErrorCode::Unauthorized, message)
}
