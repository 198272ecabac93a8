//! A stream over HTTP/1.1 whose body is chunked (RFC 9112 §7.1). ChunkedStream may be cut anywhere
//! in a frame of the transport.

use super::carrier::PieceDecoder;
use super::cursors::Memory;
use super::http_response::{Body, Part};
use super::inbox::{Parser, Stage};

/// The body of one stream.
#[derive(Debug)]
pub(super) struct ChunkedStream {
    body: Body,
    decoder: PieceDecoder,
}

impl ChunkedStream {
    /// The body behind a head, if that is in chunks.
    pub(super) fn new(body: Body) -> Option<ChunkedStream> {
        let decoder = PieceDecoder::default();
        matches!(body, Body::Chunked(_)).then_some(ChunkedStream { body, decoder })
    }

    /// Takes the connection's bytes apart; says how many are done with. Behind the last
    /// chunk comes the end of the connection.
    #[inline]
    pub(super) fn parse(
        &mut self,
        parser: &mut Parser<'_>,
        bytes: &[u8],
        stage: &mut Stage,
        memory: &mut impl Memory,
    ) -> anyhow::Result<usize> {
        let ChunkedStream { body, decoder } = self;
        let mut used = 0;
        loop {
            let (part, length) = body.step(&bytes[used..])?;
            used += length;
            match part {
                Part::Body(piece) => parser.piece(piece, stage, decoder, memory)?,
                Part::Head(_) | Part::End | Part::Incomplete => return Ok(used),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Drive, Settings, Transport};
    use crate::swarm::cursors::Nothing;
    use crate::swarm::http_response::Chunk;
    use crate::swarm::inbox::Inbox;
    use crate::swarm::subscribe_request::SubscribeRequest;
    use proptest::prelude::*;
    use std::net::SocketAddr;

    /// How many envelopes with events a stream has that is cut so.
    fn envelopes(body: &[u8], cuts: &[usize]) -> u64 {
        let settings = Settings { transport: Transport::HttpStreaming, ..Settings::default() };
        let mut inbox = Inbox::new(&settings, Drive::Idle, 0);
        let request = SubscribeRequest::new(&settings, SocketAddr::from(([127, 0, 0, 1], 9)));
        let (mut stage, mut replies) = (Stage::Subscribing(1), Vec::new());
        let mut chunks = ChunkedStream::new(Body::Chunked(Chunk::Size)).expect("chunks");
        let (mut carried, mut at) = (Vec::new(), 0usize);
        for piece in cuts.iter().map(|cut| cut % 97).chain([usize::MAX]) {
            let end = at.saturating_add(piece).min(body.len());
            carried.extend_from_slice(&body[at..end]);
            at = end;
            let mut parser = Parser {
                inbox: &mut inbox,
                transport: settings.transport,
                request: &request,
                replies: &mut replies,
                index: 0,
                is_reader: true,
            };
            let used = chunks.parse(&mut parser, &carried, &mut stage, &mut Nothing).unwrap();
            carried.drain(..used);
        }
        assert_eq!((carried.len(), stage), (0, Stage::Standing));
        inbox.tally.traffic.envelopes
    }

    proptest! {
        #[test]
        fn cuts_anywhere_change_nothing(
            events in 0u64..9,
            chunk in 1usize..300,
            cuts in prop::collection::vec(any::<usize>(), 0..100),
        ) {
            let envelope = |events: &str| {
                format!(
                    "{{\"topic\":\"bench/0\",\"position\":\"1.7\",\"first\":8,\"events\":[{events}]}}\n"
                )
            };
            let lines = envelope("") + &envelope("{\"id\":1}").repeat(events as usize);
            let mut body = Vec::new();
            for piece in lines.as_bytes().chunks(chunk) {
                body.extend(format!("{:x}\r\n", piece.len()).bytes());
                body.extend(piece);
                body.extend(b"\r\n");
            }
            body.extend(b"0\r\n\r\n");
            prop_assert_eq!(envelopes(&body, &cuts), events);
        }
    }

    #[test]
    fn a_body_without_chunks_has_none() {
        assert!(ChunkedStream::new(Body::UntilEnd).is_none());
        assert!(ChunkedStream::new(Body::Length(5)).is_none());
    }
}
