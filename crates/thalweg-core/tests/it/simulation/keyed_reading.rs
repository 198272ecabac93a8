use std::rc::Rc;

use thalweg_wire::Offset;

use super::{
    keyed_events::KeyedEvents,
    retained::{KeyedHistory, Retained},
    tally::{Situation, Tally},
};

/// A client's state of a keyed topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeyedState {
    pub(super) position: Offset,
    /// Before this offset it may lack events.
    until: Offset,
    /// As [`KeyedEvents::state_at`]. `None`: the state at the position, where no event may be yet.
    keys: Option<Vec<Offset>>,
}

/// A message with events of a keyed topic.
pub(super) struct KeyedMessage<'a> {
    pub(super) position: Offset,
    pub(super) after: Option<Offset>,
    pub(super) until: Option<Offset>,
    pub(super) keys: &'a [&'a str],
    pub(super) events: &'a [(Offset, &'a str)],
    pub(super) is_partial: bool,
    pub(super) is_conflated: bool,
}

/// A client's state, and what its subscription says about later messages.
pub(super) struct KeyedReading {
    state: KeyedState,
    /// The head when the oldest page of a reader that began without keys was made, if it is known.
    chain: Option<Offset>,
    was_live: bool,
    was_page: bool,
}

impl KeyedState {
    /// The whole state after an offset.
    fn at(position: Offset) -> Self {
        Self { position, until: position, keys: None }
    }

    pub(super) fn is_whole(&self) -> bool {
        self.position >= self.until
    }

    pub(super) fn is_state_of(&self, events: &KeyedEvents) -> bool {
        let expected = events.state_at(self.position);
        self.keys.as_ref().is_none_or(|keys| *keys == expected)
    }
}

impl KeyedReading {
    /// Begins after `position`, where the client had `had`, or the whole state.
    pub(super) fn new(position: Offset, had: Option<&KeyedState>, until: Option<Offset>) -> Self {
        let had = had.filter(|had| had.position == position);
        let mut state = had.cloned().unwrap_or_else(|| KeyedState::at(position));
        state.until = state.until.max(until.unwrap_or(0));
        Self { state, chain: None, was_live: false, was_page: false }
    }

    pub(super) fn state(&self) -> &KeyedState {
        &self.state
    }

    /// Whether a reader must be told that it lacks removals, as one visit found the history.
    pub(super) fn is_due(&self, history: &KeyedHistory) -> bool {
        let KeyedHistory { complete_from, is_owner, .. } = *history;
        let next = self.state.position + 1;
        let spared = self.chain.filter(|_| is_owner).unwrap_or(0);
        self.state.position > 0 && complete_from > next.max(spared)
    }

    pub(super) fn message(
        &mut self,
        message: &KeyedMessage<'_>,
        published: (&KeyedEvents, Offset),
        visits: &[Rc<Retained>],
        tally: &mut Tally,
    ) {
        let KeyedMessage { position, after, until, events, is_partial, is_conflated, .. } =
            *message;
        let (published, sealed) = published;
        let before = self.state.position;
        if events.is_empty() && (position, before) == (0, 0) {
            // After a gap a page comes even if the topic has no keys.
            return tally.count(Situation::NoKeys, 1);
        }
        let first = events.first().map(|(offset, _)| *offset);
        assert_eq!(after.or(first.map(|first| first - 1)), Some(before), "after other events");
        assert!(position > before, "{position} is not after {before}");
        let visit = visits.last().expect("a visit");
        let history = visit.keyed.expect("a keyed topic");
        assert!(position < visit.head, "{position} is ahead of the head");
        let known = if history.is_owner { visit.head - 1 } else { sealed };
        assert!(until.is_none_or(|until| position < until && until <= known), "until {until:?}");

        let keys = self.state.keys.take().unwrap_or_else(|| published.state_at(before));
        let (keys, is_live) = apply(keys, before, message, published);
        let reached = until.unwrap_or(position);
        let (mut removals, mut superseded) = (0, 0);
        for offset in before + 1..=position {
            if events.binary_search_by_key(&offset, |(offset, _)| *offset).is_ok() {
                continue;
            }
            let is_superseded = published.superseded_by(offset).is_some_and(|by| by <= reached);
            let has_key = keys[published.number_of(offset)] > 0;
            let is_removed = published.is_removal(offset) && !has_key;
            assert!(is_superseded || is_removed, "{offset} is left out before {reached}");
            superseded += u64::from(is_superseded);
            removals += u64::from(!is_superseded);
        }
        let is_page = until.is_some() || removals + superseded > 0;
        assert!(!(is_page && is_live), "a key twice in a page");
        assert!(!(is_conflated && is_live), "a key twice in an interval");

        let is_spared = before > 0 && history.complete_from > before + 1;
        tally.saw_if(Situation::Page, is_page);
        tally.saw_if(Situation::CutPage, is_page && is_partial);
        let is_older = until.is_some_and(|until| until < self.state.until) && self.chain.is_some();
        tally.saw_if(Situation::OlderPage, is_older);
        tally.saw_if(Situation::PageSpared, is_page && is_spared);
        tally.saw_if(Situation::PageBetweenTails, is_live && self.was_live && self.was_page);
        tally.saw_if(Situation::ConflatedKeys, is_conflated && superseded > 0);
        self.chain = match until {
            Some(until) if before == 0 => Some(until + 1),
            Some(until) => self.chain.map(|chain| chain.min(until + 1)),
            None => None,
        };
        self.was_page = !is_live && (is_page || self.was_page);
        self.was_live |= is_live;
        let until = self.state.until.max(until.unwrap_or(0));
        self.state = KeyedState { position, until, keys: Some(keys) };
        if self.state.is_whole() {
            assert!(self.state.is_state_of(published), "never existed: {:?}", self.state);
        }
    }
}

/// Returns the state after a message, and whether a key comes twice: a page has each key once.
fn apply(
    mut state: Vec<Offset>,
    mut before: Offset,
    message: &KeyedMessage<'_>,
    published: &KeyedEvents,
) -> (Vec<Offset>, bool) {
    assert_eq!(message.keys.len(), message.events.len(), "a key for each event");
    let mut is_live = false;
    let mut seen = vec![false; state.len()];
    for ((offset, _), key) in message.events.iter().zip(message.keys) {
        assert!(*offset > before && *offset <= message.position, "{offset} after {before}");
        before = *offset;
        let number = published.number_of(*offset);
        assert_eq!(*key, published.key(number), "the key of {offset}");
        is_live |= std::mem::replace(&mut seen[number], true);
        state[number] = if published.is_removal(*offset) { 0 } else { *offset };
    }
    (state, is_live)
}
