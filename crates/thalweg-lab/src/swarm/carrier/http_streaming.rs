//! HTTP streaming: one message a line (`application/x-ndjson`).

use super::Step;

pub(super) fn step(bytes: &[u8], searched: usize) -> Step<'_> {
    let fresh = searched.min(bytes.len());
    match memchr::memchr(b'\n', &bytes[fresh..]) {
        None => Step::Incomplete { searched: bytes.len() },
        Some(0) if fresh == 0 => Step::Nothing(1),
        Some(end) => Step::Message(&bytes[..fresh + end], fresh + end + 1),
    }
}
