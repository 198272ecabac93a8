//! Opens connections until all are established.

use super::Broadcast;
use crate::swarm::PROGRESS_EVERY_US;
use crate::swarm::socket::now_us;
use anyhow::bail;

/// Time limit for establishing all connections: this, plus one millisecond per connection, or five with TLS.
const OPEN_WITHIN_US: u64 = 10_000_000;
const OPEN_EACH_US: u64 = 1000;
const OPEN_TLS_EACH_US: u64 = 5000;
/// If no connection is established for this long, those that wait for an answer are dialed a second time.
const REDIAL_AFTER_US: u64 = 2_000_000;

impl Broadcast<'_> {
    /// Opens all connections; returns the time taken, in µs.
    pub(super) fn open(&mut self) -> anyhow::Result<u64> {
        let start_us = now_us();
        let wanted = self.subscribers.wanted();
        let each_us = if self.published.is_tls() { OPEN_TLS_EACH_US } else { OPEN_EACH_US };
        self.subscribers.open_more(&self.poller)?;
        let mut last = (0, start_us);
        while !self.subscribers.are_all_established() {
            self.turn(PROGRESS_EVERY_US)?;
            let (established, now_us) = (self.subscribers.established(), now_us());
            if established > last.0 {
                last = (established, now_us);
            } else if now_us - last.1 > REDIAL_AFTER_US {
                self.subscribers.redial_unanswered(&self.poller)?;
            }
            if now_us - start_us > OPEN_WITHIN_US + each_us * wanted as u64 {
                bail!(
                    "only {} of {wanted} connections opened in time",
                    self.subscribers.established()
                );
            }
        }
        Ok(now_us() - start_us)
    }
}
