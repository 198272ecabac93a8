//! The updates of a subscription: events, and whatever else happens to it.

use std::{ops::Range, time::Duration};

use thalweg_wire::{Before, Envelope, Offset, Position, Topic};

use crate::Transport;

/// What [`crate::Subscription::next`] gives.
///
/// For each topic, every event from its start on comes exactly once and in order, in
/// [`Self::Events`], or is counted in a [`Self::Gap`]; connections may come and go meanwhile.
/// Topics are independent of each other. A caller that wants only the data can leave
/// [`Self::Connected`] and [`Self::Disconnected`] alone.
#[derive(Debug)]
pub enum Update {
    /// The server has confirmed a topic's subscription, on a new connection. It comes once
    /// for each topic and connection, right after what the server first said about the
    /// topic: that may be a gap or events. Nothing is to be done.
    Connected(Connected),
    /// At least one event. Process them all; to go on later from another process, keep
    /// [`Events::position`].
    Events(Events),
    /// Events that this subscription will not get. It comes before the events that follow
    /// the gap. A caller that builds a state from events has to build it anew, for instance
    /// with [`crate::Client::read`].
    Gap(Gap),
    /// A topic has ended, and nothing of it comes any more; the others go on. After the last one
    /// [`crate::Subscription::next`] is [`crate::Error::Ended`].
    Ended(TopicEnd),
    /// The connection has ended, or could not be made. The subscription makes another by
    /// itself and resumes where it was. Nothing is to be done.
    Disconnected(Disconnected),
    /// The server has ended the subscription and advises against coming back, for instance
    /// because it has found a protocol error. Nothing comes after it:
    /// [`crate::Subscription::next`] is [`crate::Error::Ended`] from then on. Refusals are
    /// errors of `next`, not this.
    Closed(Closed),
}

/// A confirmed subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connected {
    /// The topic.
    pub topic: Topic,
    /// The cursor: the next event is the one after it.
    pub position: Position,
    /// The one in use. It may differ from connection to connection if none was asked for.
    pub transport: Transport,
}

/// Events of one topic, at least one and none left out, as they came in one message. Of a value topic
/// it is one, the newest version, whole.
///
/// ```no_run
/// # fn example(events: &thalweg_client::Events) -> Result<(), serde_json::Error> {
/// for (offset, event) in events.iter() {
///     let event: serde_json::Value = serde_json::from_str(event)?;
///     println!("{}.{offset}: {event}", events.position.epoch);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Events {
    /// The topic.
    pub topic: Topic,
    /// Position of the last event. A later subscription with [`crate::StartAt::After`] it
    /// goes on with the event after it, over any transport.
    pub position: Position,
    /// Offset of the event before the first, where that is known not to be the offset just before.
    pub(crate) after: Option<Offset>,
    /// What the server sent, and where in it the events are.
    pub(crate) text: String,
    pub(crate) spans: Vec<(Offset, Range<usize>)>,
    pub(crate) patch: Option<String>,
}

/// Events that will not come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// The topic.
    pub topic: Topic,
    /// The next event is the one after it.
    pub position: Position,
    /// How many events; `None` if that cannot be known ([`GapReason::Epoch`], or offsets that are
    /// not consecutive).
    pub missed: Option<Offset>,
    /// Why they will not come.
    pub reason: GapReason,
}

/// Why events will not come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GapReason {
    /// The subscriber fell behind the history while it was connected: read faster, ask for
    /// an `interval`, or have the server keep more history.
    Slow,
    /// The cursor was older than the history when the subscription began or was resumed: it
    /// was away for too long.
    Trimmed,
    /// The stream is another one than the cursor's: the server has lost its history, or the topic was
    /// deleted and made again. Its offsets begin again. Everything that it still has follows.
    Epoch,
    /// Of a value topic: the server does not have the newest version, for instance because it was
    /// restarted. Nobody knows whether the version that came last is the newest, until the next one
    /// comes.
    Unknown,
    /// The offsets jumped, and the server said nothing. No server of this version does that.
    Unannounced,
}

/// The end of a topic, as the server gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicEnd {
    /// The topic.
    pub topic: Topic,
    /// The last position that there was.
    pub position: Position,
    /// Why: `deleted`, `gone`, `slow` or `trimmed` (the policy is [`crate::Policy::Close`], and events
    /// are missing), or a code that this version does not know (`docs/wire.md`, "End").
    pub code: String,
    /// The same, as a short phrase for people.
    pub reason: String,
}

/// An ended connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disconnected {
    /// Why, as one clause for people.
    pub why: String,
    /// How long the subscription waits before it connects again. It waits while
    /// [`crate::Subscription::next`] is awaited.
    pub again_in: Duration,
}

/// The end, as the server gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    /// A close code of `docs/wire.md`, "Close".
    pub code: u16,
    /// Why, as a short phrase for people.
    pub reason: String,
}

impl Events {
    /// The events, each a JSON value as it was published, with their offsets, which rise.
    pub fn iter(&self) -> impl Iterator<Item = (Offset, &str)> {
        self.spans.iter().map(|(offset, span)| (*offset, &self.text[span.clone()]))
    }

    /// What makes the newest version of a value topic of the one that came before: a JSON Patch
    /// (RFC 6902). `None` if it came whole.
    pub fn patch(&self) -> Option<&str> {
        self.patch.as_deref()
    }

    /// How many: at least one.
    pub fn count(&self) -> usize {
        self.spans.len()
    }

    /// Keeps the first `count` events and drops the others. The position is then that of
    /// the last one kept; with `count` 0 there are no events left, and the position stays.
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
        let first = offsets.first().copied().unwrap_or(self.position.offset);
        let after = self.after.filter(|after| after.checked_add(1) != Some(first));
        let mut out = Vec::new();
        Envelope {
            topic: &self.topic,
            epoch: self.position.epoch,
            first,
            last: self.position.offset,
            before: after.map_or(Before::Adjacent, Before::Event),
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
            thalweg_wire::GapReason::Unknown => Self::Unknown,
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
            Self::Unknown => "the server does not have the newest version",
            Self::Unannounced => "the offsets jumped and the server said nothing",
        }
    }
}
