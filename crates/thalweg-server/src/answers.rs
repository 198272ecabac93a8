//! Answers that their clients have not read yet: the memory they hold, which connection holds
//! most, and which client reads too slowly. Pure: time comes in as `now_us`.

mod holder;

use std::{cmp::Reverse, collections::HashMap, sync::Arc};

use crate::{config::is_share, connection_limits::Address, transport::Client};
use holder::Count;
pub(crate) use holder::{Charge, Holder, Who};

/// All answers of a shard.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    all: Arc<Count>,
    listed: Vec<Listed>,
    /// They held too much at the last check.
    was_beyond: bool,
    /// Memory of trimmed batches that each client's history queries keep, as of the last sweep.
    pub(crate) pinned: HashMap<Client, usize>,
}

/// What to do when all together hold too much.
#[derive(Debug, Default)]
pub(crate) struct Beyond {
    /// Connections that must end.
    pub(crate) ended: Vec<Arc<Holder>>,
    /// Some connections were not checked before.
    pub(crate) has_new: bool,
}

/// A connection that holds an answer or has one pending, and since when it is watched.
#[derive(Debug)]
struct Listed {
    holder: Arc<Holder>,
    /// The address of the client whose answer it was listed for.
    address: Address,
    since_us: u64,
    owed: usize,
    taken: usize,
    /// It was listed at an earlier check that found too much: its client had time to read
    /// something since.
    is_seen: bool,
}

impl Listed {
    /// Its client has read nothing since it is watched.
    fn is_idle(&self) -> bool {
        self.holder.taken() == self.taken
    }
}

impl Answers {
    /// A connection that holds nothing yet.
    pub(crate) fn holder(&self, who: Who) -> Arc<Holder> {
        Arc::new(Holder::new(who, &self.all))
    }

    /// Bytes that all hold.
    pub(crate) fn bytes(&self) -> usize {
        self.all.get()
    }

    /// Watches a connection for as long as it holds an answer or has one pending. `address` is
    /// its client's.
    pub(crate) fn list(
        &mut self,
        holder: &Arc<Holder>,
        address: Address,
        now_us: impl FnOnce() -> u64,
    ) {
        if holder.set_listed(true) {
            return;
        }
        let since_us = now_us();
        let (owed, taken) = (holder.owed(), holder.taken());
        // A turn sends to subscribers before it checks, so no second look is needed.
        let is_seen = matches!(holder.who, Who::Subscriber(_));
        let holder = Arc::clone(holder);
        self.listed.push(Listed { holder, address, since_us, owed, taken, is_seen });
    }

    /// Checks whether all hold more than `bytes_max`, and returns the connections that must
    /// end. These no longer count. While there are new ones, call it again a turn later: only
    /// then can their clients have read something.
    pub(crate) fn beyond(&mut self, bytes_max: usize) -> Beyond {
        let is_beyond = self.bytes() > bytes_max;
        let was_beyond = std::mem::replace(&mut self.was_beyond, is_beyond);
        if !is_beyond {
            return Beyond::default();
        }
        let ended = if was_beyond { self.take_beyond(bytes_max) } else { Vec::new() };
        let mut has_new = !was_beyond;
        for listed in &mut self.listed {
            has_new |= !std::mem::replace(&mut listed.is_seen, true);
        }
        Beyond { ended, has_new }
    }

    /// Connections whose client has read nothing are ended first. Among them, the address that
    /// holds most comes first, and of that address the connection that holds most.
    fn take_beyond(&mut self, bytes_max: usize) -> Vec<Arc<Holder>> {
        // Connections that are not listed do not count: no listed one must end because of them.
        let mut all: usize = self.listed.iter().map(|listed| listed.holder.held()).sum();
        let mut by_address: HashMap<(bool, Address), usize> = HashMap::new();
        let may_end = |listed: &&Listed| listed.is_seen && listed.holder.held() > 0;
        for listed in self.listed.iter().filter(may_end) {
            *by_address.entry((listed.is_idle(), listed.address)).or_default() +=
                listed.holder.held();
        }
        // If two hold the same, the newer one ends first.
        let mut order: Vec<_> = self.listed.iter().rev().filter(may_end).collect();
        order.sort_by_cached_key(|listed| {
            let of_address = by_address[&(listed.is_idle(), listed.address)];
            Reverse((listed.is_idle(), of_address, listed.holder.held()))
        });
        let mut ended = Vec::new();
        for listed in order {
            if all <= bytes_max {
                break;
            }
            all -= listed.holder.held();
            ended.push(Arc::clone(&listed.holder));
        }
        ended.iter().for_each(|holder| _ = holder.leave());
        self.listed.retain(|listed| !listed.holder.is_cut());
        ended
    }

    /// Connections whose clients have read less than the required share of what was pending for
    /// `stall_us`. They must end, and no longer count.
    pub(crate) fn stalled(&mut self, now_us: u64, stall_us: u64) -> Vec<Arc<Holder>> {
        let mut stalled = Vec::new();
        for index in (0..self.listed.len()).rev() {
            let listed = &mut self.listed[index];
            let holder = &listed.holder;
            let (owed, taken) = (holder.owed(), holder.taken());
            if owed == 0 && holder.held() == 0 {
                holder.set_listed(false);
                self.listed.swap_remove(index);
            } else if now_us.saturating_sub(listed.since_us) > stall_us {
                if !is_share(taken.wrapping_sub(listed.taken), listed.owed) {
                    let Listed { holder, .. } = self.listed.swap_remove(index);
                    holder.leave();
                    stalled.push(holder);
                    continue;
                }
                (listed.since_us, listed.owed, listed.taken) = (now_us, owed, taken);
            }
        }
        stalled
    }

    /// Stops counting a connection that must end. Returns whether it was counted until now.
    pub(crate) fn leave(&mut self, holder: &Arc<Holder>) -> bool {
        self.listed.retain(|listed| !Arc::ptr_eq(&listed.holder, holder));
        holder.leave()
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use bytes::Bytes;

    use super::*;

    const STALL_US: u64 = 1_000;

    /// An address for test clients.
    fn of(number: u8) -> Address {
        Address::of(IpAddr::from([192, 0, 2, number]))
    }

    fn owed(answers: &mut Answers, bytes: usize) -> (Arc<Holder>, Vec<Bytes>) {
        owed_to(answers, of(1), bytes)
    }

    fn owed_to(answers: &mut Answers, to: Address, bytes: usize) -> (Arc<Holder>, Vec<Bytes>) {
        let holder = answers.holder(Who::Http);
        let pieces = vec![vec![0; bytes / 10]; 10];
        let pieces = pieces.into_iter().map(|p| holder.charge(p.len(), p.len()).on(p));
        let pieces = pieces.collect();
        answers.list(&holder, to, || 0);
        (holder, pieces)
    }

    /// The connections that must end after each had a turn.
    fn ended(answers: &mut Answers, bytes_max: usize) -> Vec<Arc<Holder>> {
        let first = answers.beyond(bytes_max);
        assert!(first.ended.is_empty(), "their clients could take nothing yet");
        answers.beyond(bytes_max).ended
    }

    #[test]
    fn who_takes_its_answer_stays_and_many_small_holders_of_one_address_go() {
        let mut answers = Answers::default();
        let (taking, mut pieces) = owed_to(&mut answers, of(1), 500);
        let (large, _held) = owed_to(&mut answers, of(2), 400);
        let hoarding: Vec<_> = (0..9).map(|_| owed_to(&mut answers, of(3), 100)).collect();
        assert!(answers.beyond(1_000).has_new);
        pieces.pop();
        let (late, _late) = owed_to(&mut answers, of(4), 2_000);
        let beyond = answers.beyond(2_900);
        assert!(beyond.has_new, "the late one is looked at again");
        let is_hoarding = |ended: &Arc<Holder>| hoarding.iter().any(|(h, _)| Arc::ptr_eq(h, ended));
        assert_eq!((beyond.ended.len(), beyond.ended.iter().all(is_hoarding)), (9, true));
        assert_eq!(answers.bytes(), 450 + 400 + 2_000);
        drop(late);
        // Only then the other idle clients, and last the client that reads something.
        let next = answers.beyond(500).ended;
        assert_eq!(next.len(), 2);
        assert!(Arc::ptr_eq(&next[1], &large) && !Arc::ptr_eq(&next[0], &taking));
    }

    #[test]
    fn nobody_ends_for_what_is_not_listed_nor_who_holds_nothing() {
        let mut answers = Answers::default();
        let (_small, _held) = owed(&mut answers, 100);
        let (_empty, pieces) = owed(&mut answers, 100);
        drop(pieces);
        let unlisted = answers.holder(Who::Http);
        let _charge = unlisted.charge(1_000, 1_000);
        assert!(ended(&mut answers, 500).is_empty());
        assert!(!answers.beyond(500).has_new, "it is not looked at for ever");
        answers.list(&unlisted, of(1), || 0);
        assert!(answers.beyond(500).has_new);
        let ended = answers.beyond(500).ended;
        assert!(ended.len() == 1 && Arc::ptr_eq(&ended[0], &unlisted));
        assert!(!answers.leave(&unlisted), "it is counted once");
    }

    #[test]
    fn the_largest_goes_and_is_counted_no_more() {
        let mut answers = Answers::default();
        let (_small, _held) = owed(&mut answers, 100);
        let (large, pieces) = owed(&mut answers, 1_000);
        assert_eq!(answers.bytes(), 1_100);
        assert!(ended(&mut answers, 1_100).is_empty());
        let ended = ended(&mut answers, 1_099);
        assert!(ended.len() == 1 && Arc::ptr_eq(&ended[0], &large));
        assert_eq!(answers.bytes(), 100);
        drop(pieces);
        assert_eq!((answers.bytes(), large.held()), (100, 0));
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
        answers.list(&holder, of(1), || 20 * STALL_US);
        assert!(answers.stalled(21 * STALL_US, STALL_US).is_empty());
        assert_eq!(answers.stalled(21 * STALL_US + 1, STALL_US).len(), 1);
    }

    #[test]
    fn a_subscriber_holds_what_it_says_it_does() {
        let mut answers = Answers::default();
        let holder = answers.holder(Who::Subscriber(7));
        answers.list(&holder, of(1), || 0);
        for held in [100, 20, 50] {
            holder.set(held, 0);
            assert_eq!(answers.bytes(), held);
        }
        assert!(answers.stalled(STALL_US * 9, STALL_US).is_empty(), "it is owed nothing");
        assert_eq!(ended(&mut answers, 0)[0].who, Who::Subscriber(7));
        holder.set(0, 0);
        assert_eq!(answers.bytes(), 0);
    }
}
