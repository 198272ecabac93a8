//! Runners, the events of experiment B: the subject sends the next when the last is acked.

use crate::swarm::event::number;

/// About the size of a Runner of Thalweg.
pub(super) const RUNNER_BYTES: usize = 200;

/// Returns a Runner of the client, as large as Thalweg's, for subjects that create none.
pub(in crate::swarm) fn runner(id: u64) -> Vec<u8> {
    let mut runner = format!(r#"{{"id":{id},"name":"Runner {id}","pad":""#).into_bytes();
    runner.resize(RUNNER_BYTES - 2, b'x');
    runner.extend_from_slice(b"\"}");
    runner
}

/// Returns the number of a Runner; `None` for other events.
pub(in crate::swarm) fn runner_id(event: &[u8]) -> Option<u64> {
    let rest = event.strip_prefix(b"{\"id\":")?;
    let (digits, rest) = rest.split_at(memchr::memchr(b',', rest)?);
    // One object, and not several.
    (rest.ends_with(b"}") && memchr::memchr(b'{', rest).is_none()).then(|| number(digits))?
}
