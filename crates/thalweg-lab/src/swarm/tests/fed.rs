//! A connection that gets its bytes from a test, cut in any way.

use crate::scenario::{Drive, Program, Settings};
use crate::swarm::dialect::{self, Dialect};
use crate::swarm::parser::{Over, Parser, Stage};
use crate::swarm::protocol_session::{End, ProtocolSession};
use crate::swarm::receiver::Receiver;
use crate::swarm::subscribe_request::SubscribeRequest;

pub(in crate::swarm) struct Fed {
    transport: crate::scenario::Transport,
    dialect: Box<dyn Dialect>,
    pub(in crate::swarm) request: SubscribeRequest,
    pub(in crate::swarm) receiver: Receiver,
    /// The messages of the subscriber since its request.
    pub(in crate::swarm) replies: Vec<u8>,
    pub(in crate::swarm) session: ProtocolSession,
    pub(in crate::swarm) over: Option<Over>,
    carried: Vec<u8>,
}

impl Fed {
    /// Returns a connection that has sent its request to a subject.
    pub(in crate::swarm) fn new(program: &Program, settings: &Settings) -> Fed {
        Fed::speaking(dialect::new(program, settings), settings)
    }

    /// Like [`Fed::new`], in this dialect.
    pub(in crate::swarm) fn speaking(dialect: Box<dyn Dialect>, settings: &Settings) -> Fed {
        let request = SubscribeRequest::new(&*dialect, settings, "127.0.0.1:9".to_owned());
        let mut session = ProtocolSession::new(0, settings, false);
        session.stage = Stage::Asked;
        Fed {
            transport: settings.transport,
            dialect,
            request,
            receiver: Receiver::new(settings, Drive::Idle, 0, false),
            replies: Vec::new(),
            session,
            over: None,
            carried: Vec::new(),
        }
    }

    /// Passes these bytes to the session, or ignores them once it is over.
    pub(in crate::swarm) fn feed(&mut self, piece: &[u8]) -> anyhow::Result<()> {
        if self.over.is_some() {
            return Ok(());
        }
        let mut carried = std::mem::take(&mut self.carried);
        carried.extend_from_slice(piece);
        let used = self.parse(|session, parser| session.receive(parser, &carried))?;
        carried.drain(..used);
        self.carried = carried;
        Ok(())
    }

    /// Like [`Fed::feed`], in pieces of up to 96 bytes, whose lengths follow from `cuts`.
    pub(in crate::swarm) fn feed_cut(
        &mut self,
        bytes: &[u8],
        cuts: &[usize],
    ) -> anyhow::Result<()> {
        let mut rest = bytes;
        for cut in cuts.iter().map(|cut| cut % 97) {
            let (piece, behind) = rest.split_at(cut.min(rest.len()));
            self.feed(piece)?;
            rest = behind;
        }
        self.feed(rest)
    }

    pub(in crate::swarm) fn end(&mut self, end: End) {
        if self.over.is_none() {
            let carried = std::mem::take(&mut self.carried);
            let over = self.parse(|session, parser| session.end(end, &carried, parser));
            self.over = over.ok();
        }
    }

    pub(in crate::swarm) fn carried_bytes(&self) -> usize {
        self.carried.len()
    }

    fn parse<T>(
        &mut self,
        parse: impl FnOnce(&mut ProtocolSession, &mut Parser<'_>) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let mut parser = Parser {
            receiver: &mut self.receiver,
            dialect: &*self.dialect,
            transport: self.transport,
            request: &self.request,
            replies: &mut self.replies,
            index: 0,
            is_reader: true,
            over: None,
        };
        let parsed = parse(&mut self.session, &mut parser);
        if let Some(over) = parser.over.take() {
            self.over = Some(over);
        }
        parsed
    }
}
