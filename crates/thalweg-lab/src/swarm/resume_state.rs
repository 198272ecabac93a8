//! Where a subscriber resumes after an answer ends: each poll's, and a forever frame's when its document has grown large.

use anyhow::bail;

/// Sixteen digits of epoch, a dot, sixteen of offset (docs/reference/topics.md).
const POSITION_BYTES_MAX: usize = 33;

/// State that a subscriber keeps in order to resume.
pub(super) trait ResumeState {
    /// Records that everything of this topic up to the position has arrived.
    fn reached(&mut self, topic: usize, position: &[u8]) -> anyhow::Result<()>;
    /// Notes that the document must be loaded again. Returns whether that is possible.
    fn reload(&mut self) -> bool;
}

/// No state is needed if a single answer lasts.
pub(super) struct Nothing;

impl ResumeState for Nothing {
    #[inline]
    fn reached(&mut self, _topic: usize, _position: &[u8]) -> anyhow::Result<()> {
        Ok(())
    }

    fn reload(&mut self) -> bool {
        false
    }
}

/// A subscriber's cursor in each of its topics.
#[derive(Debug)]
pub(super) struct Positions {
    positions: Box<[Position]>,
    must_reload: bool,
}

#[derive(Clone, Copy, Debug)]
struct Position {
    length: u8,
    bytes: [u8; POSITION_BYTES_MAX],
}

impl Positions {
    pub(super) fn new(topics: u32) -> Positions {
        let unknown = Position { length: 0, bytes: [0; POSITION_BYTES_MAX] };
        Positions { positions: vec![unknown; topics as usize].into(), must_reload: false }
    }

    /// Returns whether the positions of all topics are known.
    pub(super) fn are_known(&self) -> bool {
        self.positions.iter().all(|position| position.length > 0)
    }

    /// Returns whether the document must be loaded again, and clears this request.
    pub(super) fn take_reload(&mut self) -> bool {
        std::mem::take(&mut self.must_reload)
    }

    /// Appends the positions to a target, which may have a query already.
    pub(super) fn write(&self, out: &mut Vec<u8>, has_query: bool) {
        for (index, Position { length, bytes }) in self.positions.iter().enumerate() {
            out.push(if index == 0 && !has_query { b'?' } else { b'&' });
            out.extend_from_slice(b"cursor=");
            out.extend_from_slice(&bytes[..usize::from(*length)]);
        }
    }
}

impl ResumeState for Positions {
    fn reached(&mut self, topic: usize, position: &[u8]) -> anyhow::Result<()> {
        let Some(room) = self.positions.get_mut(topic) else { return Ok(()) };
        // The next request contains the position unchanged.
        let is_plain = position.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b'.');
        if position.is_empty() || position.len() > POSITION_BYTES_MAX || !is_plain {
            bail!("not a position: {}", super::carrier::shown(position));
        }
        room.length = position.len() as u8;
        room.bytes[..position.len()].copy_from_slice(position);
        Ok(())
    }

    fn reload(&mut self) -> bool {
        self.must_reload = true;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_topic_resumes_at_its_own_cursor() {
        let mut cursors = Positions::new(2);
        cursors.reached(1, b"ffffffffffffffff.9007199254740991").unwrap();
        assert!(!cursors.are_known());
        cursors.reached(0, b"9f3c21.1042").unwrap();
        cursors.reached(0, b"9f3c21.7").unwrap();
        assert!(cursors.are_known());
        let mut query = Vec::new();
        cursors.write(&mut query, false);
        assert_eq!(query, b"?cursor=9f3c21.7&cursor=ffffffffffffffff.9007199254740991");
        for bad in [&b""[..], b"1.2 HTTP/1.1", &[b'1'; 34]] {
            assert!(cursors.reached(0, bad).is_err());
        }
    }
}
