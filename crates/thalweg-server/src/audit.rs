//! Logs refusals that concern rights or limits, at most a few lines per second.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use thalweg_wire::ErrorCode;

use crate::{clock::now_us, connection_limits::Address, refusal::Refusal};

/// Maximum lines of one code per second and shard. The next line has the number of omitted lines.
const LINES_MAX: u64 = 10;

/// The origin of a refused request, as far as known.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RequestOrigin<'a> {
    pub(crate) address: Option<Address>,
    /// The path of the request, or "command".
    pub(crate) what: &'a str,
    /// An id of the request: its `X-Request-Id`, a number, or a command's id.
    pub(crate) request: &'a str,
}

/// The log lines of one code on one shard, whose thread alone writes them.
#[derive(Debug, Default)]
pub(crate) struct AuditLines {
    /// The second in which `written` counts.
    second: AtomicU64,
    written: AtomicU64,
    /// Lines omitted since the last one.
    left_out: AtomicU64,
}

impl AuditLines {
    /// Takes permission for a line; returns the number of lines omitted before it, or `None` to omit this one.
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

impl AuditLines {
    /// Writes a line about a refusal. Returns `false` if it is omitted.
    pub(crate) fn write(&self, refusal: &Refusal, origin: RequestOrigin<'_>) -> bool {
        let Some(left_out) = self.take(now_us()) else { return false };
        let [subject, token, topic] = refusal.about();
        let RequestOrigin { address, what, request } = origin;
        let address = address.map(|address| address.to_string()).unwrap_or_default();
        let code = refusal.code.name();
        tracing::info!(target: "audit", code, subject, token, topic, address, what, request, left_out, "refused");
        true
    }
}

/// Returns whether refusals of this code concern rights or limits of clients. Others are only counted.
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
        let lines = AuditLines::default();
        let taken = |now_us| (0..1000).filter_map(|_| lines.take(now_us)).collect::<Vec<_>>();
        assert_eq!(taken(5_000_000), [0; 10]);
        assert!(taken(5_999_999).is_empty());
        let mut next = vec![0; 10];
        next[0] = 990 + 1000;
        assert_eq!(taken(6_000_000), next);
    }
}
