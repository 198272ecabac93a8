//! Wakes the shard for tunnels: HTTP/2 streams in both directions. They have no descriptor that epoll could watch.

use std::{
    mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::AcqRel, Ordering::Release},
    },
    task::{Context, Wake, Waker},
};

#[derive(Default)]
pub(super) struct Tunnels(Arc<Mutex<Woken>>);

#[derive(Default)]
struct Woken {
    tunnels: Vec<Arc<TunnelWaker>>,
    /// The waker of the loop.
    waker: Option<Waker>,
}

struct TunnelWaker {
    key: u32,
    is_woken: AtomicBool,
    woken: Arc<Mutex<Woken>>,
}

impl Tunnels {
    /// Returns the waker of the connection with this key. A later connection may have the same key, and is then woken without need.
    pub(super) fn waker(&self, key: u32) -> Waker {
        let woken = Arc::clone(&self.0);
        Waker::from(Arc::new(TunnelWaker { key, is_woken: AtomicBool::new(false), woken }))
    }

    /// Returns whether tunnels were woken. If not, the task of `cx` is woken later.
    pub(super) fn has_woken(&self, cx: &Context<'_>) -> bool {
        let mut woken = lock(&self.0);
        if !woken.tunnels.is_empty() {
            return true;
        }
        match &mut woken.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        false
    }

    /// Takes the keys of the connections that were woken.
    pub(super) fn take(&self) -> impl Iterator<Item = u32> + use<> {
        let woken = mem::take(&mut lock(&self.0).tunnels);
        woken.into_iter().map(|tunnel| {
            tunnel.is_woken.store(false, Release);
            tunnel.key
        })
    }
}

impl Wake for TunnelWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.is_woken.swap(true, AcqRel) {
            return;
        }
        let mut woken = lock(&self.woken);
        woken.tunnels.push(Arc::clone(self));
        let waker = woken.waker.take();
        drop(woken);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Locks the list. A panic elsewhere leaves the keys valid.
fn lock(woken: &Mutex<Woken>) -> MutexGuard<'_, Woken> {
    woken.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    use super::*;

    #[derive(Default)]
    struct Loop(AtomicU32);

    impl Wake for Loop {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    #[test]
    fn each_woken_tunnel_is_named_once_and_the_loop_woken_once() {
        let (tunnels, turns) = (Tunnels::default(), Arc::new(Loop::default()));
        let waker = Waker::from(Arc::clone(&turns));
        let context = Context::from_waker(&waker);
        let (one, other) = (tunnels.waker(1), tunnels.waker(2));
        assert!(!tunnels.has_woken(&context));
        one.wake_by_ref();
        one.wake_by_ref();
        other.wake_by_ref();
        assert_eq!(turns.0.load(Relaxed), 1);
        assert!(tunnels.has_woken(&context));
        assert_eq!(tunnels.take().collect::<Vec<_>>(), [1, 2]);
        assert!(!tunnels.has_woken(&context));
        one.wake_by_ref();
        assert_eq!(turns.0.load(Relaxed), 2);
        assert_eq!(tunnels.take().collect::<Vec<_>>(), [1]);
    }
}
