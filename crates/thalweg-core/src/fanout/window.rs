use std::{cell::Cell, collections::VecDeque};

use thalweg_wire::Offset;

/// Limits how many bytes of frames may be sent ahead of the client's acks. For this, the window keeps a
/// limited number of places in the stream, and the bytes sent up to each place.
#[derive(Debug)]
pub(super) struct Window {
    bytes_max: u64,
    sent: u64,
    acked: u64,
    marks: VecDeque<WindowMark>,
    /// A frame that did not fit. The frame is not tried again until it fits.
    oversized: Cell<Option<OversizedFrame>>,
}

#[derive(Debug, Clone, Copy)]
struct OversizedFrame {
    /// The number that identifies the frame.
    frame: Offset,
    bytes: u64,
}

/// All events before `next` are in the first `sent` bytes.
#[derive(Debug, Clone, Copy)]
struct WindowMark {
    next: Offset,
    sent: u64,
}

/// The approximate maximum of marks in a window. If fewer bytes lie between two marks than the window divided
/// by this number, the newer mark replaces both. An ack between two marks counts as an ack at the earlier mark.
/// The window then opens later than it could, but by fewer bytes than this distance.
const MARKS_MAX: u64 = 64;

impl Window {
    pub(super) fn new(bytes_max: u64) -> Self {
        Self { bytes_max, sent: 0, acked: 0, marks: VecDeque::new(), oversized: Cell::new(None) }
    }

    /// Returns whether a frame of `bytes` may be sent after `planned` bytes that are already planned. A frame
    /// always fits an empty window. `frame` identifies the frame ([`crate::stream::Feed::frame_after`]).
    pub(super) fn admits(&self, frame: Offset, planned: u64, bytes: u64) -> bool {
        let ahead = self.sent - self.acked + planned;
        let fits = ahead == 0 || ahead + bytes <= self.bytes_max;
        self.oversized.set((!fits).then_some(OversizedFrame { frame, bytes }));
        fits
    }

    /// Returns whether a frame may fit, and is therefore worth looking for. A frame that `admits` refused may
    /// fit now, because the bytes that were planned ahead of it may not have been sent.
    pub(super) fn is_open(&self, frame: Offset) -> bool {
        let ahead = self.sent - self.acked;
        let oversized = self.oversized.get().filter(|oversized| oversized.frame == frame);
        let bytes = oversized.map_or(1, |oversized| oversized.bytes);
        ahead == 0 || ahead + bytes <= self.bytes_max
    }

    /// Counts sent bytes. `next` is the event after them, if they end between frames.
    pub(super) fn count(&mut self, bytes: usize, next: Option<Offset>) {
        self.sent += bytes as u64;
        let Some(next) = next else { return };
        let mark = WindowMark { next, sent: self.sent };
        let before = self.marks.iter().nth_back(1).map_or(self.acked, |mark| mark.sent);
        match self.marks.back_mut() {
            Some(newest) if newest.sent - before < self.bytes_max / MARKS_MAX => *newest = mark,
            _ => self.marks.push_back(mark),
        }
    }

    /// Notes that the client continues at `next`, which may be before events that it has received. The first
    /// ack from then on covers all frames sent so far: acks of their higher offsets would come too late.
    pub(super) fn begin_again(&mut self, next: Offset) {
        self.marks.clear();
        if self.acked < self.sent {
            self.marks.push_back(WindowMark { next, sent: self.sent });
        }
    }

    /// Notes that the client has processed all events up to and including `offset`.
    pub(super) fn ack(&mut self, offset: Offset) {
        while let Some(mark) = self.marks.front().filter(|mark| mark.next <= offset + 1) {
            self.acked = mark.sent;
            self.marks.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_closes_when_full_and_opens_with_acks() {
        let mut window = Window::new(100);
        assert!(window.admits(1, 0, 1000), "one frame always fits");
        window.count(60, Some(11));
        assert!(window.is_open(11) && window.admits(11, 0, 40));
        assert!(!window.admits(12, 40, 1), "planned bytes count");
        assert!(window.is_open(11), "another frame was refused");
        assert!(!window.admits(11, 0, 41) && !window.is_open(11), "not tried again");
        window.ack(9);
        assert!(!window.is_open(11), "the frame is not fully processed");
        window.ack(10);
        assert!(window.is_open(11) && window.admits(11, 0, 1000));
    }

    #[test]
    fn merged_marks_open_the_window_late_but_never_early() {
        let mut window = Window::new(10_000);
        for event in 1..=10_000 {
            assert!(window.admits(event, 0, 1));
            window.count(1, Some(event + 1));
            assert!(window.marks.len() <= MARKS_MAX as usize + 1);
        }
        for event in 1..=10_000 {
            window.ack(event);
            assert!(window.acked <= event && event < window.acked + 10_000 / MARKS_MAX, "{event}");
        }
        assert_eq!(window.acked, 10_000);
    }

    #[test]
    fn a_client_that_begins_again_acks_older_offsets() {
        let mut window = Window::new(100);
        window.count(60, Some(51));
        window.begin_again(1);
        window.count(40, Some(21));
        assert!(!window.admits(21, 0, 1));
        window.ack(0);
        assert!(window.admits(21, 0, 60) && !window.admits(21, 0, 61));
        window.ack(20);
        assert!(window.admits(21, 0, 1000), "everything is acked");
    }

    #[test]
    fn an_ack_beyond_all_offsets_covers_everything() {
        let mut window = Window::new(1);
        window.count(60, Some(11));
        window.ack(thalweg_wire::limits::OFFSET_MAX);
        assert!(window.is_open(11));
    }
}
