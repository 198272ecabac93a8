//! Traces: lines about all that a subject does on this server and is refused, for those who run the server.
//!
//! A place that ends an action calls [`Traces::note`]. Without a trace that is one relaxed load, and the path of events to
//! subscribers calls nothing here. A trace never waits for its viewer: its queue is bounded, and lines that do not fit are
//! only counted. Lines have neither tokens nor data of events.
//!
//! - `action`: an action of a subject

mod action;

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll, Waker},
};

use serde::Serialize;

use crate::{
    access::{Allowed, TraceSubject},
    clock::unix_ms,
    config::{TRACE_LIFE, TRACE_LINES_MAX, TRACE_PIECE_BYTES, TRACES_MAX},
    refusal::Refusal,
};
pub(crate) use action::Action;

/// The open traces of a server.
#[derive(Debug, Default)]
pub(crate) struct Traces {
    /// The number of open traces, for a check without a lock.
    count: AtomicUsize,
    open: RwLock<OpenTraces>,
}

#[derive(Debug, Default)]
struct OpenTraces {
    traces: Vec<Arc<TracedSubject>>,
    is_draining: bool,
}

/// A traced subject, and the lines that the viewer has not taken.
#[derive(Debug)]
struct TracedSubject {
    subject: Box<str>,
    lines: Mutex<Lines>,
}

#[derive(Debug, Default)]
struct Lines {
    waiting: VecDeque<Vec<u8>>,
    /// Lines that did not fit after the last waiting one.
    dropped: u64,
    /// Lines that did not fit since the viewer last took some.
    uncounted: u64,
    /// Whether the last line is there.
    is_over: bool,
    viewer: Option<Waker>,
}

/// A trace, which is open until this value is dropped.
#[derive(Debug)]
pub(crate) struct Trace {
    traces: Arc<Traces>,
    traced: Arc<TracedSubject>,
}

/// The lines that a viewer takes at a time.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct TakenLines {
    pub(crate) text: Vec<u8>,
    /// The lines that were left out before or between these.
    pub(crate) dropped: u64,
}

/// The reason for which the server ends a trace.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TraceEnd {
    /// It has lasted for [`TRACE_LIFE`].
    Time,
    Draining,
}

impl Traces {
    /// Returns whether a subject is traced.
    #[inline]
    pub(crate) fn has(&self, subject: &str) -> bool {
        self.count.load(Relaxed) > 0 && !subject.is_empty() && self.finds(subject)
    }

    /// Returns whether any subject is traced.
    #[inline]
    pub(crate) fn has_any(&self) -> bool {
        self.count.load(Relaxed) > 0
    }

    /// Adds a line to the traces of a subject, if it has any.
    #[inline]
    pub(crate) fn note(&self, subject: &str, action: impl FnOnce() -> Action) {
        if self.has(subject) {
            self.add(subject, &action());
        }
    }

    #[cold]
    fn finds(&self, subject: &str) -> bool {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.traces.iter().any(|traced| *traced.subject == *subject)
    }

    #[cold]
    fn add(&self, subject: &str, action: &Action) {
        let line = line(action);
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        for traced in open.traces.iter().filter(|traced| *traced.subject == *subject) {
            traced.lines().push(line.clone());
        }
    }

    /// Ends all traces of a server that drains, and opens no more.
    pub(crate) fn drain(&self) {
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        open.is_draining = true;
        open.traces.iter().for_each(|traced| traced.lines().end(TraceEnd::Draining));
    }
}

impl Trace {
    /// Begins a trace with a line about it. Fails with `Busy` if too many are open, or `Draining`.
    pub(crate) fn open(
        traces: &Arc<Traces>,
        wanted: Allowed<TraceSubject>,
    ) -> Result<Self, Refusal> {
        let TraceSubject(subject) = wanted.into_inner();
        let mut open = traces.open.write().unwrap_or_else(PoisonError::into_inner);
        if open.is_draining {
            return Err(Refusal::draining());
        }
        if open.traces.len() >= TRACES_MAX {
            return Err(Refusal::busy(
                "too many traces are open at this server: close one, or try again later",
            ));
        }
        let begin = serde_json::json!({
            "at_ms": unix_ms(), "what": "begin", "subject": &*subject, "ends_in_s": TRACE_LIFE.as_secs(),
        });
        let waiting = VecDeque::from([with_break(begin.to_string())]);
        let lines = Mutex::new(Lines { waiting, ..Lines::default() });
        let traced = Arc::new(TracedSubject { subject, lines });
        open.traces.push(Arc::clone(&traced));
        traces.count.store(open.traces.len(), Relaxed);
        Ok(Self { traces: Arc::clone(traces), traced })
    }

    /// Ends the trace with a line about the reason. The viewer still takes the waiting lines.
    pub(crate) fn end(&self, reason: TraceEnd) {
        self.traced.lines().end(reason);
    }

    /// Takes the next lines, of about [`TRACE_PIECE_BYTES`]. Returns `None` if the trace is over and has no more.
    pub(crate) fn poll_lines(&self, context: &mut Context<'_>) -> Poll<Option<TakenLines>> {
        self.traced.lines().poll_take(context)
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let mut open = self.traces.open.write().unwrap_or_else(PoisonError::into_inner);
        open.traces.retain(|traced| !Arc::ptr_eq(traced, &self.traced));
        self.traces.count.store(open.traces.len(), Relaxed);
    }
}

impl TracedSubject {
    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lines {
    fn push(&mut self, line: Vec<u8>) {
        if self.is_over {
            return;
        }
        if self.waiting.len() >= TRACE_LINES_MAX {
            self.dropped += 1;
            self.uncounted += 1;
            return;
        }
        self.note_dropped();
        self.waiting.push_back(line);
        self.wake();
    }

    fn end(&mut self, reason: TraceEnd) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        let reason = match reason {
            TraceEnd::Time => "time",
            TraceEnd::Draining => "draining",
        };
        self.note_dropped();
        self.waiting.push_back(line(&Action { reason: Some(reason), ..Action::new("end") }));
        self.wake();
    }

    /// Adds a line about the lines that were dropped here.
    fn note_dropped(&mut self) {
        let lines = std::mem::take(&mut self.dropped);
        if lines > 0 {
            self.waiting.push_back(line(&Action { lines: Some(lines), ..Action::new("dropped") }));
        }
    }

    fn wake(&mut self) {
        if let Some(viewer) = self.viewer.take() {
            viewer.wake();
        }
    }

    fn poll_take(&mut self, context: &mut Context<'_>) -> Poll<Option<TakenLines>> {
        let mut text = Vec::new();
        while text.len() < TRACE_PIECE_BYTES
            && let Some(line) = self.waiting.pop_front()
        {
            text.extend_from_slice(&line);
        }
        if self.waiting.is_empty() {
            self.note_dropped();
        }
        if !text.is_empty() {
            let dropped = std::mem::take(&mut self.uncounted);
            return Poll::Ready(Some(TakenLines { text, dropped }));
        }
        if self.is_over {
            return Poll::Ready(None);
        }
        self.viewer = Some(context.waker().clone());
        Poll::Pending
    }
}

/// Returns an action as a line.
fn line(action: &Action) -> Vec<u8> {
    #[derive(Serialize)]
    struct Line<'a> {
        at_ms: i64,
        #[serde(flatten)]
        action: &'a Action,
    }
    let line = Line { at_ms: unix_ms(), action };
    // Every value has a JSON form.
    with_break(serde_json::to_string(&line).unwrap_or_default())
}

fn with_break(mut line: String) -> Vec<u8> {
    line.push('\n');
    line.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines() -> Lines {
        Lines::default()
    }

    /// Takes everything. Returns what each line says, and how many lines were counted as dropped.
    fn take(lines: &mut Lines) -> (Vec<serde_json::Value>, u64) {
        let (mut text, mut dropped) = (Vec::new(), 0);
        while let Poll::Ready(Some(taken)) =
            lines.poll_take(&mut Context::from_waker(Waker::noop()))
        {
            assert!(taken.text.len() < TRACE_PIECE_BYTES + 200, "one more line at most");
            text.extend_from_slice(&taken.text);
            dropped += taken.dropped;
        }
        let text = String::from_utf8(text).unwrap();
        (text.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), dropped)
    }

    fn add(lines: &mut Lines, count: usize) {
        for _ in 0..count {
            lines.push(line(&Action::new("echo")));
        }
    }

    #[test]
    fn a_viewer_that_does_not_read_loses_lines_and_learns_how_many() {
        let mut lines = lines();
        add(&mut lines, TRACE_LINES_MAX + 7);
        assert_eq!(lines.waiting.len(), TRACE_LINES_MAX);
        lines.waiting.pop_front();
        // One line has room now, after another one about the lines that had none.
        add(&mut lines, 3);
        assert_eq!(lines.waiting.len(), TRACE_LINES_MAX + 1);
        let (taken, dropped) = take(&mut lines);
        assert_eq!((taken.len(), dropped), (TRACE_LINES_MAX + 2, 9));
        let last: Vec<_> = taken[TRACE_LINES_MAX - 2..]
            .iter()
            .map(|line| (line["what"].as_str().unwrap(), line["lines"].as_u64()))
            .collect();
        assert_eq!(
            last,
            [("echo", None), ("dropped", Some(7)), ("echo", None), ("dropped", Some(2))]
        );
        assert_eq!(take(&mut lines), (Vec::new(), 0));
    }

    #[test]
    fn an_ended_trace_says_why_and_takes_no_more_lines() {
        let mut lines = lines();
        add(&mut lines, 1);
        lines.end(TraceEnd::Time);
        lines.end(TraceEnd::Draining);
        add(&mut lines, 1);
        let (taken, _) = take(&mut lines);
        let reasons: Vec<_> = taken.iter().map(|line| line["reason"].as_str()).collect();
        assert_eq!(reasons, [None, Some("time")]);
        let polled = lines.poll_take(&mut Context::from_waker(Waker::noop()));
        assert_eq!(polled, Poll::Ready(None));
    }

    #[test]
    fn hostile_texts_are_escaped() {
        let hostile = "\"\n{\u{0}\u{2028}";
        let action = Action { key: Some(hostile.to_owned()), ..Action::new("publish") };
        let text = String::from_utf8(line(&action)).unwrap();
        assert_eq!(text.matches('\n').count(), 1);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["key"], hostile);
    }
}
