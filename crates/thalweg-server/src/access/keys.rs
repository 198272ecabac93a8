//! The keys that an issuer publishes at a URL (RFC 7517 §5), as last read.
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

#[derive(Clone, Default)]
pub(crate) struct KnownKeys {
    /// The newest readable keys.
    pub(crate) keys: Arc<Keys>,
    /// Counts changes of the keys.
    pub(crate) version: u64,
    /// Counts requests to the URL, successful or not.
    pub(crate) attempts: u64,
    /// The earliest time of the next request, in µs.
    pub(crate) again_us: u64,
}

pub(crate) struct PublishedKeys {
    known: watch::Receiver<KnownKeys>,
    /// Requests an early read. One waiting request suffices.
    wanted: mpsc::Sender<()>,
    waiting: Semaphore,
}

impl PublishedKeys {
    pub(crate) fn new() -> (Self, KeysEnd) {
        let (publish, known) = watch::channel(KnownKeys::default());
        let (wanted, asked) = mpsc::channel(1);
        let waiting = Semaphore::new(KEYS_WAITING_MAX);
        (Self { known, wanted, waiting }, KeysEnd { publish, asked })
    }

    pub(super) fn known(&self) -> (u64, Arc<Keys>) {
        let known = self.known.borrow();
        (known.version, Arc::clone(&known.keys))
    }

    /// Waits for another read of the URL, if it may be read now. A flood of unknown keys causes at most one request per
    /// [`KEYS_GAP`]. Fails with `Busy` if too many wait, and `Unavailable` if no read ever succeeded.
    pub(crate) async fn newer(&self, now_us: u64) -> Result<(), Refusal> {
        let (attempts, again_us) = {
            let known = self.known.borrow();
            (known.attempts, known.again_us)
        };
        if attempts == 0 || again_us <= now_us {
            let _waiting =
                self.waiting.try_acquire().map_err(|_| Refusal::busy(TOO_MANY_UNKNOWN))?;
            // Full: a request is already waiting.
            let _ = self.wanted.try_send(());
            let mut known = self.known.clone();
            let asked = known.wait_for(|known| known.attempts > attempts);
            let _ = timeout(KEYS_WAIT, asked).await;
        }
        if self.known.borrow().keys.is_empty() {
            let message =
                "the server cannot read the keys that verify tokens (jwks-url): try again";
            return Err(Refusal::new(ErrorCode::Unavailable, message));
        }
        Ok(())
    }
}

/// A token may name any key, so only a few requests may wait for another read of the keys.
const TOO_MANY_UNKNOWN: &str = "too many requests wait for signing keys that the server does not know yet: try again in a second";

/// The reader's end of the keys at a URL.
pub(crate) struct KeysEnd {
    publish: watch::Sender<KnownKeys>,
    asked: mpsc::Receiver<()>,
}

impl KeysEnd {
    /// Stores the result of a read: new keys or none, and the earliest time of the next read.
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

    /// Waits for `least`, which is [`KEYS_GAP`] or more, and then until a token needs newer keys, for at most `most` in total.
    pub(crate) async fn rest(&mut self, least: Duration, most: Duration) {
        sleep(least).await;
        let _ = timeout(most.saturating_sub(least), self.asked.recv()).await;
    }

    /// Completes when nobody needs the keys any more.
    pub(crate) fn over(&self) -> impl Future<Output = ()> + use<> {
        let publish = self.publish.clone();
        async move { publish.closed().await }
    }
}
