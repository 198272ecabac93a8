//! Waits for a condition, with patience.

use std::fmt::Debug;
#[cfg(feature = "async")]
use std::pin::pin;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use crate::Patience;

/// The time between two looks without a notification.
pub const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(10);

/// Repeats `look` until it finds something.
#[track_caller]
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let mut patience = Patience::new();
    loop {
        if let Some(found) = look() {
            return found;
        }
        patience.check(what);
        thread::sleep(LOOK_AGAIN_AFTER);
    }
}

/// Repeats `look` until its value is as expected; returns the value.
#[track_caller]
pub fn wait_for_value<T: Debug>(
    what: &str,
    mut look: impl FnMut() -> T,
    mut is_met: impl FnMut(&T) -> bool,
) -> T {
    let mut patience = Patience::new();
    loop {
        let value = look();
        if is_met(&value) {
            return value;
        }
        assert!(!patience.is_over(), "waited without success for {what}: it is still {value:?}");
        thread::sleep(LOOK_AGAIN_AFTER);
    }
}

/// Receives the next value; `None` after the last one.
#[track_caller]
pub fn receive<T>(receiver: &Receiver<T>, what: &str) -> Option<T> {
    match try_receive(receiver) {
        Ok(value) => Some(value),
        Err(RecvTimeoutError::Disconnected) => None,
        Err(RecvTimeoutError::Timeout) => panic!("waited without success for {what}"),
    }
}

/// Receives the next value, or returns why there is none: no progress, or the channel has closed.
pub fn try_receive<T>(receiver: &Receiver<T>) -> Result<T, RecvTimeoutError> {
    let mut patience = Patience::new();
    loop {
        match receiver.recv_timeout(patience.slice()) {
            Err(RecvTimeoutError::Timeout) if !patience.is_over() => {}
            received => return received,
        }
    }
}

/// Sleeps where time itself is tested: a peer that pauses, or a silence in which nothing may happen. To wait for a
/// condition use [`wait_for`].
pub fn let_pass(time: Duration) {
    thread::sleep(time);
}

/// Returns ticks at an interval, the first one at once.
pub fn paced(interval: Duration) -> impl Iterator<Item = ()> {
    let beat = move |nth| {
        if nth > 0 {
            thread::sleep(interval);
        }
    };
    (0_u64..).map(beat)
}

/// Awaits a future.
#[cfg(feature = "async")]
pub async fn patiently<T>(what: &str, future: impl Future<Output = T>) -> T {
    try_patiently(future).await.unwrap_or_else(|| panic!("waited without success for {what}"))
}

/// Awaits a future; `None` when progress stops.
#[cfg(feature = "async")]
pub async fn try_patiently<T>(future: impl Future<Output = T>) -> Option<T> {
    let (mut future, mut patience) = (pin!(future), Patience::new());
    loop {
        match tokio::time::timeout(patience.slice(), &mut future).await {
            Ok(output) => return Some(output),
            Err(_) if patience.is_over() => return None,
            Err(_) => {}
        }
    }
}
