//! The lines of a trace, as the body of a response.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use tokio::time::{Instant, Sleep, sleep};

use crate::{
    config::TRACE_LIFE,
    metrics::Counts,
    traces::{Trace, TraceEnd},
};

/// The lines of a trace, until it ends or its viewer disconnects.
pub(super) struct TraceBody {
    trace: Trace,
    counts: Arc<Counts>,
    end: Pin<Box<Sleep>>,
    heartbeat: Duration,
    /// Fires when a heartbeat is due.
    silence: Pin<Box<Sleep>>,
}

impl TraceBody {
    pub(super) fn new(trace: Trace, counts: &Arc<Counts>, heartbeat: Duration) -> Self {
        counts.traces.add(1);
        Self {
            trace,
            counts: Arc::clone(counts),
            end: Box::pin(sleep(TRACE_LIFE)),
            heartbeat,
            silence: Box::pin(sleep(heartbeat)),
        }
    }

    pub(super) fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.end.as_mut().poll(context).is_ready() {
            self.trace.end(TraceEnd::Time);
        }
        if let Poll::Ready(taken) = self.trace.poll_lines(context) {
            return Poll::Ready(taken.map(|taken| {
                self.counts.trace_lines_dropped.add(taken.dropped);
                self.silence.as_mut().reset(Instant::now() + self.heartbeat);
                taken.text.into()
            }));
        }
        let is_due = self.silence.as_mut().poll(context);
        is_due.map(|()| {
            self.silence.as_mut().reset(Instant::now() + self.heartbeat);
            Some(Bytes::from_static(b"{\"heartbeat\":{}}\n"))
        })
    }
}

impl Drop for TraceBody {
    fn drop(&mut self) {
        self.counts.traces.sub(1);
    }
}
