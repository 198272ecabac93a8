//! Long polling over HTTP/1.1: answers one after the other on a connection that
//! is kept open, each followed at once by the next poll.

use super::answer::{Part, Reader};
use super::cursors::Cursors;
use super::inbox::{Parser, Stage};
use anyhow::bail;

/// The polls of one subscriber.
#[derive(Debug)]
pub(super) struct Polls {
    cursors: Cursors,
    reader: Reader,
    searched: u32,
    /// Part of a line.
    carry: Vec<u8>,
}

impl Polls {
    pub(super) fn new(topics: u32) -> Polls {
        let (cursors, reader) = (Cursors::new(topics), Reader::default());
        Polls { cursors, reader, searched: 0, carry: Vec::new() }
    }

    /// Takes the connection's bytes apart and polls again behind each answer; says
    /// how many are done with.
    pub(super) fn parse(
        &mut self,
        parser: &mut Parser<'_>,
        bytes: &[u8],
        stage: &mut Stage,
    ) -> anyhow::Result<usize> {
        let Polls { cursors, reader, searched, carry } = self;
        let mut used = 0;
        loop {
            let (part, length) = reader.step(&bytes[used..])?;
            used += length;
            match part {
                Part::Head(200) => *stage = parser.inbox.opened(*stage),
                Part::Head(status) => bail!("the subject answered {status} to a poll"),
                Part::Body(piece) => parser.piece(piece, carry, stage, searched, cursors)?,
                Part::End => {
                    check_end(carry, *stage)?;
                    parser.asking.again(cursors, parser.replies);
                }
                Part::Incomplete => return Ok(used),
            }
        }
    }
}

/// The answer to a poll is whole: so are its lines, and they have said where every
/// topic is.
pub(super) fn check_end(carry: &[u8], stage: Stage) -> anyhow::Result<()> {
    if !carry.is_empty() {
        bail!("the answer to a poll ended in the middle of a line");
    }
    if stage != Stage::Standing {
        bail!("the answer to a poll does not say where every topic is");
    }
    Ok(())
}
