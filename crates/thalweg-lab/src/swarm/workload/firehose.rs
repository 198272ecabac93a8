//! Checks the pushes of experiment C's firehose: each has the requested size, equals the first, and comes in
//! order if it is numbered. Pure.
//!
//! Thalweg's are `{"seq":1,"due":98273,"pad":"…"}`, the limit's `{"pad":"…"}`, and a peer's any text that is always the same. Only both
//! ends of a push are compared: comparing a megabyte every 500 µs would take a fifth of the swarm's core, which must be free for answers.

use crate::measure::{Counts, Ledger};
use crate::swarm::event;

/// Bytes compared at either end; a shorter push is compared as a whole.
const COMPARED_BYTES: usize = 4096;
const END: &[u8] = b"\"}";

#[derive(Debug)]
pub(super) struct Firehose {
    /// Size of a push; 0 if no pushes are expected.
    push_bytes: usize,
    first: Option<FirstPush>,
    ledger: Ledger,
    /// Intact pushes without a number, which the ledger cannot count.
    unnumbered: u64,
}

/// The first push, with which all others are compared.
#[derive(Debug)]
struct FirstPush {
    is_numbered: bool,
    has_end: bool,
    /// The push without its number, time and end.
    padding: Vec<u8>,
}

impl Firehose {
    pub(super) fn new(push_bytes: u32) -> Firehose {
        let (push_bytes, ledger) = (push_bytes as usize, Ledger::new(1, None));
        Firehose { push_bytes, first: None, ledger, unnumbered: 0 }
    }

    /// Checks the pushes of an envelope, separated by commas. Returns how many are intact and new.
    pub(super) fn pushes(&mut self, events: &[u8]) -> u64 {
        let (mut count, mut rest) = (0, Some(events));
        while let Some(events) = rest {
            let (event, after) = events.split_at(events.len().min(self.push_bytes));
            count += self.push(event);
            rest = match after {
                [] => None,
                [b',', after @ ..] if self.push_bytes > 0 => Some(after),
                _ => {
                    self.ledger.corrupt();
                    None
                }
            };
        }
        count
    }

    /// Checks one push. Returns how many are intact and new: this one or none.
    pub(super) fn push(&mut self, push: &[u8]) -> u64 {
        let (seq, rest) = event::number_of(push);
        let has_end = rest.ends_with(END);
        let padding = rest.strip_suffix(END).unwrap_or(rest);
        let first = self.first.get_or_insert_with(|| FirstPush {
            is_numbered: seq.is_some(),
            has_end,
            padding: padding.to_vec(),
        });
        let is_intact = push.len() == self.push_bytes
            && self.push_bytes > 0
            && (first.is_numbered, first.has_end) == (seq.is_some(), has_end)
            && begin_and_end_alike(&first.padding, padding);
        if !is_intact {
            self.ledger.corrupt();
            return 0;
        }
        match seq {
            Some(seq) => u64::from(self.ledger.arrived(0, seq)),
            None => {
                self.unnumbered += 1;
                1
            }
        }
    }

    /// Records that this many pushes were announced as dropped.
    pub(super) fn gap(&mut self, missed: Option<u64>) {
        self.ledger.gap(0, missed);
    }

    pub(super) fn corrupt(&mut self) {
        self.ledger.corrupt();
    }

    pub(super) fn counts(&self) -> Counts {
        let unnumbered = Counts { delivered: self.unnumbered, ..Counts::default() };
        self.ledger.counts().and(&unnumbered)
    }
}

/// Returns whether two pushes agree at both ends, over the shorter one's length: a longer number means less padding.
fn begin_and_end_alike(one: &[u8], other: &[u8]) -> bool {
    let length = one.len().min(other.len());
    let compared = length.min(COMPARED_BYTES);
    one[..compared] == other[..compared]
        && one[length - compared..length] == other[length - compared..length]
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: u32 = 10_000;

    fn numbered(seq: u64) -> String {
        let head = format!(r#"{{"seq":{seq},"due":{},"pad":""#, 700 + seq);
        let padding = "abcdefg".repeat(BYTES as usize);
        format!(r#"{head}{}"}}"#, &padding[..BYTES as usize - head.len() - 2])
    }

    fn bare() -> String {
        "x".repeat(BYTES as usize)
    }

    /// Checks how many of these envelopes are intact and new, and the ledger's text.
    fn check(envelopes: &[String], expected: (u64, &str)) {
        let mut firehose = Firehose::new(BYTES);
        let came = envelopes.iter().map(|events| firehose.pushes(events.as_bytes())).sum::<u64>();
        let counts = firehose.counts();
        assert_eq!((came, &*counts.to_string()), expected);
        // Late events count as reordered.
        assert_eq!(counts.delivered + counts.reordered, came);
    }

    #[test]
    fn numbered_pushes_come_once_and_in_order() {
        let sent = |seqs: &[u64]| seqs.iter().map(|seq| numbered(*seq)).collect::<Vec<_>>();
        check(&sent(&[98, 99, 100, 101]), (4, "whole"));
        check(&[sent(&[98, 99, 100]).join(","), numbered(101)], (4, "whole"));
        check(&sent(&[98, 99, 101]), (3, "1 missing"));
        check(&sent(&[98, 99, 99]), (2, "1 duplicated"));
        check(&sent(&[98, 100, 99]), (3, "1 reordered"));
    }

    #[test]
    fn pushes_of_another_size_or_with_other_bytes_are_corrupt() {
        let mut short = numbered(99);
        short.remove(5000);
        check(&[numbered(98), short], (1, "1 corrupt"));
        check(&[numbered(98), numbered(99) + "x"], (2, "1 corrupt"));
        check(&[numbered(98), numbered(99) + ","], (2, "1 corrupt"));
        check(&[numbered(98), numbered(99).replacen("cde", "cce", 1)], (1, "1 corrupt"));
        let end = format!("{}x\"}}", &numbered(99)[..BYTES as usize - 3]);
        check(&[numbered(98), end], (1, "1 corrupt"));
        check(&[numbered(98), bare()], (1, "1 corrupt"));
        check(&[bare(), bare(), bare()], (3, "whole"));
        check(&[bare(), bare().replacen('x', "y", 1)], (1, "1 corrupt"));
        check(&[bare(), bare()[1..].to_owned()], (1, "1 corrupt"));
    }

    #[test]
    fn without_a_firehose_nothing_is_a_push() {
        let mut none = Firehose::new(0);
        assert_eq!((none.pushes(b"x"), none.pushes(b","), none.push(b"")), (0, 0, 0));
        assert!(none.counts().corrupt >= 3);
    }

    #[test]
    fn announced_drops_are_not_missing() {
        let mut firehose = Firehose::new(BYTES);
        let mut push = |seq| firehose.push(numbered(seq).as_bytes());
        push(7);
        firehose.gap(Some(2));
        firehose.push(numbered(10).as_bytes());
        firehose.gap(None);
        firehose.push(numbered(20).as_bytes());
        assert_eq!(firehose.counts().to_string(), "2 gaps announced");
    }
}
