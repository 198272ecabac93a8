//! A stream that is read without a consumer, as long as none can be made.

use std::{future::Future, pin::pin, time::Duration};

use tokio::time::Instant;

use crate::{
    counts::add,
    direct::{self, Page},
    end::Target,
    reader::{Came, Reader},
    sequence::Step,
};

/// How long making a consumer may take before the stream is read without one: most take less.
const DIRECT_AFTER: Duration = Duration::from_millis(50);

/// Between two pages that are read without a consumer, and after one that brought nothing.
const DIRECT_PAUSE: Duration = Duration::from_millis(25);
const DIRECT_PAUSE_EMPTY: Duration = Duration::from_millis(100);

impl<T: Target> Reader<T> {
    /// Reads by direct get until something is done.
    pub(crate) async fn read_until<O>(&mut self, done: impl Future<Output = O>) -> O {
        let mut done = pin!(done);
        let mut pause = if self.notes.is_direct { Duration::ZERO } else { DIRECT_AFTER };
        loop {
            let next = self.sequence.stream_next();
            let page = async {
                tokio::time::sleep(pause).await;
                direct::page(&self.connection, &self.api, &self.state, next).await
            };
            // A page that is given up has changed nothing.
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

    /// Passes on what was read by direct get. Says whether there were messages, and all were taken.
    async fn take_page(&mut self, page: Page) -> bool {
        if !std::mem::replace(&mut self.notes.is_direct, true) {
            let (stream, next) = (&self.state.name, self.sequence.stream_next());
            tracing::info!(stream, next, "reading a stream without a consumer until there is one");
        }
        for found in &page.messages {
            let step = self.sequence.take_in_order(found.sequence);
            let came = Came {
                message: &found.message,
                subject: &found.subject,
                sequence: found.sequence,
                time_ns: found.time_ns,
                pending: page.last_sequence.saturating_sub(found.sequence),
            };
            // Before the message is counted: it is never one that a consumer brought.
            if matches!(step, Step::Next | Step::Removed(_)) {
                add(&self.counts.messages_direct);
            }
            if self.take_step(step, came).await.is_err() {
                return false;
            }
        }
        // A node that reads everything is as ready as with a consumer.
        let (mut health, now) = (self.state.health(), Instant::now());
        health.heard(now);
        let pending = (page.last_sequence + 1).saturating_sub(self.sequence.stream_next());
        health.pending(pending, now);
        !page.messages.is_empty()
    }
}
