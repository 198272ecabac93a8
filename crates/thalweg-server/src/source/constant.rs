use super::{Source, push};
use crate::stream::Payloads;

/// The fixed row of the published WebSocket-and-SSE experiment (2022), about
/// 135 bytes: column 0 carries the sequence number from 1, column 1 the
/// intended time in µs of the monotonic clock.
pub(super) struct Constant {
    rows_per_tick: u64,
    sequence: u64,
    /// A row after its sequence number, made once per tick.
    rest: Vec<u8>,
}

const REST: &[u8] = br#",1,116.9232297,40.676318,4745,"c00070",78,"32.07","1970-01-01T00:00:00Z","column 1","another field"]"#;

impl Constant {
    pub(super) fn new(rows_per_tick: u64) -> Self {
        Self { rows_per_tick, sequence: 0, rest: Vec::new() }
    }
}

impl Source for Constant {
    fn columns(&self) -> &'static [&'static str] {
        &COLUMNS
    }

    fn tick(&mut self, due_us: u64, out: &mut Payloads) {
        let Self { sequence, rest, .. } = self;
        rest.clear();
        rest.push(b',');
        rest.extend_from_slice(itoa::Buffer::new().format(due_us).as_bytes());
        rest.extend_from_slice(REST);
        for _ in 0..self.rows_per_tick {
            *sequence += 1;
            push(out, |row| {
                row.push(b'[');
                row.extend_from_slice(itoa::Buffer::new().format(*sequence).as_bytes());
                row.extend_from_slice(rest);
            });
        }
    }
}

const COLUMNS: [&str; 12] = [
    "sequence:int",
    "due_us:int",
    "in_use:int",
    "longitude:double",
    "latitude:double",
    "total_km:int",
    "car:string",
    "speed_kmh:int",
    "fuel_percent:double",
    "never:time",
    "column:string",
    "field:string",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_is_a_batch_of_numbered_rows_with_their_intended_time() {
        let mut out = Payloads::default();
        Constant::new(2).tick(123, &mut out);
        let rows: Vec<serde_json::Value> =
            out.iter().map(|row| serde_json::from_slice(row).unwrap()).collect();
        assert_eq!((rows[0][0].as_u64(), rows[0][1].as_u64()), (Some(1), Some(123)));
        assert_eq!((rows[1][0].as_u64(), rows[1][1].as_u64()), (Some(2), Some(123)));
        assert_eq!(rows[0].as_array().map(Vec::len), Some(12));
    }
}
