//! The cursors of a subscription's topics. They decide which part of a message is new: no event is delivered twice, and
//! missing events are always announced.

use std::{collections::VecDeque, ops::Range};

use thalweg_wire::{Offset, Position, StartAt, Topic, incoming::GapFields};

use crate::{
    Transport,
    document::Document,
    message::{Content, Keyed, Message},
    update::{Connected, Events, Gap, GapReason, TopicEnd, Update},
};

/// The first pages of a keyed topic's state, until the map is whole.
#[derive(Debug, Clone, Copy, Default)]
struct Snapshot {
    /// The least `until` of the pages. For a page without `until`, its offset counts.
    least: Option<Offset>,
    /// The largest `until`.
    until: Offset,
}

#[derive(Debug)]
pub(crate) struct Cursors {
    topics: Vec<Cursor>,
}

#[derive(Debug)]
struct Cursor {
    topic: Topic,
    at: StartAt,
    /// Whether the server has confirmed the subscription on this connection.
    is_confirmed: bool,
    document: Option<Document>,
    /// Whether the topic is known to be a log.
    is_log: bool,
    /// Whether the last message was a gap. On a keyed topic the next envelope is then new, even without events.
    is_after_gap: bool,
    /// Set while the first pages of a keyed topic arrive.
    snapshot: Option<Snapshot>,
    /// Whether a patch did not apply, so that the client requests no more patches.
    rejects_patches: bool,
}

impl Cursors {
    pub(crate) fn new(topics: Vec<Topic>, from: StartAt) -> Self {
        let at_start = |topic| Cursor {
            topic,
            at: from,
            is_confirmed: false,
            document: None,
            is_log: false,
            is_after_gap: false,
            snapshot: None,
            rejects_patches: false,
        };
        Self { topics: topics.into_iter().map(at_start).collect() }
    }

    /// Returns the start of each topic: a position, or a word such as `latest`.
    pub(crate) fn starts(&self) -> Vec<(Topic, StartAt)> {
        self.topics.iter().map(|cursor| (cursor.topic.clone(), cursor.start())).collect()
    }

    /// Returns whether the client can use patches. It cannot if it no longer has the version after which a
    /// topic resumes.
    pub(crate) fn takes_patches(&self) -> bool {
        self.topics.iter().all(|cursor| {
            // Offset 0 has no version.
            let needs_version =
                matches!(cursor.at, StartAt::After(position) if position.offset > 0);
            let has_version = cursor.document.is_some() || !needs_version;
            !cursor.rejects_patches && (has_version || cursor.is_log)
        })
    }

    /// Forgets confirmations: a new connection confirms each topic again.
    pub(crate) fn disconnected(&mut self) {
        for cursor in &mut self.topics {
            cursor.is_confirmed = false;
        }
    }

    pub(crate) fn have_ended(&self) -> bool {
        self.topics.is_empty()
    }

    pub(crate) fn are_confirmed(&self) -> bool {
        self.topics.iter().all(|cursor| cursor.is_confirmed)
    }

    /// Handles a message about a topic (its unchanged text) and appends the updates that are new. Returns any
    /// other message to the caller. Fails if the client is not subscribed to the topic; the error is a
    /// clause, not a sentence.
    pub(crate) fn receive(
        &mut self,
        text: String,
        transport: Transport,
        updates: &mut VecDeque<Update>,
    ) -> Result<Option<Message>, String> {
        match Message::read(&text)? {
            Message::Version { topic, position, previous, content } => {
                let cursor = self.cursor_mut(&topic)?;
                cursor.version(text, position, previous, content, updates)?;
                cursor.confirm(transport, updates);
            }
            Message::Events { topic, position, after, spans, keyed: Some(keyed) } => {
                let cursor = self.cursor_mut(&topic)?;
                let received = cursor.keyed_events(text, position, after, spans, keyed, updates);
                cursor.confirm(transport, updates);
                received?;
            }
            Message::Events { topic, position, spans, .. } if spans.is_empty() => {
                let cursor = self.cursor_mut(&topic)?;
                cursor.is_log = true;
                cursor.jump(position, position.offset, true, updates);
                cursor.confirm(transport, updates);
            }
            Message::Events { topic, position, after, spans, keyed: None } => {
                let cursor = self.cursor_mut(&topic)?;
                cursor.events(text, position, after, spans, updates);
                cursor.confirm(transport, updates);
            }
            Message::Gap { topic, position, gap } => {
                let cursor = self.cursor_mut(&topic)?;
                cursor.gap(position, gap, updates);
                cursor.confirm(transport, updates);
            }
            Message::TopicEnd { topic, position, code, reason } => {
                let topic = self.cursor_mut(&topic)?.topic.clone();
                self.topics.retain(|cursor| cursor.topic != topic);
                updates.push_back(Update::Ended(TopicEnd { topic, position, code, reason }));
            }
            other => return Ok(Some(other)),
        }
        Ok(None)
    }

    fn cursor_mut(&mut self, topic: &str) -> Result<&mut Cursor, String> {
        let found = self.topics.iter_mut().find(|cursor| cursor.topic.as_str() == topic);
        found.ok_or_else(|| format!("the server sent {topic:?}, which is not subscribed"))
    }
}

impl Cursor {
    /// Returns where a new connection continues. In the middle of the first pages of a keyed topic's state the server must know
    /// which removals concern the client.
    fn start(&self) -> StartAt {
        match self.at {
            StartAt::After(position) => {
                StartAt::after(position, self.snapshot.and_then(|snapshot| snapshot.least))
            }
            other => other,
        }
    }

    /// Confirms a subscription with the first message about its topic.
    fn confirm(&mut self, transport: Transport, updates: &mut VecDeque<Update>) {
        if let StartAt::After(position) = self.at
            && !std::mem::replace(&mut self.is_confirmed, true)
        {
            let topic = self.topic.clone();
            updates.push_back(Update::Connected(Connected { topic, position, transport }));
        }
    }

    /// Moves the cursor to the epoch of `position`, and there to the offset `before` if that is ahead.
    /// Reports skipped events as a gap, with their number if the offsets are consecutive.
    fn jump(
        &mut self,
        position: Position,
        before: Offset,
        is_counted: bool,
        updates: &mut VecDeque<Update>,
    ) {
        let to = Position { epoch: position.epoch, offset: before };
        match self.at {
            StartAt::After(at) if at.epoch == to.epoch => {
                if to.offset <= at.offset {
                    return;
                }
                let missed = is_counted.then_some(to.offset - at.offset);
                self.push_gap(to, missed, GapReason::Unannounced, updates);
            }
            StartAt::After(_) => self.push_gap(to, None, GapReason::Epoch, updates),
            StartAt::Latest
            | StartAt::Earliest
            | StartAt::Newest(_)
            | StartAt::Since(_)
            | StartAt::Within(..) => {}
        }
        self.at = StartAt::After(to);
    }

    fn events(
        &mut self,
        text: String,
        position: Position,
        mut after: Option<Offset>,
        mut spans: Vec<(Offset, Range<usize>)>,
        updates: &mut VecDeque<Update>,
    ) {
        self.is_log = true;
        let first = spans.first().map_or(position.offset, |(first, _)| *first);
        let before = after.unwrap_or(first.saturating_sub(1));
        self.jump(position, before, after.is_none(), updates);
        if let StartAt::After(at) = self.at {
            let repeats = spans.partition_point(|(offset, _)| *offset <= at.offset);
            if let Some((last, _)) = spans.drain(..repeats).next_back() {
                after = Some(last);
            }
        }
        if !spans.is_empty() {
            self.at = StartAt::After(position);
            updates.push_back(Update::Events(Events {
                topic: self.topic.clone(),
                position,
                after,
                text,
                spans,
                keyed: None,
                patch: None,
            }));
        }
    }

    /// Handles an envelope of a keyed topic. An envelope without events is new if the position advances, because
    /// that can make the map whole.
    fn keyed_events(
        &mut self,
        text: String,
        position: Position,
        mut after: Option<Offset>,
        mut spans: Vec<(Offset, Range<usize>)>,
        mut keyed: Keyed,
        updates: &mut VecDeque<Update>,
    ) -> Result<(), String> {
        self.is_log = true;
        let first = spans.first().map(|(first, _)| first.saturating_sub(1));
        let before = after.or(first).unwrap_or(position.offset);
        let mut is_news = std::mem::take(&mut self.is_after_gap) || !self.is_confirmed;
        if let StartAt::After(at) = self.at {
            if at.epoch != position.epoch || before > at.offset {
                // The next connection begins with all keys, so that the map becomes whole again.
                self.at = StartAt::Latest;
                let lost = Position { epoch: position.epoch, offset: 0 };
                self.push_gap(lost, None, GapReason::Unannounced, updates);
                return Err("an envelope does not follow the one before".to_owned());
            }
            let repeats = spans.partition_point(|(offset, _)| *offset <= at.offset);
            keyed.keys.drain(..repeats);
            if let Some((last, _)) = spans.drain(..repeats).next_back() {
                after = Some(last);
            }
            is_news |= position.offset > at.offset;
        }
        if !matches!(self.at, StartAt::After(_)) {
            self.snapshot = Some(Snapshot::default());
        }
        if is_news {
            let reached = match self.at {
                StartAt::After(at) if at.offset > position.offset => at,
                _ => position,
            };
            self.at = StartAt::After(reached);
            if let Some(snapshot) = &mut self.snapshot {
                // A page without `until` ended at the head when it was made, which may be long ago.
                let until = keyed.until.unwrap_or(position.offset);
                snapshot.until = snapshot.until.max(until);
                snapshot.least = Some(snapshot.least.map_or(until, |least| least.min(until)));
            }
            // The map is whole: from now on all removals concern it.
            self.snapshot = self.snapshot.filter(|snapshot| reached.offset < snapshot.until.max(1));
            updates.push_back(Update::Events(Events {
                topic: self.topic.clone(),
                position: reached,
                after,
                text,
                spans,
                keyed: Some(keyed),
                patch: None,
            }));
        }
        Ok(())
    }

    /// Handles a version. It replaces earlier versions, so missing ones are not a gap.
    fn version(
        &mut self,
        text: String,
        position: Position,
        previous: Offset,
        content: Content,
        updates: &mut VecDeque<Update>,
    ) -> Result<(), String> {
        let at = match self.at {
            StartAt::After(at) if at.epoch == position.epoch => Some(at.offset),
            _ => None,
        };
        if matches!(content, Content::Nothing) {
            // This is the first message, or the epoch has changed: the next version is a whole document.
            if at.is_none() {
                self.document = None;
                self.at = StartAt::After(position);
            }
            return Ok(());
        }
        if at.is_some_and(|at| position.offset <= at) {
            return Ok(());
        }
        let (text, span, patch) = match content {
            Content::Nothing => return Ok(()),
            Content::Document(span) => {
                self.document = Some(Document::new(position, &text[span.clone()]));
                (text, span, None)
            }
            Content::Patch(patch) => {
                let before = Position { epoch: position.epoch, offset: previous };
                let document = self.document.as_mut().filter(|document| document.is_at(before));
                let patched = match document {
                    Some(document) => document.patch(position, &patch),
                    None => Err("a patch of an unknown version".to_owned()),
                };
                // Without the document only a whole version is usable.
                let document = patched.inspect_err(|_| {
                    self.document = None;
                    self.rejects_patches = true;
                })?;
                let span = 0..document.len();
                (document, span, Some(patch))
            }
        };
        self.at = StartAt::After(position);
        let spans = vec![(position.offset, span)];
        let topic = self.topic.clone();
        let after = None;
        let keyed = None;
        let events = Events { topic, position, after, text, spans, keyed, patch };
        updates.push_back(Update::Events(events));
        Ok(())
    }

    fn gap(&mut self, to: Position, gap: GapFields, updates: &mut VecDeque<Update>) {
        let is_unknown = gap.reason == thalweg_wire::GapReason::Unknown;
        // The server may send a gap again after a reconnect. After a gap with the reason `unknown`, the
        // client has no version. After a gap at offset 0, a client of a keyed topic has no keys.
        let is_behind = !is_unknown
            && matches!(self.at, StartAt::After(at)
            if at.epoch == to.epoch && to.offset <= at.offset && (to.offset > 0 || at.offset == 0));
        if !is_behind {
            self.at = StartAt::After(to);
            self.document = None;
            self.is_after_gap = true;
            self.snapshot = (to.offset == 0).then(Snapshot::default);
            self.push_gap(to, gap.missed, gap.reason.into(), updates);
        }
    }

    fn push_gap(
        &self,
        position: Position,
        missed: Option<Offset>,
        reason: GapReason,
        updates: &mut VecDeque<Update>,
    ) {
        let topic = self.topic.clone();
        updates.push_back(Update::Gap(Gap { topic, position, missed, reason }));
    }
}

#[cfg(test)]
mod tests;
