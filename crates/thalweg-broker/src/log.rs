//! The records of a broker that holds them in memory.

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
};

use thalweg_wire::{Epoch, Offset, Topic};

use crate::{
    Append, AppendError, Content, Delivery, FirstTopics, Follower, IdempotencyKeys, OFFSET_FIRST,
    PageBuilder, ReadPage, ReadRange, Stored, TopicRange, Unreadable,
};

/// The number of undelivered records from which on a server is behind.
const BEHIND_RECORDS: usize = 64;

/// The records of all streams of a broker, in memory, with one epoch and one order. A broker that also stores records
/// elsewhere writes between [`Self::answer`] and [`Self::push`], and pushes its stored records when it starts.
#[derive(Debug)]
pub struct RecordLog {
    epoch: Epoch,
    records: Vec<Delivery>,
    /// Offsets of lost records, in order.
    holes: Vec<Range<Offset>>,
    head: Offset,
    stored_from: Offset,
    keys: IdempotencyKeys,
    spacing: u64,
    page_records: Option<usize>,
    /// The streams of keyed topics.
    keyed: Vec<usize>,
}

/// The next call to a [`Follower`](crate::Follower).
#[derive(Debug)]
pub enum News {
    /// Call [`Follower::restarted`](crate::Follower::restarted) for each stream. Its records follow from `from` on.
    Restarted {
        /// The epoch of the log.
        epoch: Epoch,
        /// The first offset that follows.
        from: Offset,
    },
    /// Call [`Follower::deliver`](crate::Follower::deliver). Continue at the record's end.
    Record {
        /// The record.
        record: Delivery,
        /// The number of records after it.
        behind: usize,
    },
    /// The server has all records.
    CaughtUp,
}

/// The place in a [`RecordLog`] of a server that follows it.
#[derive(Debug, Clone, Copy)]
pub struct LogCursor {
    epoch: Epoch,
    next: Offset,
}

impl LogCursor {
    /// Returns the place of a server that has all records of `epoch` before `next`.
    pub fn new(epoch: Epoch, next: Offset) -> Self {
        Self { epoch, next }
    }

    /// Returns what comes next in the log.
    pub fn news(&self, log: &RecordLog) -> News {
        log.news(self.epoch, self.next)
    }

    /// Tells the follower of a log with this number of streams. Returns whether more may follow now; otherwise wait for a change of the
    /// log.
    pub async fn tell<F: Follower>(&mut self, news: News, streams: usize, follower: &F) -> bool {
        match news {
            News::Restarted { epoch, from } => {
                *self = Self::new(epoch, from);
                for stream in 0..streams {
                    follower.restarted(stream, epoch, from).await;
                }
            }
            News::Record { record, behind } => {
                if behind >= BEHIND_RECORDS {
                    follower.set_ready(false);
                }
                self.next = record.end();
                follower.deliver(record).await;
            }
            News::CaughtUp => {
                follower.set_ready(true);
                return false;
            }
        }
        true
    }
}

impl RecordLog {
    /// Returns an empty log. Its records will have consecutive offsets.
    pub fn new(epoch: Epoch) -> Self {
        let (records, holes, keys) = (Vec::new(), Vec::new(), IdempotencyKeys::default());
        let [head, stored_from] = [OFFSET_FIRST; 2];
        Self {
            epoch,
            records,
            holes,
            head,
            stored_from,
            keys,
            spacing: 1,
            page_records: None,
            keyed: Vec::new(),
        }
    }

    /// Lets each record begin at a multiple of `spacing`, which is at least 1.
    #[must_use]
    pub fn with_spacing(self, spacing: u64) -> Self {
        Self { spacing, ..self }
    }

    /// Sets the maximum number of records of a page.
    #[must_use]
    pub fn with_page_records(self, records_max: usize) -> Self {
        Self { page_records: Some(records_max), ..self }
    }

    /// Sets which streams have keyed topics. The newest event of each of their keys is never trimmed.
    #[must_use]
    pub fn with_keyed(self, streams: impl IntoIterator<Item = usize>) -> Self {
        Self { keyed: streams.into_iter().collect(), ..self }
    }

    /// Returns the incarnation of the log.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Returns the offset of the next record.
    pub fn head(&self) -> Offset {
        self.head
    }

    /// Returns the first offset that is stored: older records were trimmed.
    pub fn stored_from(&self) -> Offset {
        self.stored_from
    }

    /// Returns the answer to an append that stores no record: a repetition, a reused key, or a `newest` that is not the
    /// first offset of the topic's newest record. `None` if the record is to be stored.
    pub fn answer(
        &self,
        append: &Append,
        newest: Option<Offset>,
    ) -> Option<Result<Stored, AppendError>> {
        let last = || {
            let last = self.records.iter().rfind(|record| record.topic == append.topic);
            last.map_or(0, |record| record.first)
        };
        self.keys.find(append, self.epoch).or_else(|| {
            let last = newest.map(|newest| (newest, last()));
            let (_, last) = last.filter(|(newest, last)| newest != last)?;
            Some(Err(AppendError::Outdated(Some(last))))
        })
    }

    /// Adds a record, whose content says when it was stored.
    pub fn push(&mut self, append: Append) -> Stored {
        let first = self.head.next_multiple_of(self.spacing);
        self.keys.insert(&append, first);
        let Append { stream, topic, content, .. } = append;
        let record = Delivery { stream, first, topic, content };
        self.head = record.end().next_multiple_of(self.spacing);
        self.records.push(record);
        Stored { epoch: self.epoch, first, is_repetition: false }
    }

    /// Removes the records before an offset.
    pub fn trim(&mut self, before: Offset) {
        let count = self.records.partition_point(|record| record.first < before);
        let last = self.records[..count].last();
        self.stored_from = last.map_or(self.stored_from, Delivery::end);
        let newest = self.newest_events();
        let is_newest =
            |record: &Delivery| (record.first..record.end()).any(|offset| newest.contains(&offset));
        self.records.retain(|record| record.first >= before || is_newest(record));
    }

    /// Returns the offsets of the newest events of keys.
    fn newest_events(&self) -> HashSet<Offset> {
        let mut newest: HashMap<(&Topic, Vec<u8>), Offset> = HashMap::new();
        for record in self.records.iter().filter(|record| self.keyed.contains(&record.stream)) {
            match &record.content {
                Content::Events(payloads) => {
                    let keys = payloads.keyed_events().map(|(key, _)| key.to_vec());
                    let keys = keys.map(|key| (&record.topic, key));
                    newest.extend(keys.zip(record.first..));
                }
                Content::End(_) => newest.retain(|(topic, _), _| **topic != record.topic),
                Content::Paused(_) => {}
            }
        }
        newest.into_values().collect()
    }

    /// Loses the records that begin in a range, as damage does.
    pub fn lose(&mut self, hole: Range<Offset>) {
        self.records.retain(|record| !hole.contains(&record.first));
        self.holes.push(hole);
        self.holes.sort_by_key(|hole| hole.start);
    }

    /// Removes the `count` oldest records.
    pub fn trim_oldest(&mut self, count: usize) {
        let next = self.records.get(count).map_or(self.head, |record| record.first);
        self.trim(next);
    }

    /// Removes all records and keys, and begins another epoch.
    pub fn renew(&mut self, epoch: Epoch) {
        let &mut Self { spacing, page_records, .. } = self;
        let keyed = std::mem::take(&mut self.keyed);
        *self = Self { spacing, page_records, keyed, ..Self::new(epoch) };
    }

    /// Returns the first topics of a range, as [`TopicIndex::topics`](crate::TopicIndex::topics) does.
    pub fn topics(&self, range: TopicRange) -> Vec<Topic> {
        let newest = self.records.iter().map(|record| (&record.topic, &record.content));
        let newest: HashMap<&Topic, &Content> = newest.collect();
        let mut first = FirstTopics::new(range);
        for (topic, content) in newest {
            if !matches!(content, Content::End(_)) {
                first.push(topic.clone());
            }
        }
        first.finish()
    }

    /// Reads a page, as [`Broker::read`](crate::Broker::read) returns it.
    ///
    /// # Errors
    /// [`Unreadable`] if the log has another epoch.
    pub fn read(&self, range: &ReadRange) -> Result<ReadPage, Unreadable> {
        self.page(range, PageBuilder::new(range, self.head))
    }

    /// Reads a page, as [`Broker::newest`](crate::Broker::newest) returns it.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn newest(&self, range: &ReadRange) -> Result<ReadPage, Unreadable> {
        self.page(range, PageBuilder::newest(range, self.head))
    }

    fn page(&self, range: &ReadRange, mut page: PageBuilder) -> Result<ReadPage, Unreadable> {
        if self.epoch != range.epoch {
            return Err(Unreadable);
        }
        if let Some(records_max) = self.page_records {
            page = page.with_records_max(records_max);
        }
        let mut holes = self.holes.iter().filter(|hole| hole.end > self.stored_from).peekable();
        for record in self.records.iter().filter(|record| record.topic == range.topic) {
            while let Some(hole) = holes.next_if(|hole| hole.start < record.first) {
                page.lose(hole.clone());
            }
            page.push(record.first, record.content.clone());
        }
        holes.for_each(|hole| page.lose(hole.clone()));
        let is_keyed = self.keyed.contains(&range.stream);
        Ok(page.finish(if is_keyed { OFFSET_FIRST } else { self.stored_from }))
    }

    /// Returns the next call to the follower of a server that has all records of `epoch` before `next`.
    pub fn news(&self, epoch: Epoch, next: Offset) -> News {
        if epoch != self.epoch || next < self.stored_from {
            return News::Restarted { epoch: self.epoch, from: self.stored_from };
        }
        let start = self.records.partition_point(|record| record.first < next);
        let until = self.records.get(start).map_or(self.head, |record| record.first);
        let mut lost = self.holes.iter().filter(|hole| hole.start < until && hole.end > next);
        if let Some(hole) = lost.next_back() {
            return News::Restarted { epoch: self.epoch, from: hole.end };
        }
        match self.records.get(start) {
            Some(record) => {
                News::Record { record: record.clone(), behind: self.records.len() - start - 1 }
            }
            None => News::CaughtUp,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Content;

    fn append(topic: &str) -> Append {
        let (topic, content) = (topic.parse().expect("a topic"), Content::Paused(300));
        Append { stream: 0, topic, content, key: None, waited: Duration::ZERO }
    }

    fn epoch(number: u64) -> Epoch {
        Epoch::new(number).expect("not 0")
    }

    #[test]
    fn a_server_gets_each_record_once_and_gaps_before() {
        let mut log = RecordLog::new(epoch(7)).with_spacing(256);
        let mut next = log.head();
        assert_eq!(["a", "b", "a"].map(|topic| log.push(append(topic)).first), [256, 512, 768]);
        for left in [2, 1, 0] {
            let News::Record { record, behind } = log.news(epoch(7), next) else { panic!() };
            assert_eq!((record.first >= next, behind), (true, left));
            next = record.end();
        }
        assert!(matches!(log.news(epoch(7), next), News::CaughtUp));
        log.trim_oldest(2);
        assert!(matches!(log.news(epoch(7), next), News::CaughtUp), "a server that has them");
        assert!(matches!(log.news(epoch(7), 300), News::Restarted { from: 513, .. }));
        log.renew(epoch(8));
        assert!(matches!(log.news(epoch(7), next), News::Restarted { from: OFFSET_FIRST, .. }));
    }

    #[test]
    fn a_condition_names_the_newest_record_of_the_topic() {
        let mut log = RecordLog::new(epoch(7));
        let first = log.push(append("a")).first;
        log.push(append("b"));
        assert_eq!(log.answer(&append("a"), Some(first)), None);
        assert_eq!(log.answer(&append("c"), Some(0)), None);
        let outdated = Some(Err(AppendError::Outdated(Some(first))));
        assert_eq!(log.answer(&append("a"), Some(0)), outdated);
    }
}
