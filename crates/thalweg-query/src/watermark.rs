//! The progress of a topic's time, by its events alone.

/// The largest time of a topic's events so far. It advances event by event, in the order of offsets.
#[derive(Debug, Clone, Default)]
pub(crate) struct Watermark {
    /// In ms since 1970.
    newest_ms: Option<i64>,
}

impl Watermark {
    pub(crate) fn advance(&mut self, time_ms: i64) {
        self.newest_ms = self.newest_ms.max(Some(time_ms));
    }

    /// Returns the time up to which windows have ended.
    pub(crate) fn ms(&self, delay_ms: i64) -> i64 {
        self.newest_ms.map_or(i64::MIN, |newest| newest.saturating_sub(delay_ms))
    }
}
