//! Access to code that parses untrusted input, for the fuzz targets, which cannot reach private items. cargo-fuzz sets the `cfg`.

use std::{cell::RefCell, sync::Arc};

use http::{HeaderMap, request::Parts};
use thalweg_wire::{ErrorCode, Topic, answer::refusal, signalr::Invocation};

use crate::{
    access::{AccessPolicy, Holder, Identity, Kind, MadeOf, Reading, Ticket, Tickets, Writing},
    clock::{Now, now_us},
    config::{Config, Limits, SharedTopics},
    protocol::{
        Accepted, Command, Mount, Opening, Protocol, Request, SessionAction, SessionPlace,
        Sessions, mounts, signalr::methods, thalweg,
    },
    refusal::Refusal,
    transport::{Query, head, negotiate},
};

/// The reason for a refusal.
pub type Refused = (ErrorCode, String);

/// The holder of the presented token or ticket.
#[derive(Debug, Clone)]
pub struct Who(Arc<Holder>);

impl Who {
    /// Returns the name of the token: `nobody`, `subscriber` or `publisher`.
    pub fn name(&self) -> &str {
        if self.0.is_nobody() { "nobody" } else { self.0.token() }
    }
}

/// The part of a server that handles a request's head.
pub struct RequestChecks<'a> {
    config: &'a Config,
    access: AccessPolicy,
    tickets: RefCell<Tickets>,
    mounts: Vec<Mount>,
    sessions: Arc<Sessions>,
}

/// A subscription that would be opened.
pub struct Begun {
    /// The bytes of the HTTP/1.1 response, including the first bytes of the body.
    pub head: Vec<u8>,
    /// Its topics.
    pub topics: Vec<Topic>,
}

/// The answer to a request to a mount, such as a hub of SignalR.
pub enum MountAnswer {
    /// The body of an answer without a connection.
    Body(Vec<u8>),
    /// A request of an open session.
    Session(SessionKind),
    /// A connection that would be opened.
    Opened(MountConnection),
}

/// The kind of a request of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionKind {
    /// The request has records.
    Send,
    /// The request waits for messages.
    Poll,
    /// A browser has repeated a poll by itself.
    RepeatedPoll,
    /// The request ends the session.
    End,
}

/// An open connection. Its session ends when this is dropped.
pub struct MountConnection {
    /// The bytes of the HTTP/1.1 response, including the first bytes of the body.
    pub head: Vec<u8>,
    _protocol: Box<dyn Protocol>,
}

impl<'a> RequestChecks<'a> {
    /// Returns the request handling of a server with this configuration.
    ///
    /// # Errors
    /// Returns a sentence for the user.
    pub fn new(config: &'a Config) -> Result<Self, String> {
        let access = AccessPolicy::new(&config.access, config.listen, MadeOf::default(), None)?;
        let sessions = Arc::new(Sessions::new(&[7; 32]));
        Ok(Self { config, access, tickets: RefCell::default(), mounts: mounts(config), sessions })
    }

    /// Returns the token of a session that a client has negotiated now.
    pub fn negotiate_session(&self, random: u128) -> String {
        self.sessions.issue(random, now_us()).text()
    }

    /// Returns the answer to a request to a mount, whose HTTP connection was opened at `connection_us`. `None`
    /// if there is nothing at its path.
    pub fn answer_at_mount(
        &self,
        request: &Parts,
        admitted: &HeaderMap,
        connection_us: u64,
    ) -> Option<Result<MountAnswer, Refused>> {
        let path = request.uri.path();
        let (mount, rest) =
            self.mounts.iter().find_map(|mount| Some((mount, mount.rest(path)?)))?;
        let (config, access, sessions) = (self.config, &self.access, &self.sessions);
        let opening = Opening { request, rest, config, access, sessions, connection_us };
        let accepted = (mount.accept)(&opening).transpose()?.map_err(refused);
        Some(accepted.map(|accepted| match accepted {
            Accepted::Answer(answer) => MountAnswer::Body(answer.into_body()),
            Accepted::Session(request) => MountAnswer::Session(match request.action {
                SessionAction::Send => SessionKind::Send,
                SessionAction::Poll(_) => SessionKind::Poll,
                SessionAction::Repeat => SessionKind::RepeatedPoll,
                SessionAction::End => SessionKind::End,
            }),
            Accepted::Connection(mut subscribe, mut protocol) => {
                subscribe.head.headers_mut().extend(admitted.clone());
                let place = SessionPlace { shard: 0, key: 0, serial: 0 };
                protocol.opened(place, Identity::new(Kind::Nobody, ""));
                let head = head::to_bytes(&subscribe.head, subscribe.format);
                MountAnswer::Opened(MountConnection { head, _protocol: protocol })
            }
        }))
    }

    /// Admits a request. Returns headers for every answer to it.
    ///
    /// # Errors
    /// Fails like the access policy.
    pub fn admit(&self, request: &Parts) -> Result<HeaderMap, Refused> {
        let admitted = self.access.admit(request, self.config.tls.is_some()).map_err(refused)?;
        Ok(match admitted.preflight(request) {
            Some(headers) => headers.collect(),
            None => admitted.headers().collect(),
        })
    }

    /// Returns whether a mount gets the requests to this path.
    pub fn is_mounted(&self, path: &str) -> bool {
        self.mounts.iter().any(|mount| mount.rest(path).is_some())
    }

    /// Prepares a `GET` for topics as if it asked for a subscription.
    ///
    /// # Errors
    /// Fails if the query cannot be parsed, or the negotiation is refused.
    pub fn begin(&self, request: &Parts, admitted: HeaderMap) -> Result<Begun, Refused> {
        let query = query(request)?;
        let path_topic = request.uri.path().strip_prefix("/v1/topics/");
        let config = (self.config, &SharedTopics::default());
        let subscribe = negotiate(request, &query, path_topic, config, &self.access);
        let mut subscribe = subscribe.map_err(refused)?;
        let admitted = admitted.into_iter().filter_map(|(name, value)| Some((name?, value)));
        subscribe.head.headers_mut().extend(admitted);
        let topics = subscribe.topics.into_iter().map(|(topic, _)| topic).collect();
        let head = head::to_bytes(&subscribe.head, subscribe.format);
        Ok(Begun { head, topics })
    }

    /// Returns the holder of a request's token or ticket.
    ///
    /// # Errors
    /// Fails if the query cannot be parsed, or like the access policy.
    pub fn identify(&self, request: &Parts, now_us: u64) -> Result<Who, Refused> {
        let query = query(request)?;
        let holder = match query.ticket.as_deref().filter(|_| self.access.holders.has_tokens()) {
            Some(ticket) => {
                let redeem = |ticket| self.tickets.borrow_mut().redeem(ticket, now_us);
                Ticket::parse(ticket).and_then(redeem).ok_or_else(AccessPolicy::void_ticket)
            }
            None => self.access.holders.verify(&request.headers, Now::get()).map_err(Refusal::from),
        };
        holder.map(Who).map_err(refused)
    }

    /// Returns the holder of the token with this existing name.
    pub fn named(&self, name: &str) -> Who {
        Who(self.access.holders.named(name).unwrap_or_else(|| self.access.holders.everybody()))
    }

    /// Issues a ticket.
    ///
    /// # Errors
    /// Fails like the access policy.
    pub fn issue_ticket(&self, who: &Who, now_us: u64) -> Result<String, Refused> {
        let ticket = self.access.new_ticket(&who.0).map_err(refused)?;
        let kept = self.tickets.borrow_mut().keep(ticket, Arc::clone(&who.0), now_us);
        kept.map_err(refused)?;
        Ok(ticket.text())
    }

    /// Returns whether the holder may subscribe to a topic, and publish to it.
    pub fn authorise(&self, who: &Who, topic: &Topic) -> [Result<(), Refused>; 2] {
        let reading = self.access.allow(&who.0, Reading::all(topic.clone()));
        let writing = self.access.allow(&who.0, Writing { topic: topic.clone(), key: None });
        [reading.map(|_| ()), writing.map(|_| ())].map(|may| may.map_err(refused))
    }
}

/// Parses a command. Returns the joined events of a publish.
///
/// # Errors
/// Returns the answer that refuses the command.
pub fn read_command(text: &str, limits: &Limits) -> Result<Option<Vec<u8>>, Vec<u8>> {
    let Request { id, command, .. } = thalweg::read(text, Some(limits.event_bytes));
    match command {
        Err(refused) => Err(refusal(refused.code, &refused.message, id.as_deref(), None)),
        Ok(command) => Ok(published(&command)),
    }
}

/// Parses the command of an invocation of a hub. Returns the joined events of a publish.
///
/// # Errors
/// Returns the reason for the refusal.
pub fn read_hub_command(
    invocation: &Invocation<'_>,
    limits: &Limits,
) -> Result<Option<Vec<u8>>, Refused> {
    let command = methods::command(invocation, Some(limits.event_bytes));
    command.map(|command| published(&command)).map_err(refused)
}

fn published(command: &Command) -> Option<Vec<u8>> {
    match command {
        Command::Publish { payloads, .. } => Some(payloads.joined().to_vec()),
        _ => None,
    }
}

fn query(request: &Parts) -> Result<Query<'_>, Refused> {
    Query::from_request(request).map_err(refused)
}

fn refused(refusal: Refusal) -> Refused {
    (refusal.code, refusal.message)
}
