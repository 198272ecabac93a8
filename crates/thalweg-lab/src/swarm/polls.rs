//! Long polling over HTTP/1.1: consecutive answers on a connection that is kept open, each followed at once by the next poll.

use super::carrier::PieceDecoder;
use super::http_response::{Reader, ResponsePart};
use super::parser::{Parser, Stage};
use super::resume_state::Positions;
use anyhow::bail;

#[derive(Debug)]
pub(super) struct Polls {
    cursors: Positions,
    reader: Reader,
    decoder: PieceDecoder,
}

impl Polls {
    pub(super) fn new(topics: u32) -> Polls {
        let cursors = Positions::new(topics);
        Polls { cursors, reader: Reader::default(), decoder: PieceDecoder::default() }
    }

    /// Parses the connection's bytes and polls again after each answer; returns the number consumed.
    pub(super) fn parse(
        &mut self,
        parser: &mut Parser<'_>,
        bytes: &[u8],
        stage: &mut Stage,
    ) -> anyhow::Result<usize> {
        let Polls { cursors, reader, decoder } = self;
        let mut used = 0;
        loop {
            let (part, length) = reader.step(&bytes[used..])?;
            used += length;
            match part {
                ResponsePart::Head(200) => {
                    *stage = parser.opened(*stage);
                    parser.receiver.keep_first_head(parser.index, &bytes[used - length..used]);
                }
                ResponsePart::Head(status) => bail!("the subject answered {status} to a poll"),
                ResponsePart::Body(piece) => parser.piece(piece, stage, decoder, cursors)?,
                ResponsePart::End => {
                    check_end(decoder.rest(), *stage)?;
                    parser.request.again(parser.index, cursors, parser.replies);
                }
                ResponsePart::Incomplete => return Ok(used),
            }
        }
    }
}

/// Checks that the answer to a poll ends with a whole line, and that every topic's position is known.
pub(super) fn check_end(rest: &[u8], stage: Stage) -> anyhow::Result<()> {
    if !rest.is_empty() {
        bail!("the answer to a poll ended in the middle of a line");
    }
    if stage != Stage::Established {
        bail!("the answer to a poll lacks the position of a topic");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::scenario::{Program, Settings, Transport};
    use crate::swarm::tests::fed::Fed;
    use proptest::prelude::*;

    fn envelope(topic: usize, position: usize, events: &str) -> String {
        format!(
            "{{\"topic\":\"bench/{topic}\",\"position\":\"1.{position}\",\"first\":1,\"events\":[{events}]}}\n"
        )
    }

    /// Returns answers of a subject with two topics: to each poll this many events of the first, in chunks of this size unless 0.
    fn answers(polls: &[(usize, usize)]) -> Vec<u8> {
        let (mut bytes, mut position) = (Vec::new(), 0);
        for (events, chunk) in polls {
            let mut lines = envelope(0, position, "") + &envelope(1, 7, "");
            for _ in 0..*events {
                position += 1;
                lines += &envelope(0, position, "{\"id\":1}");
            }
            bytes.extend(b"HTTP/1.1 200 OK\r\n");
            if *chunk == 0 {
                bytes.extend(format!("Content-Length: {}\r\n\r\n{lines}", lines.len()).bytes());
                continue;
            }
            bytes.extend(b"Transfer-Encoding: chunked\r\n\r\n");
            for piece in lines.as_bytes().chunks(*chunk) {
                let piece = String::from_utf8_lossy(piece);
                bytes.extend(format!("{:x}\r\n{piece}\r\n", piece.len()).bytes());
            }
            bytes.extend(b"0\r\n\r\n");
        }
        bytes
    }

    /// Returns the polls that follow these bytes, cut in this way, and the number of envelopes.
    fn polled(bytes: &[u8], cuts: &[usize]) -> anyhow::Result<(String, u64)> {
        let settings =
            Settings { transport: Transport::LongPolling, topics: 2, ..Settings::default() };
        let mut fed = Fed::new(&Program::Thalweg, &settings);
        fed.feed_cut(bytes, cuts)?;
        Ok((String::from_utf8(fed.replies)?, fed.receiver.statistics.traffic.envelopes))
    }

    proptest! {
        #[test]
        fn cuts_anywhere_change_nothing(
            polls in prop::collection::vec((0usize..4, 0usize..90), 1..6),
            cuts in prop::collection::vec(any::<usize>(), 0..100),
        ) {
            let (replies, envelopes) = polled(&answers(&polls), &cuts).unwrap();
            let mut position = 0;
            let mut expected = String::new();
            for (events, _) in &polls {
                position += events;
                expected += &format!(
                    "GET /v1/topics?topic=bench/0&topic=bench/1&transport=long-polling&wait=25s\
                     &cursor=1.{position}&cursor=1.7 HTTP/1.1\r\n\
                     Host: 127.0.0.1:9\r\nAccept: */*\r\n\r\n"
                );
            }
            prop_assert_eq!(replies, expected);
            prop_assert_eq!(envelopes, position as u64);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let head = b"HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\n";
            let _ = polled(&[head, &bytes[..]].concat(), &[3, 50]);
        }
    }

    #[test]
    fn malformed_answers_to_polls_are_refused() {
        let check = |head: &str, body: &str, reason: &str| {
            let bytes = format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            let error = polled(bytes.as_bytes(), &[]).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        };
        check("HTTP/1.1 503 x", "{}", "answered 503 to a poll");
        check("HTTP/1.1 200 OK", "", "lacks the position");
        check("HTTP/1.1 200 OK", &envelope(0, 1, ""), "lacks the position");
        let both = envelope(0, 1, "") + &envelope(1, 1, "");
        check("HTTP/1.1 200 OK", &(both + "{"), "in the middle of a line");
    }
}
