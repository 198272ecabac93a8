//! The keys that an issuer publishes at a URL (RFC 7517 §5), as they were last read.
//!
//! ```text
//! token of an unknown key ── wanted ──► fetch/keys.rs ── at most once in 10 s ──► the URL
//!                         ◄─ known ───
//! ```

use std::{sync::Arc, time::Duration};

use thalweg_token::Keys;
use thalweg_wire::ErrorCode;
use tokio::{
    sync::{Semaphore, mpsc, watch},
    time::{sleep, timeout},
};

use crate::{
    config::{KEYS_WAIT, KEYS_WAITING_MAX},
    refusal::Refusal,
};

/// What is known of the keys at a URL.
#[derive(Clone, Default)]
pub(crate) struct KnownKeys {
    /// The newest that could be read.
    pub(crate) keys: Arc<Keys>,
    /// Counts the times that they became others.
    pub(crate) version: u64,
    /// Counts the times that the URL was asked, whatever came of it.
    pub(crate) attempts: u64,
    /// When it may be asked again, in µs.
    pub(crate) again_us: u64,
}

/// The keys at a URL.
pub(crate) struct PublishedKeys {
    known: watch::Receiver<KnownKeys>,
    /// Asks for them before their time. One that waits is enough.
    wanted: mpsc::Sender<()>,
    /// Places for who waits for them.
    waiting: Semaphore,
}

impl PublishedKeys {
    /// The keys, and the other end: whoever reads them.
    pub(crate) fn new() -> (Self, KeysEnd) {
        let (publish, known) = watch::channel(KnownKeys::default());
        let (wanted, asked) = mpsc::channel(1);
        let waiting = Semaphore::new(KEYS_WAITING_MAX);
        (Self { known, wanted, waiting }, KeysEnd { publish, asked })
    }

    /// Their version, and the keys.
    pub(super) fn known(&self) -> (u64, Arc<Keys>) {
        let known = self.known.borrow();
        (known.version, Arc::clone(&known.keys))
    }

    /// Waits until the URL was asked once more, if it may be asked now. A flood of keys that nobody
    /// knows costs it one request in [`KEYS_GAP`].
    ///
    /// # Errors
    /// `Busy` if too many wait; `Unavailable` if nothing was ever read there.
    pub(crate) async fn newer(&self, now_us: u64) -> Result<(), Refusal> {
        let (attempts, again_us) = {
            let known = self.known.borrow();
            (known.attempts, known.again_us)
        };
        if attempts == 0 || again_us <= now_us {
            let _waiting = self
                .waiting
                .try_acquire()
                .map_err(|_| Refusal::busy("tokens whose keys are asked for"))?;
            // Full: it is asked already.
            let _ = self.wanted.try_send(());
            let mut known = self.known.clone();
            let asked = known.wait_for(|known| known.attempts > attempts);
            let _ = timeout(KEYS_WAIT, asked).await;
        }
        if self.known.borrow().keys.is_empty() {
            let message = "the keys of tokens cannot be read now: try again";
            return Err(Refusal::new(ErrorCode::Unavailable, message));
        }
        Ok(())
    }
}

/// Whoever reads the keys at a URL.
pub(crate) struct KeysEnd {
    publish: watch::Sender<KnownKeys>,
    asked: mpsc::Receiver<()>,
}

impl KeysEnd {
    /// Takes the result of a reading: other keys, or none, and when the URL may be asked again.
    pub(crate) fn publish(&self, read: Option<Keys>, again_us: u64) {
        self.publish.send_modify(|known| {
            known.attempts += 1;
            known.again_us = again_us;
            if let Some(keys) = read {
                known.version += 1;
                known.keys = Arc::new(keys);
            }
        });
    }

    /// Waits for `least`, which is [`KEYS_GAP`] or more, and then until somebody wants the keys, for
    /// `most` in all.
    pub(crate) async fn rest(&mut self, least: Duration, most: Duration) {
        sleep(least).await;
        let _ = timeout(most.saturating_sub(least), self.asked.recv()).await;
    }

    /// Completes when nobody wants them any more.
    pub(crate) fn over(&self) -> impl Future<Output = ()> + use<> {
        let publish = self.publish.clone();
        async move { publish.closed().await }
    }
}
