use std::{io::Write, time::UNIX_EPOCH};

use serde_json::value::RawValue;

use super::{Input, Source, push, timestamp};
use crate::stream::Payloads;

/// The published real-time chart (2022): for each second of the cars' own time, in order, the
/// highest speed and the number of cars. The event of a second is made when the first row after
/// that second comes.
#[derive(Default)]
pub(super) struct MaxSpeed {
    window: Option<Window>,
}

/// A second that has not ended.
struct Window {
    /// Time of the first rows in it.
    first_ms: u64,
    kmh: f64,
    /// Number of cars that have a row at that time.
    cars: u64,
}

/// A row: cars have eleven columns.
type Row<'a> = [&'a RawValue; 11];

impl Source for MaxSpeed {
    fn columns(&self) -> &'static [&'static str] {
        &["time:time", "max_speed:double", "cars:int"]
    }

    fn input(&mut self, input: Input<'_>, _now_us: u64, out: &mut Payloads) {
        let Input::Event(event) = input else { return };
        // Anybody may publish anything to that topic.
        let Ok(row) = serde_json::from_slice::<Row<'_>>(event) else { return };
        let Ok(kmh) = serde_json::from_str(row[3].get()) else { return };
        let Ok(time) = serde_json::from_str(row[8].get()) else { return };
        let time = humantime::parse_rfc3339(time).ok();
        if let Some(Ok(since_1970)) = time.map(|time| time.duration_since(UNIX_EPOCH)) {
            self.see(since_1970.as_millis() as u64, kmh, out);
        }
    }
}

impl MaxSpeed {
    fn see(&mut self, ms: u64, kmh: f64, out: &mut Payloads) {
        if let Some(over) = self.window.take_if(|window| window.second() != ms / 1000) {
            over.write(out);
        }
        let window = self.window.get_or_insert(Window { first_ms: ms, kmh: 0.0, cars: 0 });
        window.kmh = window.kmh.max(kmh);
        window.cars += u64::from(window.first_ms == ms);
    }
}

impl Window {
    /// Seconds since 1970.
    fn second(&self) -> u64 {
        self.first_ms / 1000
    }

    fn write(&self, out: &mut Payloads) {
        let time = timestamp(self.second() * 1000);
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
    use super::{super::cars::Cars, *};

    fn texts(out: &Payloads) -> Vec<String> {
        out.iter().map(|event| String::from_utf8(event.to_vec()).unwrap()).collect()
    }

    #[test]
    fn a_second_is_told_of_when_it_is_over() {
        let mut max_speed = MaxSpeed::default();
        let mut see = |ms, speeds: &[f64]| {
            let mut out = Payloads::default();
            for kmh in speeds {
                let time = timestamp(ms);
                let row = format!(r#"[1,0,0,{kmh},"",0,0,"c","{time}","{time}",""]"#);
                max_speed.input(Input::Event(row.as_bytes()), 0, &mut out);
            }
            texts(&out)
        };
        assert_eq!(see(1_000, &[10.0, 60.126]), [""; 0]);
        assert_eq!(see(1_999, &[59.0, 50.0]), [""; 0]);
        let first = r#"{"time":"1970-01-01T00:00:01.000Z","max_speed":60.13,"cars":2}"#;
        assert_eq!(see(2_000, &[0.0, 0.0]), [first]);
        // Seconds without rows give no events.
        let second = r#"{"time":"1970-01-01T00:00:02.000Z","max_speed":0.00,"cars":2}"#;
        assert_eq!(see(7_500, &[1.0]), [second]);
        assert_eq!(see(7_500, &[2.0]), [""; 0]);
    }

    #[test]
    fn what_is_no_row_is_left_out() {
        let (mut max_speed, mut out) = (MaxSpeed::default(), Payloads::default());
        for event in [
            "7",
            "{}",
            "[]",
            r#"[1,2,3,"fast",5,6,7,8,"1970-01-01T00:00:01Z",10,11]"#,
            r#"[1,2,3,4,5,6,7,8,"1970-01-01T00:00:01Z",10,11,12]"#,
            r#"[1,2,3,4,5,6,7,8,"\"",10,11]"#,
        ] {
            max_speed.input(Input::Event(event.as_bytes()), 0, &mut out);
        }
        max_speed.input(Input::Ack(1), 0, &mut out);
        assert!(max_speed.window.is_none() && out.is_empty());
        let times =
            ["soon", "1969-12-31T23:59:59Z", "9999-12-31T23:59:59.9Z", "1970-01-01T00:00:01Z"];
        for time in times {
            let row = format!(r#"[1,2,3,1e300,5,6,7,8,"{time}",10,11]"#);
            max_speed.input(Input::Event(row.as_bytes()), 0, &mut out);
        }
        let [one] = &texts(&out)[..] else { panic!("{:?}", texts(&out)) };
        serde_json::from_str::<serde_json::Value>(one).unwrap();
    }

    #[test]
    fn the_highest_speed_of_a_second_is_that_of_its_rows() {
        let (mut cars, mut max_speed) = (Cars::new(3, 5), MaxSpeed::default());
        let (mut rows, mut seconds) = (Payloads::default(), Payloads::default());
        for tick in 0..35 {
            cars.tick(tick * 100_000, &mut rows);
        }
        rows.iter().for_each(|row| max_speed.input(Input::Event(row), 0, &mut seconds));
        let values = |payloads: &Payloads| -> Vec<serde_json::Value> {
            payloads.iter().map(|event| serde_json::from_slice(event).unwrap()).collect()
        };
        let (rows, seconds) = (values(&rows), values(&seconds));
        assert_eq!(seconds.len(), 3);
        for (number, second) in seconds.iter().enumerate() {
            let begin = number * 50;
            let speeds = rows[begin..][..50].iter().map(|row| row[3].as_f64().unwrap());
            assert_eq!(second["max_speed"].as_f64(), speeds.reduce(f64::max));
            assert_eq!((&second["time"], &second["cars"]), (&rows[begin][8], &5.into()));
        }
    }
}
