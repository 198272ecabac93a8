//! Dates of the archive, UTC.

use std::time::SystemTime;

/// `2026-11-21T00:43:29Z`.
pub(super) fn rfc3339(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}

/// `2026-11-21`.
pub(super) fn day(time: SystemTime) -> String {
    rfc3339(time).split('T').next().unwrap_or_default().to_owned()
}
