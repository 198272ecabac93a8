//! Logs why rows of a configured query are missing: the topic, the reason, the number and the remedy. The losses
//! of ad hoc queries are only counted: there may be many, and their clients do not read the log.

use thalweg_query::{Bounds, Counts, limits};

use thalweg_broker::LogThrottle;

use crate::derived::DerivedTopic;

/// One throttle for each reason.
#[derive(Debug, Default)]
pub(super) struct QueryLog([LogThrottle; REASONS.len()]);

#[derive(Debug, Clone, Copy)]
enum Reason {
    Ahead,
    Late,
    WithoutTime,
    Unreadable,
    Oversized,
    WithoutResult,
    FullGroups,
    FullState,
    FullWindows,
    LargeRows,
    WindowsLost,
}

const REASONS: [Reason; 11] = [
    Reason::Ahead,
    Reason::Late,
    Reason::WithoutTime,
    Reason::Unreadable,
    Reason::Oversized,
    Reason::WithoutResult,
    Reason::FullGroups,
    Reason::FullState,
    Reason::FullWindows,
    Reason::LargeRows,
    Reason::WindowsLost,
];

impl QueryLog {
    /// Logs the losses since `before`.
    pub(super) fn log(
        &mut self,
        topic: &DerivedTopic,
        bounds: Bounds,
        before: Counts,
        now: Counts,
        now_us: u64,
    ) {
        for (reason, throttle) in REASONS.into_iter().zip(&mut self.0) {
            let times = reason.count(&now).saturating_sub(reason.count(&before));
            if let Some(times) = throttle.take(times, now_us) {
                let (topic, source) = (&topic.output, &topic.source);
                tracing::warn!(%topic, %source, times, "{}", reason.text(bounds));
            }
        }
    }
}

impl Reason {
    fn count(self, counts: &Counts) -> u64 {
        match self {
            Self::Ahead => counts.ahead,
            Self::Late => counts.late,
            Self::WithoutTime => counts.without_time,
            Self::Unreadable => counts.unreadable,
            Self::Oversized => counts.oversized,
            Self::WithoutResult => counts.without_result,
            Self::FullGroups => counts.full_groups,
            Self::FullState => counts.full_state,
            Self::FullWindows => counts.full_windows,
            Self::LargeRows => counts.large_rows,
            Self::WindowsLost => counts.windows_lost,
        }
    }

    fn text(self, bounds: Bounds) -> String {
        let Bounds { groups, state_bytes, windows, lead_ms, value_bytes, .. } = bounds;
        let lead_s = lead_ms / 1_000;
        match self {
            Self::Ahead => format!(
                "events are dropped, because their times are more than {lead_s} s ahead of when they were published: check \
                 the publisher's clock and time zone, or raise limits.query-lead"
            ),
            Self::Late => "events arrived after their windows had closed, and are left out: use a longer delay, as in EMIT \
                           AFTER WINDOW CLOSE WITH DELAY 2s"
                .to_owned(),
            Self::WithoutTime => {
                "events are in no window, because they have no time: publish times as RFC 3339 text, or as numbers in a column declared \
                 as time_s, time_ms, time_us or time_ns".to_owned()
            }
            Self::Unreadable => {
                "values are NULL in the query, because they are not of their columns' types: declare the columns with the right \
                 types".to_owned()
            }
            Self::Oversized => format!(
                "texts are NULL in the query, because an expression reads or makes at most {value_bytes} bytes: publish shorter \
                 texts, or use substr on the parts that an expression joins"
            ),
            Self::WithoutResult => {
                "values are NULL in the query, because a cast, an operation, a function or a sum has no result, like CAST('x' AS INT) \
                 and 1 / 0: leave such values out with WHERE, or write TRY_CAST and nullif where NULL is right".to_owned()
            }
            Self::FullGroups => format!(
                "windows or groups are lost, because there would be more than {groups} groups: group by fewer keys, or filter with WHERE"
            ),
            Self::FullState => format!(
                "windows or groups are lost, because keys, texts, distinct values, quantiles and rows of groups would have more than {state_bytes} bytes, or a group more than {} distinct values: group by fewer keys, or by shorter texts",
                limits::DISTINCT_MAX
            ),
            Self::FullWindows => format!(
                "windows are lost, because more than {windows} would be open at a time: use a shorter delay or larger windows"
            ),
            Self::LargeRows => format!(
                "rows are lost, because a row would have more than {} bytes, or its key more than {}: select less, or group by shorter texts",
                limits::ROW_BYTES_MAX,
                limits::KEY_BYTES_MAX
            ),
            Self::WindowsLost => {
                "windows are not emitted, or groups without windows begin again, because some of their events are missing; subscribers receive a gap".to_owned()
            }
        }
    }
}
