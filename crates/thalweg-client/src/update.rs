//! The updates of a subscription: events and changes of its state.

use std::{ops::Range, time::Duration};

use thalweg_wire::{Before, Envelope, Offset, Position, Topic};

use crate::{Transport, message::Keyed};

/// An update from [`crate::Subscription::next`].
///
/// Each event of a topic from the start on comes exactly once and in order in [`Self::Events`], or is counted in a
/// [`Self::Gap`]. Reconnections do not change this. Topics are independent of each other. A caller that only needs data
/// can ignore [`Self::Connected`] and [`Self::Disconnected`].
#[derive(Debug)]
pub enum Update {
    /// The server has confirmed a topic's subscription on a new connection. This comes once per topic and connection,
    /// right after the first message about the topic, which may be a gap or events. No action is needed.
    Connected(Connected),
    /// At least one event; on a keyed topic perhaps none. Process all of them; to resume from another process, keep
    /// [`Events::position`].
    Events(Events),
    /// Missing events. This comes before the events that follow the gap. A caller that builds a state from events must
    /// rebuild it, for instance with [`crate::Client::read`].
    Gap(Gap),
    /// A topic has ended; others continue. After the last one [`crate::Subscription::next`] returns [`crate::Error::Ended`].
    Ended(TopicEnd),
    /// The connection has ended or failed. The subscription reconnects by itself and resumes. No action is needed.
    Disconnected(Disconnected),
    /// The server has ended the subscription and advises against reconnecting, for instance after a protocol error. From then on
    /// [`crate::Subscription::next`] returns [`crate::Error::Ended`]. Refusals are errors of `next` instead.
    Closed(Closed),
}

/// A confirmed subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connected {
    /// The topic.
    pub topic: Topic,
    /// The cursor: the next event follows it.
    pub position: Position,
    /// The current transport. It may differ between connections if the caller chose none.
    pub transport: Transport,
}

/// Consecutive events of one topic, at least one, from one message. For a value topic: its newest version, as a whole.
/// For a keyed topic: events with their [`Self::keys`]. Events that a newer event of the same key has replaced may be
/// left out, and there may be no events, because a position alone can make the map whole ([`crate::KeyedMap`]).
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
    /// Position of the last event. A later subscription with [`crate::StartAt::After`] continues with the next event,
    /// over any transport.
    pub position: Position,
    /// Offset of the event before the first, if it is not the offset just before.
    pub(crate) after: Option<Offset>,
    /// The server's message, and the places of its events.
    pub(crate) text: String,
    pub(crate) spans: Vec<(Offset, Range<usize>)>,
    pub(crate) keyed: Option<Keyed>,
    pub(crate) patch: Option<String>,
}

/// Missing events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// The topic.
    pub topic: Topic,
    /// The next event follows this position.
    pub position: Position,
    /// Number of events; `None` if unknown ([`GapReason::Epoch`], or offsets that are not consecutive).
    pub missed: Option<Offset>,
    /// The reason.
    pub reason: GapReason,
}

/// The reason for missing events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GapReason {
    /// The subscriber fell behind the history while connected: read faster, ask for an `interval`, or increase the
    /// server's retention.
    Slow,
    /// The cursor was older than the history when the subscription began or resumed: the client was disconnected for too long.
    Trimmed,
    /// The stream has another epoch than the cursor: the server has lost its history, or the topic was deleted and
    /// created again. The offsets restart. All events that the server still has follow.
    Epoch,
    /// A value topic: the server does not have the newest version, for instance after a restart. Until the next version
    /// comes, it is unknown whether the last one is the newest.
    Unknown,
    /// The offsets jumped without an announcement. No server of this version does that.
    Unannounced,
}

/// The end of a topic, as the server sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicEnd {
    /// The topic.
    pub topic: Topic,
    /// The last position.
    pub position: Position,
    /// The reason: `deleted`, `gone`, `slow` or `trimmed` (the policy is [`crate::Policy::Close`], and events are
    /// missing), or a code that this version does not know (`docs/reference/messages.md`, "End").
    pub code: String,
    /// The reason as a short phrase.
    pub reason: String,
}

/// An ended connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disconnected {
    /// The reason as one clause.
    pub why: String,
    /// The wait before the next attempt, while the caller awaits [`crate::Subscription::next`].
    pub retry_in: Duration,
}

/// The end of the subscription, as the server sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    /// A close code of `docs/reference/errors.md`, "Close".
    pub code: u16,
    /// The reason as a short phrase.
    pub reason: String,
}

impl Events {
    /// Returns the events, each a JSON value as published, with their rising offsets.
    pub fn iter(&self) -> impl Iterator<Item = (Offset, &str)> {
        self.spans.iter().map(|(offset, span)| (*offset, &self.text[span.clone()]))
    }

    /// Returns the key of each event of a keyed topic; `None` for other topics.
    /// The event `null` removes its key.
    pub fn keys(&self) -> Option<&[String]> {
        self.keyed.as_ref().map(|keyed| &*keyed.keys)
    }

    /// Returns the offset before which a map of a keyed topic may lack events, if the message has one.
    pub fn until(&self) -> Option<Offset> {
        self.keyed.as_ref().and_then(|keyed| keyed.until)
    }

    /// Returns the JSON Patch (RFC 6902) from the previous version of a value topic to the newest. `None` if the
    /// version came whole.
    pub fn patch(&self) -> Option<&str> {
        self.patch.as_deref()
    }

    /// Returns the number of events: at least one, except on a keyed topic.
    pub fn count(&self) -> usize {
        self.spans.len()
    }

    /// Keeps the first `count` events and drops the others. The position becomes that of the last kept event; with
    /// `count` 0 the position stays.
    pub fn truncate(&mut self, count: usize) {
        if count >= self.spans.len() {
            return;
        }
        self.spans.truncate(count);
        if let Some(keyed) = &mut self.keyed {
            keyed.keys.truncate(count);
            // A part of a page is not a whole map.
            keyed.until = Some(keyed.until.unwrap_or(0).max(self.position.offset));
        }
        if let Some((last, _)) = self.spans.last() {
            self.position.offset = *last;
        }
    }

    /// Returns the envelope of exactly these events as JSON.
    pub fn to_envelope(&self) -> String {
        let events: Vec<&str> = self.iter().map(|(_, event)| event).collect();
        let offsets: Vec<Offset> = self.spans.iter().map(|(offset, _)| *offset).collect();
        let is_consecutive = offsets.windows(2).all(|pair| pair[0].checked_add(1) == Some(pair[1]));
        let next = self.position.offset.saturating_add(u64::from(self.keyed.is_some()));
        let first = offsets.first().copied().unwrap_or(next);
        let after = self.after.filter(|after| after.checked_add(1) != Some(first));
        let keys = |keyed: &Keyed| {
            let as_json = |key: &String| serde_json::Value::from(key.as_str()).to_string();
            keyed.keys.iter().map(as_json).collect::<Vec<_>>().join(",")
        };
        let keys = self.keyed.as_ref().map(keys);
        let mut out = Vec::new();
        Envelope {
            topic: &self.topic,
            epoch: self.position.epoch,
            first,
            last: self.position.offset,
            before: after.map_or(Before::Adjacent, Before::Event),
            offsets: (!is_consecutive).then_some(&offsets),
            keyed: keys
                .as_ref()
                .map(|keys| thalweg_wire::Keyed { keys: keys.as_bytes(), until: self.until() }),
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
    /// Returns the reason as one clause.
    pub fn text(self) -> &'static str {
        match self {
            Self::Slow => "the subscriber fell behind the history",
            Self::Trimmed => "they are older than the history",
            Self::Epoch => "the stream has a new epoch",
            Self::Unknown => "the server does not have the newest version",
            Self::Unannounced => "the offsets jumped without an announcement",
        }
    }
}
