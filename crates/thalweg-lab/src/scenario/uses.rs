//! Which settings take effect under which drive. One that takes none is refused: whoever
//! sets it believes that something else is measured than is.

use super::file::Block;
use super::{Drive, Settings};

impl Drive {
    /// Whether samples differ by the setting of that name.
    pub(super) fn uses(self, key: &str) -> bool {
        use Drive::{
            Ceiling, Churn, Echo, Idle, Listen, Posted, Publish, Ramp, RoundTrip, SelfDriven, Send,
            Stampede,
        };
        match key {
            "connections" | "round" | "subjects" | "baseline" => true,
            "transport" | "receive_buffer_bytes" => !matches!(self, Publish | Listen | Send),
            "streams" => matches!(self, Posted | Ceiling | SelfDriven | Idle),
            "topics" => matches!(self, Posted | Ceiling | Idle),
            "event_bytes" => matches!(self, Posted | Ceiling | Publish | Send),
            "rate" => matches!(self, Posted | Ceiling | Send),
            "window" | "stopped" | "slow" | "slow_bytes_per_s" => self == Posted,
            "arrivals" => self == Ramp,
            "stay_ms" => self == Churn,
            "p99_us_max" => self == Ceiling,
            "batch" => matches!(self, SelfDriven | Ramp | Churn | Stampede),
            "interval_us" => matches!(self, SelfDriven | Echo | Ramp | Churn | Stampede),
            "requests" => matches!(self, Echo | RoundTrip),
            "request_us" | "answers" | "dummy_bytes" | "window_bytes" => self == Echo,
            "request" => self == Publish,
            // Of every subject that the lab starts.
            _ => !matches!(self, Listen | Send),
        }
    }

    /// Whether the time of a sample is set by `measured_ms`, and not by a number of requests.
    pub(super) fn lasts_as_told(self, settings: &Settings) -> bool {
        match self {
            Drive::RoundTrip | Drive::Ramp | Drive::Stampede => false,
            Drive::Echo => settings.requests == 0,
            _ => true,
        }
    }
}

/// Refuses settings that this drive does not use; the error names those that it does.
pub(super) fn expect_used(block: &Block, drive: Drive) -> Result<(), String> {
    block.keys().find(|key| !drive.uses(key)).map_or(Ok(()), |key| Err(unused(key, drive)))
}

fn unused(key: &str, drive: Drive) -> String {
    let is_setting = |key: &&&str| !matches!(**key, "subjects" | "baseline");
    let used = Block::KEYS.iter().filter(|key| drive.uses(key)).filter(is_setting);
    let used: Vec<String> = used.map(|key| named(key)).collect();
    let drive = match drive {
        Drive::Listen | Drive::Send => "--url".to_owned(),
        _ => serde_json::to_string(&drive).unwrap_or_default().replace('"', "`"),
    };
    format!("{} has no effect with {drive}, which uses {}", named(key), used.join(", "))
}

/// As it is called in a file, and by an option where that is called otherwise.
fn named(key: &str) -> String {
    match key {
        "event_bytes" => "event_bytes (--size)".to_owned(),
        "transport" => "transport (--transports)".to_owned(),
        _ => key.to_owned(),
    }
}
