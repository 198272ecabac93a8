//! Answers that their clients have not taken: what they hold, who holds most, and who
//! takes too little of what it is owed. Pure: time comes in as `now_us`.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
};

use bytes::Bytes;
use tokio::sync::Notify;

use crate::{config::is_share, transport::Client};

/// Whose connection holds answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    /// One that HTTP serves: its task ends it.
    Http,
    /// A subscriber, by its place in the slab.
    Subscriber(u32),
}

/// What one connection holds of answers.
#[derive(Debug)]
pub(super) struct Holder {
    who: Who,
    /// What all hold: those that are cut have left it.
    all: Arc<AtomicUsize>,
    /// Memory, in bytes.
    held: AtomicUsize,
    /// Bytes that its client has asked for and not taken, wherever they are.
    owed: AtomicUsize,
    /// Bytes that its client took, ever.
    taken: AtomicUsize,
    is_listed: AtomicBool,
    is_cut: AtomicBool,
    /// Tells its task that it is to end.
    cut: Notify,
}

/// Bytes of an answer that are held and owed, until this is dropped.
#[derive(Debug)]
pub(super) struct Charge {
    holder: Arc<Holder>,
    held: usize,
    owed: usize,
}

/// All answers of a shard.
#[derive(Debug, Default)]
pub(super) struct Answers {
    all: Arc<AtomicUsize>,
    listed: Vec<Listed>,
    /// Memory that each client's reads alone keep, as it was found last.
    pinned: HashMap<Client, usize>,
}

/// A connection that holds or is owed something, and since when it is watched.
#[derive(Debug)]
struct Listed {
    holder: Arc<Holder>,
    since_us: u64,
    owed: usize,
    taken: usize,
}

impl Holder {
    /// Until its connection is to end.
    pub(super) async fn cut(&self) {
        self.cut.notified().await;
    }

    /// Has its task end it.
    pub(super) fn end(&self) {
        self.cut.notify_one();
    }

    pub(super) fn who(&self) -> Who {
        self.who
    }

    /// What is charged counts at once. Call [`Answers::list`] for the first of an answer.
    pub(super) fn charge(self: &Arc<Self>, held: usize, owed: usize) -> Charge {
        self.add(held);
        self.owed.fetch_add(owed, Relaxed);
        Charge { holder: Arc::clone(self), held, owed }
    }

    /// It holds so much now, and is owed nothing: for a subscriber, whose connection
    /// knows itself whether its peer takes enough.
    pub(super) fn set(&self, held: usize) {
        self.add(held);
        self.sub(self.held.load(Relaxed) - held);
    }

    fn add(&self, bytes: usize) {
        self.held.fetch_add(bytes, Relaxed);
        if !self.is_cut.load(Relaxed) {
            self.all.fetch_add(bytes, Relaxed);
        }
    }

    fn sub(&self, bytes: usize) {
        self.held.fetch_sub(bytes, Relaxed);
        if !self.is_cut.load(Relaxed) {
            self.all.fetch_sub(bytes, Relaxed);
        }
    }
}

impl Charge {
    /// These bytes, which the charge lasts as long as.
    pub(super) fn on(self, bytes: impl AsRef<[u8]> + Send + 'static) -> Bytes {
        Bytes::from_owner(Charged { bytes, _charge: self })
    }

    /// So many of the bytes owed are another charge's from now on.
    pub(super) fn hand_over(&mut self, bytes: usize) {
        let bytes = bytes.min(self.owed);
        self.owed -= bytes;
        self.holder.owed.fetch_sub(bytes, Relaxed);
    }

    pub(super) fn holder(&self) -> &Arc<Holder> {
        &self.holder
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.holder.sub(self.held);
        self.holder.owed.fetch_sub(self.owed, Relaxed);
        self.holder.taken.fetch_add(self.owed, Relaxed);
    }
}

struct Charged<B> {
    bytes: B,
    _charge: Charge,
}

impl<B: AsRef<[u8]>> AsRef<[u8]> for Charged<B> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

impl Answers {
    /// A connection that holds nothing yet.
    pub(super) fn holder(&self, who: Who) -> Arc<Holder> {
        Arc::new(Holder {
            who,
            all: Arc::clone(&self.all),
            held: AtomicUsize::new(0),
            owed: AtomicUsize::new(0),
            taken: AtomicUsize::new(0),
            is_listed: AtomicBool::new(false),
            is_cut: AtomicBool::new(false),
            cut: Notify::new(),
        })
    }

    /// Bytes that all hold.
    pub(super) fn bytes(&self) -> usize {
        self.all.load(Relaxed)
    }

    /// Looks after a connection for as long as it holds or is owed something.
    pub(super) fn list(&mut self, holder: &Arc<Holder>, now_us: impl FnOnce() -> u64) {
        if holder.is_listed.swap(true, Relaxed) {
            return;
        }
        let since_us = now_us();
        let (owed, taken) = (holder.owed.load(Relaxed), holder.taken.load(Relaxed));
        self.listed.push(Listed { holder: Arc::clone(holder), since_us, owed, taken });
    }

    /// If all hold more than `bytes_max`, the one that holds most: it is to end, and is
    /// counted no more.
    pub(super) fn largest_beyond(&mut self, bytes_max: usize) -> Option<Arc<Holder>> {
        if self.bytes() <= bytes_max {
            return None;
        }
        let held = |listed: &Listed| listed.holder.held.load(Relaxed);
        let (index, _) = self.listed.iter().enumerate().max_by_key(|(_, listed)| held(listed))?;
        Some(self.take(index))
    }

    /// Those whose clients have taken less than their share of what they were owed for
    /// `stall_us`: they are to end, and are counted no more.
    pub(super) fn stalled(&mut self, now_us: u64, stall_us: u64) -> Vec<Arc<Holder>> {
        let mut stalled = Vec::new();
        for index in (0..self.listed.len()).rev() {
            let listed = &mut self.listed[index];
            let holder = &listed.holder;
            let (owed, taken) = (holder.owed.load(Relaxed), holder.taken.load(Relaxed));
            if owed == 0 && holder.held.load(Relaxed) == 0 {
                holder.is_listed.store(false, Relaxed);
                self.listed.swap_remove(index);
            } else if now_us.saturating_sub(listed.since_us) > stall_us {
                if !is_share(taken.wrapping_sub(listed.taken), listed.owed) {
                    stalled.push(self.take(index));
                    continue;
                }
                (listed.since_us, listed.owed, listed.taken) = (now_us, owed, taken);
            }
        }
        stalled
    }

    /// A connection that is to end is counted no more.
    pub(super) fn leave(&mut self, holder: &Arc<Holder>) {
        let same = |listed: &Listed| Arc::ptr_eq(&listed.holder, holder);
        if let Some(index) = self.listed.iter().position(same) {
            self.take(index);
        }
    }

    fn take(&mut self, index: usize) -> Arc<Holder> {
        let Listed { holder, .. } = self.listed.swap_remove(index);
        if !holder.is_cut.swap(true, Relaxed) {
            self.all.fetch_sub(holder.held.load(Relaxed), Relaxed);
        }
        holder
    }

    /// Notes what each client's reads alone keep.
    pub(super) fn note_pinned(&mut self, pinned: HashMap<Client, usize>) {
        self.pinned = pinned;
    }

    /// What a client's reads alone keep, as it was noted last.
    pub(super) fn pinned_by(&self, client: Client) -> usize {
        self.pinned.get(&client).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STALL_US: u64 = 1_000;

    fn owed(answers: &mut Answers, bytes: usize) -> (Arc<Holder>, Vec<Bytes>) {
        let holder = answers.holder(Who::Http);
        let pieces = vec![vec![0; bytes / 10]; 10];
        let pieces = pieces.into_iter().map(|p| holder.charge(p.len(), p.len()).on(p));
        let pieces = pieces.collect();
        answers.list(&holder, || 0);
        (holder, pieces)
    }

    #[test]
    fn the_largest_goes_and_is_counted_no_more() {
        let mut answers = Answers::default();
        let (_small, _held) = owed(&mut answers, 100);
        let (large, pieces) = owed(&mut answers, 1_000);
        assert_eq!(answers.bytes(), 1_100);
        assert!(answers.largest_beyond(1_100).is_none());
        let cut = answers.largest_beyond(1_099).expect("one is too large");
        assert!(Arc::ptr_eq(&cut, &large));
        assert_eq!(answers.bytes(), 100);
        drop(pieces);
        assert_eq!((answers.bytes(), large.held.load(Relaxed)), (100, 0));
        // Nor does what its task adds until it ends.
        drop(large.charge(5, 5));
        assert_eq!(answers.bytes(), 100);
    }

    #[test]
    fn whoever_takes_its_share_has_time_and_whoever_takes_less_has_not() {
        for (taken, is_stalled) in [(0, true), (2, true), (3, false), (10, false)] {
            let mut answers = Answers::default();
            let (_holder, mut pieces) = owed(&mut answers, 1_000);
            pieces.truncate(10 - taken);
            assert!(answers.stalled(STALL_US, STALL_US).is_empty(), "it has until then");
            let stalled = answers.stalled(STALL_US + 1, STALL_US).len();
            assert_eq!(stalled == 1, is_stalled, "{taken} of 10");
            // The next share is of what is left.
            let later = answers.stalled(2 * STALL_US + 2, STALL_US).len();
            assert_eq!(stalled + later, usize::from(taken < 10), "{taken} of 10");
        }
    }

    #[test]
    fn whoever_has_taken_all_begins_anew() {
        let mut answers = Answers::default();
        let (holder, pieces) = owed(&mut answers, 1_000);
        drop(pieces);
        assert!(answers.stalled(10 * STALL_US, STALL_US).is_empty());
        assert!(answers.listed.is_empty());
        let _next = holder.charge(10, 10);
        answers.list(&holder, || 20 * STALL_US);
        assert!(answers.stalled(21 * STALL_US, STALL_US).is_empty());
        assert_eq!(answers.stalled(21 * STALL_US + 1, STALL_US).len(), 1);
    }

    #[test]
    fn a_subscriber_holds_what_it_says_it_does() {
        let mut answers = Answers::default();
        let holder = answers.holder(Who::Subscriber(7));
        answers.list(&holder, || 0);
        for held in [100, 20, 50] {
            holder.set(held);
            assert_eq!(answers.bytes(), held);
        }
        assert!(answers.stalled(STALL_US * 9, STALL_US).is_empty(), "it is owed nothing");
        assert_eq!(answers.largest_beyond(0).map(|holder| holder.who()), Some(Who::Subscriber(7)));
        holder.set(0);
        assert_eq!(answers.bytes(), 0);
    }
}
