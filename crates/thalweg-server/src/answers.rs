//! Unread answers: their memory, the connection that holds the most, and clients that read too slowly. Pure: time comes in
//! as `now_us`.

mod account;

use std::{cmp::Reverse, collections::HashMap, sync::Arc};

use crate::{config::has_read_enough, connection_limits::Address, transport::Client};
use account::Count;
pub(crate) use account::{AccountOwner, AnswerAccount, Charge};

#[derive(Debug, Default)]
pub(crate) struct Answers {
    all: Arc<Count>,
    tracked: Vec<Tracked>,
    /// Whether the answers held too much at the last check.
    was_over: bool,
    /// Memory of trimmed batches that each client's history reads keep, as of the last sweep.
    pub(crate) pinned: HashMap<Client, usize>,
}

#[derive(Debug, Default)]
pub(crate) struct OverLimit {
    pub(crate) ended: Vec<Arc<AnswerAccount>>,
    /// Whether some connections were not checked before.
    pub(crate) check_again: bool,
}

/// A connection with an unread or pending answer, and the start of its observation.
#[derive(Debug)]
struct Tracked {
    account: Arc<AnswerAccount>,
    address: Address,
    since_us: u64,
    pending: usize,
    taken: usize,
    /// Whether an earlier check saw the connection, so its client has had time to read.
    is_seen: bool,
}

impl Tracked {
    /// Returns whether the client has read nothing since `since_us`.
    fn is_idle(&self) -> bool {
        self.account.taken() == self.taken
    }
}

impl Answers {
    pub(crate) fn account(&self, owner: AccountOwner) -> Arc<AnswerAccount> {
        Arc::new(AnswerAccount::new(owner, &self.all))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.all.get()
    }

    /// Tracks a connection while it has an unread or pending answer. `address` is its client's.
    pub(crate) fn track(
        &mut self,
        account: &Arc<AnswerAccount>,
        address: Address,
        now_us: impl FnOnce() -> u64,
    ) {
        if account.set_tracked(true) {
            return;
        }
        let since_us = now_us();
        let (pending, taken) = (account.pending(), account.taken());
        // A turn sends to subscribers before it checks: no second look is needed.
        let is_seen = matches!(account.owner, AccountOwner::Subscriber(_));
        let account = Arc::clone(account);
        self.tracked.push(Tracked { account, address, since_us, pending, taken, is_seen });
    }

    /// Checks whether all answers exceed `bytes_max`; returns the connections to end, which no longer count. Call it
    /// again a turn later while some connections are new, because only then can their clients have read something.
    pub(crate) fn over_limit(&mut self, bytes_max: usize) -> OverLimit {
        let is_over = self.bytes() > bytes_max;
        let was_over = std::mem::replace(&mut self.was_over, is_over);
        if !is_over {
            return OverLimit::default();
        }
        let ended = if was_over { self.evict_over_limit(bytes_max) } else { Vec::new() };
        let mut check_again = !was_over;
        for tracked in &mut self.tracked {
            check_again |= !std::mem::replace(&mut tracked.is_seen, true);
        }
        OverLimit { ended, check_again }
    }

    /// Ends connections until the limit holds, in the order that `Limits::answer_bytes` describes.
    fn evict_over_limit(&mut self, bytes_max: usize) -> Vec<Arc<AnswerAccount>> {
        // Untracked connections do not count, so that no tracked one ends because of them.
        let mut all: usize = self.tracked.iter().map(|tracked| tracked.account.held()).sum();
        let mut by_address: HashMap<(bool, Address), usize> = HashMap::new();
        let may_end = |tracked: &&Tracked| tracked.is_seen && tracked.account.held() > 0;
        for tracked in self.tracked.iter().filter(may_end) {
            *by_address.entry((tracked.is_idle(), tracked.address)).or_default() +=
                tracked.account.held();
        }
        // The newer of two equal connections ends first.
        let mut order: Vec<_> = self.tracked.iter().rev().filter(may_end).collect();
        order.sort_by_cached_key(|tracked| {
            let of_address = by_address[&(tracked.is_idle(), tracked.address)];
            Reverse((tracked.is_idle(), of_address, tracked.account.held()))
        });
        let mut ended = Vec::new();
        for tracked in order {
            if all <= bytes_max {
                break;
            }
            all -= tracked.account.held();
            ended.push(Arc::clone(&tracked.account));
        }
        ended.iter().for_each(|account| _ = account.leave());
        self.tracked.retain(|tracked| !tracked.account.is_evicted());
        ended
    }

    /// Returns connections whose clients have read less than the required share of their pending bytes for `stall_us`.
    /// They must end, and no longer count.
    pub(crate) fn stalled(&mut self, now_us: u64, stall_us: u64) -> Vec<Arc<AnswerAccount>> {
        let mut stalled = Vec::new();
        for index in (0..self.tracked.len()).rev() {
            let tracked = &mut self.tracked[index];
            let account = &tracked.account;
            let (pending, taken) = (account.pending(), account.taken());
            if pending == 0 && account.held() == 0 {
                account.set_tracked(false);
                self.tracked.swap_remove(index);
            } else if now_us.saturating_sub(tracked.since_us) > stall_us {
                if !has_read_enough(taken.wrapping_sub(tracked.taken), tracked.pending) {
                    let Tracked { account, .. } = self.tracked.swap_remove(index);
                    account.leave();
                    stalled.push(account);
                    continue;
                }
                (tracked.since_us, tracked.pending, tracked.taken) = (now_us, pending, taken);
            }
        }
        stalled
    }

    /// Stops counting a connection that must end. Returns whether it counted until now.
    pub(crate) fn leave(&mut self, account: &Arc<AnswerAccount>) -> bool {
        self.tracked.retain(|tracked| !Arc::ptr_eq(&tracked.account, account));
        account.leave()
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use bytes::Bytes;

    use super::*;

    const STALL_US: u64 = 1_000;

    fn address(number: u8) -> Address {
        Address::from_ip(IpAddr::from([192, 0, 2, number]))
    }

    fn pending(answers: &mut Answers, bytes: usize) -> (Arc<AnswerAccount>, Vec<Bytes>) {
        owed_to(answers, address(1), bytes)
    }

    fn owed_to(
        answers: &mut Answers,
        to: Address,
        bytes: usize,
    ) -> (Arc<AnswerAccount>, Vec<Bytes>) {
        let account = answers.account(AccountOwner::Http);
        let pieces = vec![vec![0; bytes / 10]; 10];
        let pieces = pieces.into_iter().map(|p| account.charge(p.len(), p.len()).attach_to(p));
        let pieces = pieces.collect();
        answers.track(&account, to, || 0);
        (account, pieces)
    }

    /// Returns the connections that must end after each had a turn.
    fn ended(answers: &mut Answers, bytes_max: usize) -> Vec<Arc<AnswerAccount>> {
        let first = answers.over_limit(bytes_max);
        assert!(first.ended.is_empty(), "their clients have had no time to read");
        answers.over_limit(bytes_max).ended
    }

    #[test]
    fn clients_that_read_stay_and_many_small_accounts_of_one_address_are_closed() {
        let mut answers = Answers::default();
        let (taking, mut pieces) = owed_to(&mut answers, address(1), 500);
        let (large, _held) = owed_to(&mut answers, address(2), 400);
        let hoarding: Vec<_> = (0..9).map(|_| owed_to(&mut answers, address(3), 100)).collect();
        assert!(answers.over_limit(1_000).check_again);
        pieces.pop();
        let (late, _late) = owed_to(&mut answers, address(4), 2_000);
        let over_limit = answers.over_limit(2_900);
        assert!(over_limit.check_again, "the late one is looked at again");
        let is_hoarding =
            |ended: &Arc<AnswerAccount>| hoarding.iter().any(|(h, _)| Arc::ptr_eq(h, ended));
        assert_eq!((over_limit.ended.len(), over_limit.ended.iter().all(is_hoarding)), (9, true));
        assert_eq!(answers.bytes(), 450 + 400 + 2_000);
        drop(late);
        // Only then the other idle clients, and last the client that reads.
        let next = answers.over_limit(500).ended;
        assert_eq!(next.len(), 2);
        assert!(Arc::ptr_eq(&next[1], &large) && !Arc::ptr_eq(&next[0], &taking));
    }

    #[test]
    fn untracked_memory_and_empty_accounts_close_nobody() {
        let mut answers = Answers::default();
        let (_small, _held) = pending(&mut answers, 100);
        let (_empty, pieces) = pending(&mut answers, 100);
        drop(pieces);
        let untracked = answers.account(AccountOwner::Http);
        let _charge = untracked.charge(1_000, 1_000);
        assert!(ended(&mut answers, 500).is_empty());
        assert!(!answers.over_limit(500).check_again, "it is not looked at for ever");
        answers.track(&untracked, address(1), || 0);
        assert!(answers.over_limit(500).check_again);
        let ended = answers.over_limit(500).ended;
        assert!(ended.len() == 1 && Arc::ptr_eq(&ended[0], &untracked));
        assert!(!answers.leave(&untracked), "it is counted once");
    }

    #[test]
    fn the_largest_account_is_closed_and_no_longer_counted() {
        let mut answers = Answers::default();
        let (_small, _held) = pending(&mut answers, 100);
        let (large, pieces) = pending(&mut answers, 1_000);
        assert_eq!(answers.bytes(), 1_100);
        assert!(ended(&mut answers, 1_100).is_empty());
        let ended = ended(&mut answers, 1_099);
        assert!(ended.len() == 1 && Arc::ptr_eq(&ended[0], &large));
        assert_eq!(answers.bytes(), 100);
        drop(pieces);
        assert_eq!((answers.bytes(), large.held()), (100, 0));
        // Bytes that its task adds before it ends do not count either.
        drop(large.charge(5, 5));
        assert_eq!(answers.bytes(), 100);
    }

    #[test]
    fn only_a_client_that_reads_its_share_gets_more_time() {
        for (taken, is_stalled) in [(0, true), (2, true), (3, false), (10, false)] {
            let mut answers = Answers::default();
            let (_holder, mut pieces) = pending(&mut answers, 1_000);
            pieces.truncate(10 - taken);
            assert!(answers.stalled(STALL_US, STALL_US).is_empty(), "it has until then");
            let stalled = answers.stalled(STALL_US + 1, STALL_US).len();
            assert_eq!(stalled == 1, is_stalled, "{taken} of 10");
            // The next share is of the remaining bytes.
            let later = answers.stalled(2 * STALL_US + 2, STALL_US).len();
            assert_eq!(stalled + later, usize::from(taken < 10), "{taken} of 10");
        }
    }

    #[test]
    fn a_client_that_has_taken_all_begins_again() {
        let mut answers = Answers::default();
        let (account, pieces) = pending(&mut answers, 1_000);
        drop(pieces);
        assert!(answers.stalled(10 * STALL_US, STALL_US).is_empty());
        assert!(answers.tracked.is_empty());
        let _next = account.charge(10, 10);
        answers.track(&account, address(1), || 20 * STALL_US);
        assert!(answers.stalled(21 * STALL_US, STALL_US).is_empty());
        assert_eq!(answers.stalled(21 * STALL_US + 1, STALL_US).len(), 1);
    }

    #[test]
    fn a_subscriber_reports_the_memory_that_it_holds() {
        let mut answers = Answers::default();
        let account = answers.account(AccountOwner::Subscriber(7));
        answers.track(&account, address(1), || 0);
        for held in [100, 20, 50] {
            account.set(held, 0);
            assert_eq!(answers.bytes(), held);
        }
        assert!(answers.stalled(STALL_US * 9, STALL_US).is_empty(), "no bytes are pending");
        assert_eq!(ended(&mut answers, 0)[0].owner, AccountOwner::Subscriber(7));
        account.set(0, 0);
        assert_eq!(answers.bytes(), 0);
    }
}
