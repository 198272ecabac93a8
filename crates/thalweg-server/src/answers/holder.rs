//! What one connection holds of answers that its client has not taken.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
};

use bytes::Bytes;
use tokio::sync::Notify;

/// Whose connection holds answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    /// One that HTTP serves: its task ends it.
    Http,
    /// A subscriber, by its place in the slab.
    Subscriber(u32),
}

/// Bytes, counted by the thread of one shard alone. It is atomic because what owns a
/// [`Bytes`] must be able to move to other threads; nothing else adds or subtracts
/// meanwhile, so a load and a store do, at a fraction of what a locked instruction costs.
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

/// What one connection holds of answers.
#[derive(Debug)]
pub(crate) struct Holder {
    pub(crate) who: Who,
    /// What all hold: those that are cut have left it.
    all: Arc<Count>,
    /// Memory, in bytes.
    held: Count,
    /// Bytes that its client has asked for and not taken, wherever they are.
    owed: Count,
    /// Bytes that its client took, ever.
    taken: Count,
    is_listed: AtomicBool,
    is_cut: AtomicBool,
    /// Tells its task that it is to end.
    cut: Notify,
}

/// Bytes of an answer that are held and owed, until this is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    pub(crate) holder: Arc<Holder>,
    held: usize,
    owed: usize,
}

impl Holder {
    /// One that holds nothing yet, of those that hold `all`.
    pub(super) fn new(who: Who, all: &Arc<Count>) -> Self {
        Self {
            who,
            all: Arc::clone(all),
            held: Count::default(),
            owed: Count::default(),
            taken: Count::default(),
            is_listed: AtomicBool::new(false),
            is_cut: AtomicBool::new(false),
            cut: Notify::new(),
        }
    }

    /// Until its connection is to end.
    pub(crate) async fn cut(&self) {
        self.cut.notified().await;
    }

    /// Has its task end it.
    pub(crate) fn end(&self) {
        self.cut.notify_one();
    }

    /// What is charged counts at once. Call `Answers::list` for the first of an answer.
    pub(crate) fn charge(self: &Arc<Self>, held: usize, owed: usize) -> Charge {
        self.add(held);
        self.owed.add(owed);
        Charge { holder: Arc::clone(self), held, owed }
    }

    /// It holds so much now, its client has taken so much more, and it is owed nothing: for
    /// a subscriber, whose connection knows itself whether its peer takes enough.
    pub(crate) fn set(&self, held: usize, taken: usize) {
        self.add(held);
        self.sub(self.held() - held);
        self.taken.add(taken);
    }

    pub(crate) fn held(&self) -> usize {
        self.held.get()
    }

    pub(crate) fn owed(&self) -> usize {
        self.owed.get()
    }

    pub(crate) fn taken(&self) -> usize {
        self.taken.get()
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut.load(Relaxed)
    }

    /// Whether it is looked after, from now on; what it was.
    pub(crate) fn set_listed(&self, is_listed: bool) -> bool {
        let was_listed = self.is_listed.load(Relaxed);
        self.is_listed.store(is_listed, Relaxed);
        was_listed
    }

    /// Has it counted no more; whether it was until now.
    pub(crate) fn leave(&self) -> bool {
        let was_there = !self.is_cut.swap(true, Relaxed);
        if was_there {
            self.all.sub(self.held());
        }
        was_there
    }

    fn add(&self, bytes: usize) {
        self.held.add(bytes);
        if !self.is_cut.load(Relaxed) {
            self.all.add(bytes);
        }
    }

    fn sub(&self, bytes: usize) {
        self.held.sub(bytes);
        if !self.is_cut.load(Relaxed) {
            self.all.sub(bytes);
        }
    }
}

impl Charge {
    /// These bytes, which the charge lasts as long as.
    pub(crate) fn on(self, bytes: impl AsRef<[u8]> + Send + 'static) -> Bytes {
        Bytes::from_owner(Charged { bytes, _charge: self })
    }

    /// So many of the bytes owed are another charge's from now on.
    pub(crate) fn hand_over(&mut self, bytes: usize) {
        let bytes = bytes.min(self.owed);
        self.owed -= bytes;
        self.holder.owed.sub(bytes);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.holder.sub(self.held);
        self.holder.owed.sub(self.owed);
        self.holder.taken.add(self.owed);
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
