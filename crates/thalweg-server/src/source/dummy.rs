use thalweg_core::stream::Payloads;
use thalweg_wire::limits::EVENT_BYTES;

use super::{Source, push};

/// One event of an exact size per tick: `{"seq":…,"due":…,"pad":"…"}`.
pub(super) struct Dummy {
    sequence: u64,
    pad: Vec<u8>,
}

/// The smallest size that holds the longest sequence number and time.
const SIZE_MIN: usize = 64;

impl Dummy {
    pub(super) fn new(seed: u64, size: usize) -> Result<Self, String> {
        if !(SIZE_MIN..=EVENT_BYTES).contains(&size) {
            return Err(format!("size: must be between {SIZE_MIN} and 1MiB"));
        }
        let mut random = fastrand::Rng::with_seed(seed);
        Ok(Self { sequence: 0, pad: (0..size).map(|_| random.alphanumeric() as u8).collect() })
    }
}

impl Source for Dummy {
    fn tick(&mut self, due_us: u64, out: &mut Payloads) {
        self.sequence += 1;
        push(out, |event| {
            let before = event.len();
            event.reserve(self.pad.len());
            let head = format!(r#"{{"seq":{},"due":{due_us},"pad":""#, self.sequence);
            event.extend_from_slice(head.as_bytes());
            let pad = self.pad.len() - (event.len() - before) - 2;
            event.extend_from_slice(&self.pad[..pad]);
            event.extend_from_slice(br#""}"#);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_is_valid_and_has_the_exact_size() {
        let mut dummy = Dummy::new(1, SIZE_MIN).unwrap();
        let mut out = Payloads::default();
        dummy.tick(1, &mut out);
        dummy.tick(u64::MAX / 2, &mut out);
        for event in out.iter() {
            assert_eq!(event.len(), SIZE_MIN);
            serde_json::from_slice::<serde_json::Value>(event).unwrap();
        }
        assert!(Dummy::new(1, 10).is_err());
    }
}
