//! Reading a stream without a consumer, as long as none can be created.

use std::{future::Future, pin::pin, time::Duration};

use thalweg_broker::Follower;
use tokio::time::Instant;

use crate::{
    counts::add,
    direct::{self, Page},
    reader::{Reader, Received},
    sequence::Step,
};

/// The time after which the stream is read without a consumer. Most consumers are created faster.
const DIRECT_AFTER: Duration = Duration::from_millis(50);

/// The pauses between two pages, and after an empty page.
const DIRECT_PAUSE: Duration = Duration::from_millis(25);
const DIRECT_PAUSE_EMPTY: Duration = Duration::from_millis(100);

impl<F: Follower> Reader<F> {
    /// Reads by direct get until a future completes.
    pub(crate) async fn read_until<O>(&mut self, done: impl Future<Output = O>) -> O {
        let mut done = pin!(done);
        let mut pause = if self.notes.is_direct { Duration::ZERO } else { DIRECT_AFTER };
        loop {
            let next = self.sequence.stream_next();
            let page = async {
                tokio::time::sleep(pause).await;
                direct::page(&self.connection, &self.api, &self.state, next).await
            };
            // A page that is dropped has no effect.
            let page = tokio::select! {
                biased;
                output = &mut done => return output,
                page = page => page,
            };
            let is_empty = match page {
                Ok(page) => !self.take_page(page).await,
                Err(error) => {
                    tracing::debug!(stream = self.state.name, "cannot read directly: {error}");
                    true
                }
            };
            pause = if is_empty { DIRECT_PAUSE_EMPTY } else { DIRECT_PAUSE };
        }
    }

    /// Delivers a page. Returns whether it had messages, and all were delivered.
    async fn take_page(&mut self, page: Page) -> bool {
        if !std::mem::replace(&mut self.notes.is_direct, true) {
            let (stream, next) = (&self.state.name, self.sequence.stream_next());
            tracing::info!(stream, next, "reading a stream without a consumer until there is one");
        }
        for found in &page.messages {
            let step = self.sequence.take_in_order(found.sequence);
            let received = Received {
                message: &found.message,
                subject: &found.subject,
                sequence: found.sequence,
                time_ns: found.time_ns,
                pending: page.last_sequence.saturating_sub(found.sequence),
            };
            // Count this before `messages`, so that this count is never larger than that one.
            if matches!(step, Step::Next | Step::Removed(_)) {
                add(&self.counts.messages_direct);
            }
            if self.take_step(step, received).await.is_err() {
                return false;
            }
        }
        // A server that has read all messages is as ready as with a consumer.
        let (mut health, now) = (self.state.health(), Instant::now());
        health.received(now);
        let pending = (page.last_sequence + 1).saturating_sub(self.sequence.stream_next());
        health.pending(pending, now);
        !page.messages.is_empty()
    }
}
