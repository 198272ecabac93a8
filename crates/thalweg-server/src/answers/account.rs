//! One connection's unread answers.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
};

use bytes::Bytes;
use tokio::sync::Notify;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AccountOwner {
    /// An HTTP connection, which its task closes.
    Http,
    /// A subscriber, by its place in the slab.
    Subscriber(u32),
}

/// Bytes, counted by the thread of one shard alone. Atomic because the owner of a [`Bytes`] must be able to move to
/// other threads; no two threads add or subtract at the same time. A load and a store therefore suffice, and cost a
/// fraction of a locked instruction.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicUsize);

impl Count {
    pub(crate) fn get(&self) -> usize {
        self.0.load(Relaxed)
    }

    fn add(&self, bytes: usize) {
        self.0.store(self.get() + bytes, Relaxed);
    }

    fn sub(&self, bytes: usize) {
        self.0.store(self.get() - bytes, Relaxed);
    }
}

#[derive(Debug)]
pub(crate) struct AnswerAccount {
    pub(crate) owner: AccountOwner,
    /// The total of all connections except evicted ones.
    all: Arc<Count>,
    /// Memory, in bytes.
    held: Count,
    /// Pending bytes: requested by the client and unread, wherever they are.
    pending: Count,
    /// All bytes that the client has read since the start.
    taken: Count,
    is_tracked: AtomicBool,
    is_evicted: AtomicBool,
    /// Tells the task of an HTTP connection to close it.
    evicted: Notify,
}

/// Bytes of an answer that count as held and as pending until this is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    pub(crate) account: Arc<AnswerAccount>,
    held: usize,
    pending: usize,
}

impl AnswerAccount {
    /// Returns an empty account. Its bytes also count in `all`.
    pub(super) fn new(owner: AccountOwner, all: &Arc<Count>) -> Self {
        Self {
            owner,
            all: Arc::clone(all),
            held: Count::default(),
            pending: Count::default(),
            taken: Count::default(),
            is_tracked: AtomicBool::new(false),
            is_evicted: AtomicBool::new(false),
            evicted: Notify::new(),
        }
    }

    pub(crate) async fn evicted(&self) {
        self.evicted.notified().await;
    }

    /// Makes the task close the connection.
    pub(crate) fn end(&self) {
        self.evicted.notify_one();
    }

    /// Counts bytes from now on. Call `Answers::track` after the first charge of an answer.
    pub(crate) fn charge(self: &Arc<Self>, held: usize, pending: usize) -> Charge {
        self.add(held);
        self.pending.add(pending);
        Charge { account: Arc::clone(self), held, pending }
    }

    /// Sets the held bytes and adds the bytes read since the last call; no bytes are pending. For a subscriber, whose
    /// connection itself checks that its peer reads enough.
    pub(crate) fn set(&self, held: usize, taken: usize) {
        self.add(held);
        self.sub(self.held() - held);
        self.taken.add(taken);
    }

    pub(crate) fn held(&self) -> usize {
        self.held.get()
    }

    pub(crate) fn pending(&self) -> usize {
        self.pending.get()
    }

    pub(crate) fn taken(&self) -> usize {
        self.taken.get()
    }

    pub(crate) fn is_evicted(&self) -> bool {
        self.is_evicted.load(Relaxed)
    }

    /// Sets whether the connection is tracked. Returns whether it was before.
    pub(crate) fn set_tracked(&self, is_tracked: bool) -> bool {
        let was_tracked = self.is_tracked.load(Relaxed);
        self.is_tracked.store(is_tracked, Relaxed);
        was_tracked
    }

    /// Stops counting the connection. Returns whether it counted before.
    pub(crate) fn leave(&self) -> bool {
        let was_there = !self.is_evicted.swap(true, Relaxed);
        if was_there {
            self.all.sub(self.held());
        }
        was_there
    }

    fn add(&self, bytes: usize) {
        self.held.add(bytes);
        if !self.is_evicted.load(Relaxed) {
            self.all.add(bytes);
        }
    }

    fn sub(&self, bytes: usize) {
        self.held.sub(bytes);
        if !self.is_evicted.load(Relaxed) {
            self.all.sub(bytes);
        }
    }
}

impl Charge {
    /// Wraps the bytes. The charge ends when they are dropped.
    pub(crate) fn attach_to(self, bytes: impl AsRef<[u8]> + Send + 'static) -> Bytes {
        Bytes::from_owner(Charged { bytes, _charge: self })
    }

    /// Removes this many pending bytes, which another charge counts from now on.
    pub(crate) fn transfer(&mut self, bytes: usize) {
        let bytes = bytes.min(self.pending);
        self.pending -= bytes;
        self.account.pending.sub(bytes);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.sub(self.held);
        self.account.pending.sub(self.pending);
        self.account.taken.add(self.pending);
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
