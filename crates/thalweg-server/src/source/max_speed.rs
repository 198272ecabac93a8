use std::io::Write;

use super::{cars::timestamp, push};
use crate::stream::Payloads;

/// The published real-time chart (2022): of each second of the rows' own time, and one
/// second after the other, the highest speed in it and how many cars it is of. A second
/// is told of when the first row after it is due.
#[derive(Default)]
pub(super) struct MaxSpeed {
    window: Option<Window>,
    out: Payloads,
}

/// A second that is not over.
struct Window {
    /// Since 1970.
    second: u64,
    kmh: f64,
    cars: u64,
}

impl MaxSpeed {
    /// Sees a tick of all cars: its time, in ms since 1970, and the speed of each.
    pub(super) fn see(&mut self, ms: u64, speeds_kmh: impl Iterator<Item = f64>) {
        let second = ms / 1000;
        let (mut highest, mut cars) = (0_f64, 0);
        for kmh in speeds_kmh {
            highest = highest.max(kmh);
            cars += 1;
        }
        if cars == 0 {
            return;
        }
        if let Some(over) = self.window.take_if(|window| window.second != second) {
            over.write(&mut self.out);
        }
        let window = self.window.get_or_insert(Window { second, kmh: 0.0, cars });
        window.kmh = window.kmh.max(highest);
    }

    /// Seconds that are over and were not told of.
    pub(super) fn take(&mut self) -> Payloads {
        std::mem::take(&mut self.out)
    }
}

impl Window {
    fn write(&self, out: &mut Payloads) {
        let time = timestamp(self.second * 1000);
        push(out, |event| {
            // Writing to a Vec cannot fail. Decimals as in a row.
            let _ = write!(
                event,
                r#"{{"time":"{time}","max_speed":{:.2},"cars":{}}}"#,
                self.kmh, self.cars
            );
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_is_told_of_when_it_is_over() {
        let mut max_speed = MaxSpeed::default();
        let mut see = |ms, speeds: &[f64]| {
            max_speed.see(ms, speeds.iter().copied());
            let out = max_speed.take();
            out.iter().map(|event| String::from_utf8(event.to_vec()).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(see(1_000, &[10.0, 60.126]), [""; 0]);
        assert_eq!(see(1_999, &[59.0, 50.0]), [""; 0]);
        let first = r#"{"time":"1970-01-01T00:00:01.000Z","max_speed":60.13,"cars":2}"#;
        assert_eq!(see(2_000, &[0.0, 0.0]), [first]);
        // What was not seen is not made up.
        let second = r#"{"time":"1970-01-01T00:00:02.000Z","max_speed":0.00,"cars":2}"#;
        assert_eq!(see(7_500, &[1.0]), [second]);
        assert_eq!(see(7_500, &[2.0]), [""; 0]);
    }
}
