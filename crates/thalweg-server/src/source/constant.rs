use thalweg_core::stream::Payloads;

use super::{Source, push};

/// The fixed row of the published WebSocket-and-SSE experiment (2022): column 0 carries the sequence number from 1. Column 1
/// carries the intended time in µs of the monotonic clock instead of the published ISO time, so that a row has about 113 bytes; the
/// published one has 129 without spaces.
pub(super) struct Constant {
    rows_per_tick: u64,
    shape: Shape,
    sequence: u64,
    /// A row after its sequence number, made once per tick.
    rest: Vec<u8>,
}

/// The JSON form of a tick's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// One event per row, an array.
    Rows,
    /// One event for all, an object with an array per column: `column0`, `column1`, …
    Columns,
}

/// Columns from 2 on, as JSON.
const REST: [&str; 10] = [
    "1",
    "116.9232297",
    "40.676318",
    "4745",
    "\"c00070\"",
    "78",
    "\"32.07\"",
    "\"1970-01-01T00:00:00Z\"",
    "\"column 1\"",
    "\"another field\"",
];

impl Constant {
    pub(super) fn new(rows_per_tick: u64, shape: Shape) -> Self {
        Self { rows_per_tick, shape, sequence: 0, rest: Vec::new() }
    }

    fn rows(&mut self, due_us: u64, out: &mut Payloads) {
        let Self { sequence, rest, .. } = self;
        rest.clear();
        rest.push(b',');
        rest.extend_from_slice(itoa::Buffer::new().format(due_us).as_bytes());
        for value in REST {
            rest.push(b',');
            rest.extend_from_slice(value.as_bytes());
        }
        rest.push(b']');
        for _ in 0..self.rows_per_tick {
            *sequence += 1;
            push(out, |row| {
                row.push(b'[');
                row.extend_from_slice(itoa::Buffer::new().format(*sequence).as_bytes());
                row.extend_from_slice(rest);
            });
        }
    }

    fn arrays(&mut self, due_us: u64, out: &mut Payloads) {
        let (first, rows) = (self.sequence + 1, self.rows_per_tick);
        self.sequence += rows;
        push(out, |event| {
            event.extend_from_slice(b"{\"column0\":[");
            for sequence in first..first + rows {
                event.extend_from_slice(itoa::Buffer::new().format(sequence).as_bytes());
                event.push(b',');
            }
            end_of_column(event);
            let due = itoa::Buffer::new().format(due_us).to_owned();
            for (index, value) in std::iter::once(&*due).chain(REST).enumerate() {
                event.extend_from_slice(format!(",\"column{}\":[", index + 1).as_bytes());
                for _ in 0..rows {
                    event.extend_from_slice(value.as_bytes());
                    event.push(b',');
                }
                end_of_column(event);
            }
            event.push(b'}');
        });
    }
}

/// Ends an array: removes the comma after the last value, if any, and appends the bracket.
fn end_of_column(event: &mut Vec<u8>) {
    if event.last() == Some(&b',') {
        event.pop();
    }
    event.push(b']');
}

impl Source for Constant {
    fn columns(&self) -> &'static [&'static str] {
        match self.shape {
            Shape::Rows => &COLUMNS,
            Shape::Columns => &[],
        }
    }

    fn tick(&mut self, due_us: u64, out: &mut Payloads) {
        match self.shape {
            Shape::Rows => self.rows(due_us, out),
            Shape::Columns => self.arrays(due_us, out),
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
        Constant::new(2, Shape::Rows).tick(123, &mut out);
        let rows: Vec<serde_json::Value> =
            out.iter().map(|row| serde_json::from_slice(row).unwrap()).collect();
        assert_eq!((rows[0][0].as_u64(), rows[0][1].as_u64()), (Some(1), Some(123)));
        assert_eq!((rows[1][0].as_u64(), rows[1][1].as_u64()), (Some(2), Some(123)));
        assert_eq!(rows[0].as_array().map(Vec::len), Some(12));
    }

    #[test]
    fn columns_have_what_rows_have() {
        let (mut rows, mut columns) = (Payloads::default(), Payloads::default());
        Constant::new(3, Shape::Rows).tick(123, &mut rows);
        Constant::new(3, Shape::Columns).tick(123, &mut columns);
        let parse = |event: &[u8]| serde_json::from_slice::<serde_json::Value>(event).unwrap();
        let columns: Vec<_> = columns.iter().map(parse).collect();
        assert_eq!(columns.len(), 1);
        for (index, row) in rows.iter().map(parse).enumerate() {
            for (column, value) in row.as_array().unwrap().iter().enumerate() {
                assert_eq!(columns[0][format!("column{column}")][index], *value);
            }
        }
    }
}
