//! A shard's timer. It is not in the shard's epoll, so a turn that only the timer causes does not check the sockets.

use std::{
    io,
    os::fd::OwnedFd,
    task::{Context, Poll},
};

use rustix::{
    event::Timespec,
    time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create,
        timerfd_settime,
    },
};
use tokio::io::{Interest, unix::AsyncFd};

/// A timer that wakes the shard's loop.
pub(super) struct Alarm {
    timer: AsyncFd<OwnedFd>,
    armed_us: Option<u64>,
}

impl Alarm {
    /// Creates a timer that is not set. Fails if the kernel has no timer left, or the runtime cannot watch it.
    pub(super) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = watched(timerfd_create(TimerfdClockId::Monotonic, flags)?)?;
        Ok(Self { timer, armed_us: None })
    }

    /// Wakes the loop at a time of the monotonic clock, in µs.
    pub(super) fn wake_at(&mut self, at_us: u64) {
        if self.armed_us.is_some_and(|armed_us| armed_us <= at_us) {
            return;
        }
        // 0 would disarm it.
        let at_us = at_us.max(1);
        let it_value = Timespec {
            tv_sec: (at_us / 1_000_000) as i64,
            tv_nsec: (at_us % 1_000_000 * 1_000) as i64,
        };
        let spec = Itimerspec { it_interval: Timespec::default(), it_value };
        let timer = self.timer.get_ref();
        if timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &spec).is_ok() {
            self.armed_us = Some(at_us);
        }
    }

    /// Returns whether the timer has fired since the last call. If not, the timer wakes the task of `cx` later. Fails if the
    /// runtime is shutting down.
    pub(super) fn has_rung(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        let has_rung = is_readable(&self.timer, cx)?;
        if has_rung {
            self.armed_us = None;
        }
        Ok(has_rung)
    }
}

/// Registers a descriptor with the runtime.
#[expect(
    deprecated,
    reason = "its successor is unsafe; its condition is met here: the AsyncFd owns the only \
              handle to this descriptor, which is never replaced"
)]
pub(super) fn watched(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(descriptor, Interest::READABLE)
}

/// Returns whether a descriptor has become readable since the last call. If not, the task of `cx` is woken when it
/// becomes readable. The caller need not read the descriptor.
pub(super) fn is_readable(descriptor: &AsyncFd<OwnedFd>, cx: &mut Context<'_>) -> io::Result<bool> {
    match descriptor.poll_read_ready(cx) {
        Poll::Ready(guard) => guard.map(|mut guard| guard.clear_ready()).map(|()| true),
        Poll::Pending => Ok(false),
    }
}
