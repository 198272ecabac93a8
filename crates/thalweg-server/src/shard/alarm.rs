//! A shard's timer, apart from its epoll: when only time has passed, the sockets need no look.

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

/// A timer for the time when something is due next.
pub(super) struct Alarm {
    timer: AsyncFd<OwnedFd>,
    armed_us: Option<u64>,
}

impl Alarm {
    /// # Errors
    /// When the kernel has no timer left, or the runtime cannot watch it.
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

    /// Whether it went off. Otherwise it wakes the loop when it does.
    ///
    /// # Errors
    /// When the runtime is shutting down.
    pub(super) fn has_rung(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        let has_rung = is_readable(&self.timer, cx)?;
        if has_rung {
            self.armed_us = None;
        }
        Ok(has_rung)
    }
}

/// A descriptor that the runtime watches.
#[expect(
    deprecated,
    reason = "its successor is unsafe; what that asks for holds here: the AsyncFd owns the only \
              handle to this descriptor, which is never replaced"
)]
pub(super) fn watched(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(descriptor, Interest::READABLE)
}

/// Whether a descriptor became readable since the last call. It need not be read: it is told once
/// for each time. Otherwise it wakes the task of `cx` when it does.
pub(super) fn is_readable(descriptor: &AsyncFd<OwnedFd>, cx: &mut Context<'_>) -> io::Result<bool> {
    match descriptor.poll_read_ready(cx) {
        Poll::Ready(guard) => guard.map(|mut guard| guard.clear_ready()).map(|()| true),
        Poll::Pending => Ok(false),
    }
}
