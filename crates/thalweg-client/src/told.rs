//! What a subscription tells.

use std::{ops::Range, time::Duration};

use thalweg_wire::{Envelope, Offset, Position, Topic};

use crate::Transport;

/// What came next.
#[derive(Debug)]
pub enum Told {
    /// The server has confirmed a topic's subscription; from here on nothing is
    /// lost in silence. Told for each topic, after each connection.
    Connected(Connected),
    /// Events.
    Events(Events),
    /// Events that will not come.
    Gap(Gap),
    /// The connection has ended, or could not be made; it will be tried again.
    Disconnected(Disconnected),
    /// The server has ended the subscription for good. Nothing comes after it.
    Closed(Closed),
}

/// A confirmed subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connected {
    /// The topic.
    pub topic: Topic,
    /// Where it is.
    pub position: Position,
    /// Over what.
    pub transport: Transport,
}

/// Consecutive events of one topic, at least one.
#[derive(Debug, Clone)]
pub struct Events {
    /// The topic.
    pub topic: Topic,
    /// That of the last event: resume with it.
    pub position: Position,
    /// What the server sent, and where in it the events are.
    pub(crate) text: String,
    pub(crate) spans: Vec<(Offset, Range<usize>)>,
}

/// Events that will not come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// The topic.
    pub topic: Topic,
    /// The next event is the one after it.
    pub position: Position,
    /// How many, where that can be known.
    pub missed: Option<Offset>,
    /// Why.
    pub reason: GapReason,
}

/// Why events will not come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GapReason {
    /// The subscriber fell behind the history.
    Slow,
    /// The cursor was older than the history.
    Trimmed,
    /// The stream began again.
    Epoch,
    /// The offsets jumped, and the server said nothing.
    Unannounced,
}

/// An ended connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disconnected {
    /// One clause saying why.
    pub why: String,
    /// The next attempt begins so long from now.
    pub again_in: Duration,
}

/// The end, as the server gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    /// Close code.
    pub code: u16,
    /// One short phrase.
    pub reason: String,
}

impl Events {
    /// The events as JSON, with their offsets.
    pub fn iter(&self) -> impl Iterator<Item = (Offset, &str)> {
        self.spans.iter().map(|(offset, span)| (*offset, &self.text[span.clone()]))
    }

    /// How many: at least one.
    pub fn count(&self) -> usize {
        self.spans.len()
    }

    /// Leaves the first `count` events and takes the others away.
    pub fn truncate(&mut self, count: usize) {
        self.spans.truncate(count);
        if let Some((last, _)) = self.spans.last() {
            self.position.offset = *last;
        }
    }

    /// The envelope of exactly these events, as JSON.
    pub fn to_envelope(&self) -> String {
        let events: Vec<&str> = self.iter().map(|(_, event)| event).collect();
        let offsets: Vec<Offset> = self.spans.iter().map(|(offset, _)| *offset).collect();
        let is_consecutive = offsets.windows(2).all(|pair| pair[0].checked_add(1) == Some(pair[1]));
        let mut out = Vec::new();
        Envelope {
            topic: &self.topic,
            epoch: self.position.epoch,
            first: offsets.first().copied().unwrap_or(self.position.offset),
            last: self.position.offset,
            offsets: (!is_consecutive).then_some(&offsets),
            events: events.join(",").as_bytes(),
        }
        .write(&mut out);
        String::from_utf8(out).unwrap_or_default()
    }
}

impl From<thalweg_wire::GapReason> for GapReason {
    fn from(reason: thalweg_wire::GapReason) -> Self {
        match reason {
            thalweg_wire::GapReason::Slow => Self::Slow,
            thalweg_wire::GapReason::Trimmed => Self::Trimmed,
            thalweg_wire::GapReason::Epoch => Self::Epoch,
        }
    }
}

impl GapReason {
    /// One clause for people.
    pub fn text(self) -> &'static str {
        match self {
            Self::Slow => "the subscriber fell behind the history",
            Self::Trimmed => "they are older than the history",
            Self::Epoch => "the stream has begun again",
            Self::Unannounced => "the offsets jumped and the server said nothing",
        }
    }
}
