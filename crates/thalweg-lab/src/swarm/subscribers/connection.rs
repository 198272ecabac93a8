//! One connection: its bytes, and its state.

use crate::swarm::link::Link;
use crate::swarm::protocol_session::ProtocolSession;
use crate::swarm::socket::{Interest, Poller};
use anyhow::bail;

/// Limit of bytes that wait for a full socket.
const UNSENT_BYTES_MAX: usize = 1 << 20;

/// Small, because there are many.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) link: Link,
    pub(super) session: ProtocolSession,
    pub(super) carry: Vec<u8>,
    pub(super) unsent: Option<Box<Unsent>>,
}

#[derive(Debug)]
pub(super) struct Unsent(Vec<u8>);

impl Connection {
    pub(super) fn unsent_bytes(&self) -> usize {
        self.unsent.as_ref().map_or(0, |unsent| unsent.0.len())
    }

    /// Sends waiting bytes, then these; the rest waits. The poller reports when the kernel takes more.
    pub(super) fn send(
        &mut self,
        index: usize,
        bytes: &[u8],
        poller: &Poller,
    ) -> anyhow::Result<()> {
        let waits = self.unsent.is_some();
        let mut pending = self.unsent.take().map(|unsent| unsent.0).unwrap_or_default();
        let mut rest = bytes;
        if waits {
            pending.extend_from_slice(bytes);
            rest = &pending;
        }
        self.link.flush()?;
        while !rest.is_empty() {
            match self.link.write(rest)? {
                Some(length) => rest = &rest[length..],
                None => break,
            }
        }
        let unsent_bytes = rest.len();
        let must_wait = !rest.is_empty() || self.link.has_unsent();
        if must_wait {
            self.unsent = Some(Box::new(Unsent(rest.to_vec())));
        }
        if unsent_bytes > UNSENT_BYTES_MAX {
            bail!("the server does not read: {unsent_bytes} bytes wait");
        }
        if must_wait != waits {
            let interest = if must_wait { Interest::ReadAndWrite } else { Interest::Read };
            poller.change(self.link.socket(), index as u64, interest)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_small() {
        assert!(size_of::<Connection>() <= 88, "{}", size_of::<Connection>());
    }
}
