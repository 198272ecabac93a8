//! A line in the log for each refusal that concerns rights or limits, and few of a flood.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use thalweg_wire::ErrorCode;

use crate::{clock::now_us, connection_limits::Address, refusal::Refusal};

/// Lines of one code in a second, on each shard. The next line says how many were left out.
const LINES_MAX: u64 = 10;

/// Who asked for something that is refused, as far as that is known.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Asker<'a> {
    pub(crate) address: Option<Address>,
    /// What was asked for: a path, or that it was a command.
    pub(crate) what: &'a str,
    /// What tells this request from others: its `X-Request-Id`, a number of ours, or a command's id.
    pub(crate) request: &'a str,
}

/// The lines of one code, on one shard, whose thread alone writes them.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// The second of the clock that `written` counts in.
    second: AtomicU64,
    written: AtomicU64,
    /// Those left out since the last line.
    left_out: AtomicU64,
}

impl Lines {
    /// Whether one more is written, and how many were left out before it.
    pub(crate) fn take(&self, now_us: u64) -> Option<u64> {
        let second = now_us / 1_000_000;
        if self.second.swap(second, Relaxed) != second {
            self.written.store(0, Relaxed);
        }
        if self.written.load(Relaxed) == LINES_MAX {
            self.left_out.fetch_add(1, Relaxed);
            return None;
        }
        self.written.fetch_add(1, Relaxed);
        Some(self.left_out.swap(0, Relaxed))
    }
}

impl Lines {
    /// Writes a line about a refusal. `false` if it is left out.
    pub(crate) fn write(&self, refusal: &Refusal, asker: Asker<'_>) -> bool {
        let Some(left_out) = self.take(now_us()) else { return false };
        let [subject, token, topic] = refusal.about();
        let Asker { address, what, request } = asker;
        let address = address.map(|address| address.to_string()).unwrap_or_default();
        let code = refusal.code.name();
        tracing::info!(target: "audit", code, subject, token, topic, address, what, request, left_out, "refused");
        true
    }
}

/// Whether refusals of this code are about rights or limits of clients. All others are only counted.
pub(crate) fn is_audited(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::Unauthorized
            | ErrorCode::Forbidden
            | ErrorCode::BadOrigin
            | ErrorCode::BadHost
            | ErrorCode::TooManyFromAddress
            | ErrorCode::TooManyRequests
            | ErrorCode::TooManyQueries
            | ErrorCode::TooManyConnections
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_writes_few_lines_and_says_how_many_are_left_out() {
        let lines = Lines::default();
        let taken = |now_us| (0..1000).filter_map(|_| lines.take(now_us)).collect::<Vec<_>>();
        assert_eq!(taken(5_000_000), [0; 10]);
        assert!(taken(5_999_999).is_empty());
        let mut next = vec![0; 10];
        next[0] = 990 + 1000;
        assert_eq!(taken(6_000_000), next);
    }
}
