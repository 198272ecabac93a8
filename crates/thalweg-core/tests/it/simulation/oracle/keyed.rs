//! Messages of keyed topics.

use thalweg_core::stream::FeedKind;
use thalweg_wire::{Offset, Position, incoming::Incoming};

use super::{Oracle, Visit};
use crate::simulation::{
    keyed_reading::KeyedMessage,
    reading::{Reading, Sent},
    tally::Situation,
};

impl Oracle {
    pub(super) fn keyed(
        &mut self,
        index: usize,
        message: &Incoming<'_>,
        events: &[(Offset, &str)],
        sent: Sent,
        visit: &mut Visit<'_>,
    ) {
        let overtaken = self.own.front().is_some_and(|(taken, _)| *taken <= sent.begun);
        assert!(!overtaken, "{:?} was overtaken by data", self.own);
        assert_eq!(message.previous, None);
        let reading = &mut self.readings[index];
        let position = message.position.as_deref().expect("a position");
        let position: Position = position.parse().expect("valid");
        let keys: Vec<&str> = message.keys.iter().flatten().map(|key| &**key).collect();
        let its = KeyedMessage {
            position: position.offset,
            after: message.after,
            until: message.until,
            keys: &keys,
            events,
            is_partial: sent.begun_us < sent.now_us,
            is_conflated: reading.is_conflated(),
        };
        let published = &visit.published[reading.subscribe.feed as usize];
        reading.keyed(position, &its, published, sent, visit.tally);
        self.is_told = true;
        self.count_kinds(visit);
    }

    fn count_kinds(&self, visit: &mut Visit<'_>) {
        let of_kind = |kind| {
            let kind_of =
                |reading: &Reading| visit.published[reading.subscribe.feed as usize].kind();
            let fed = self.readings.iter().filter(|reading| reading.is_fed);
            fed.filter(|reading| kind_of(reading) == kind).count()
        };
        let (keyed, logs) = (of_kind(FeedKind::Keyed), of_kind(FeedKind::Log));
        visit.tally.saw_if(Situation::SeveralKeyed, keyed > 1);
        visit.tally.saw_if(Situation::KeyedAndLog, logs > 0);
    }
}
