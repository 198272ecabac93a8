//! A stream over HTTP/1.1 whose body declares where it ends (RFC 9112 §6.3), by chunks or a length, and may be compressed. A read may end
//! anywhere in a frame of the transport.

use super::carrier::deflate::Gunzip;
use super::carrier::{PieceDecoder, lines};
use super::http_response::{Body, ResponsePart};
use super::parser::{Over, Parser, Stage};
use super::resume_state::ResumeState;
use crate::scenario::Transport;

/// How a stream ended whose response has neither a length nor chunks, so that its end looks like the end of its server (RFC 9112 §8).
pub(super) const ENDED_WITH_CONNECTION: &str = "the connection was ended, and with it the answer";

#[derive(Debug)]
pub(super) struct BodyStream {
    body: Body,
    gunzip: Option<Box<Gunzip>>,
    decoder: PieceDecoder,
}

impl BodyStream {
    /// Returns the body after a head; `None` for an uncompressed body that ends with its connection, because
    /// its bytes are the transport's.
    pub(super) fn new(body: Body, is_gzip: bool) -> Option<BodyStream> {
        let gunzip = is_gzip.then(|| Box::new(Gunzip::new()));
        let is_plain = body == Body::UntilEnd && !is_gzip;
        (!is_plain).then(|| BodyStream { body, gunzip, decoder: PieceDecoder::default() })
    }

    pub(super) fn ends_with_connection(&self) -> bool {
        self.body == Body::UntilEnd
    }

    pub(super) fn rest(&self) -> &[u8] {
        self.decoder.rest()
    }

    /// Parses the connection's bytes; returns the number consumed.
    #[inline]
    pub(super) fn parse(
        &mut self,
        parser: &mut Parser<'_>,
        bytes: &[u8],
        stage: &mut Stage,
        resume_state: &mut impl ResumeState,
    ) -> anyhow::Result<usize> {
        let BodyStream { body, gunzip, decoder } = self;
        let mut used = 0;
        loop {
            let (part, length) = body.step(&bytes[used..])?;
            used += length;
            match part {
                ResponsePart::Body(piece) => match gunzip {
                    None => parser.piece(piece, stage, decoder, resume_state)?,
                    Some(gunzip) => gunzip.inflate(piece, |piece| {
                        parser.piece(piece, stage, decoder, resume_state)
                    })?,
                },
                ResponsePart::End => {
                    end_line(parser, decoder.rest(), stage, resume_state)?;
                    parser.over = Some(Over::Completed);
                    return Ok(bytes.len());
                }
                ResponsePart::Head(_) | ResponsePart::Incomplete => return Ok(used),
            }
        }
    }
}

/// Handles a last line of HTTP streaming without a line end. An event of SSE must have one.
pub(super) fn end_line(
    parser: &mut Parser<'_>,
    rest: &[u8],
    stage: &mut Stage,
    resume_state: &mut impl ResumeState,
) -> anyhow::Result<()> {
    match lines::last(rest) {
        Some(last) if parser.transport == Transport::HttpStreaming => {
            parser.incoming(last, stage, resume_state)
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Program, Settings};
    use crate::swarm::tests::fed::Fed;
    use proptest::prelude::*;

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
            let mut bytes = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
            for piece in lines.as_bytes().chunks(chunk) {
                bytes.extend(format!("{:x}\r\n", piece.len()).bytes());
                bytes.extend(piece);
                bytes.extend(b"\r\n");
            }
            let settings = Settings { transport: Transport::HttpStreaming, ..Settings::default() };
            let mut fed = Fed::new(&Program::Thalweg, &settings);
            fed.feed_cut(&bytes, &cuts).unwrap();
            prop_assert_eq!((fed.carried_bytes(), fed.session.stage), (0, Stage::Established));
            prop_assert_eq!(fed.receiver.statistics.traffic.envelopes, events);
            fed.feed(b"0\r\n\r\n").unwrap();
            prop_assert_eq!(fed.over, Some(Over::Completed));
        }
    }

    #[test]
    fn a_body_that_ends_with_its_connection_has_no_end_of_its_own() {
        assert!(BodyStream::new(Body::UntilEnd, false).is_none());
        assert!(BodyStream::new(Body::Length(5), false).is_some());
    }
}
