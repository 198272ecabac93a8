//! The tests. Each takes a fresh rig, and panics if the broker breaks the contract.

mod appends;
mod following;
mod keyed;
mod outages;
mod reads;

use std::ops::Range;

use thalweg_broker::Broker;
use thalweg_wire::Offset;

pub use appends::{
    batches, compare_and_set, concurrent_appends, duplicates, keys_across_servers, tickets,
};
pub use following::{order, readiness, slow_readers, times};
pub use keyed::{keyed_conditions, keyed_ends, keyed_records, keyed_repetitions, keyed_trims};
pub use outages::{faults, gaps, renewal, restarts, second_restarts};
pub use reads::{ends, losses, newest, pauses, ranges, topics};

use crate::Node;

/// A broker under test, and its faults. The first stream of the broker has the topics `log/**`, the second one the
/// value topics `values/**`. If the broker keeps keys, the third one has the keyed topics `keys/**`.
pub trait Rig {
    /// The broker.
    type Broker: Broker;

    /// Opens the broker, as one more server.
    fn open(&self) -> impl Future<Output = Result<Self::Broker, String>> + Send + 'static;

    /// Crashes the broker, and starts it again with all records that it has stored. A broker without a process of its own
    /// leaves what a crash would leave, such as half a record.
    fn restart(&mut self);

    /// Removes all records that were appended so far, as retention does, but those that the broker must keep in keyed topics.
    fn trim(&mut self);

    /// Loses the records that begin in a range of offsets, as a damaged disk does, and starts the broker again if it finds that
    /// only then. Returns `false` if the broker has no such losses.
    fn lose(&mut self, _records: Range<Offset>) -> bool {
        false
    }

    /// Deletes the stream `log/**`, and makes it again, empty.
    fn renew(&mut self);

    /// Makes the broker stop answering, or answer again. The broker loses no records. One without a process of its own
    /// fails all calls with `Unavailable` or `Unknown` meanwhile, and its followers are not ready.
    fn cut(&mut self, is_cut: bool);
}

fn node<R: Rig>(rig: &R) -> Node<R::Broker> {
    Node::start(rig.open()).expect("the broker opens")
}
