use std::io::Write;

use thalweg_core::stream::Payloads;

use super::{Source, push, timestamp};

/// `car_live_data`: cars driving up and down straight roads, one row per car and tick. Columns as in the published
/// example (2022): in use, longitude, latitude, speed in km/h, fuel in percent (text), total kilometres, locked, car
/// id, time of the row, time of ingestion, a time never set.
pub(super) struct Cars {
    random: fastrand::Rng,
    cars: Vec<Car>,
    /// Intended time of the previous tick, in µs.
    before_us: Option<u64>,
}

struct Car {
    road: Road,
    /// Position along the road, 0 to 1.
    along: f64,
    forth: bool,
    speed_kmh: f64,
    /// The speed that it returns to. Without this, one of many cars would always be at the limit.
    cruising_kmh: f64,
    fuel_percent: f64,
    total_km: f64,
}

#[derive(Clone, Copy)]
struct Road {
    from: (f64, f64),
    to: (f64, f64),
}

/// One degree of latitude.
const KM_PER_DEGREE: f64 = 111.2;

/// Rows show a wall-clock time although a source has no clock: the intended time counted from the start of the
/// published example, 2022-07-13T21:04:08Z.
const EPOCH_MS: u64 = 1_657_746_248_000;

const ROADS: usize = 12;

const COLUMNS: [&str; 11] = [
    "in_use:int",
    "longitude:double",
    "latitude:double",
    "speed_kmh:double",
    "fuel_percent:double",
    "total_km:double",
    "locked:int",
    "car:string",
    "time:time",
    "taken_in:time",
    "never:time",
];

impl Cars {
    pub(super) fn new(seed: u64, count: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let around =
            |random: &mut fastrand::Rng| (16.6 + random.f64() * 0.5, 54.1 + random.f64() * 0.5);
        let roads: Vec<Road> = (0..ROADS)
            .map(|_| Road { from: around(&mut random), to: around(&mut random) })
            .collect();
        let cars = (0..count)
            .map(|index| {
                let cruising_kmh = 30.0 + random.f64() * 60.0;
                Car {
                    road: roads[index as usize % ROADS],
                    along: random.f64(),
                    forth: random.bool(),
                    speed_kmh: cruising_kmh,
                    cruising_kmh,
                    fuel_percent: 20.0 + random.f64() * 80.0,
                    total_km: random.f64() * 2000.0,
                }
            })
            .collect();
        Self { random, cars, before_us: None }
    }
}

impl Source for Cars {
    fn tick(&mut self, due_us: u64, out: &mut Payloads) {
        let elapsed_us = self.before_us.map_or(0, |before_us| due_us - before_us);
        self.before_us = Some(due_us);
        let time = timestamp(EPOCH_MS + due_us / 1000);
        for (index, car) in self.cars.iter_mut().enumerate() {
            car.drive(elapsed_us as f64 / 3.6e9, &mut self.random);
            push(out, |row| car.write(index, &time, row));
        }
    }

    fn columns(&self) -> &'static [&'static str] {
        &COLUMNS
    }

    fn resume(&mut self) {
        self.before_us = None;
    }
}

impl Car {
    fn drive(&mut self, hours: f64, random: &mut fastrand::Rng) {
        let change = (random.f64() - 0.5) * 4.0 + (self.cruising_kmh - self.speed_kmh) * 0.01;
        self.speed_kmh = (self.speed_kmh + change).clamp(0.0, 130.0);
        let km = self.speed_kmh * hours;
        self.total_km += km;
        self.fuel_percent -= km * 0.02;
        if self.fuel_percent < 1.0 {
            self.fuel_percent = 100.0;
        }
        let step = km / self.road.length_km();
        self.along += if self.forth { step } else { -step };
        if !(0.0..=1.0).contains(&self.along) {
            self.along = self.along.clamp(0.0, 1.0);
            self.forth = !self.forth;
        }
    }

    fn write(&self, index: usize, time: &str, row: &mut Vec<u8>) {
        let between = |from: f64, to: f64| from + (to - from) * self.along;
        let longitude = between(self.road.from.0, self.road.to.0);
        let latitude = between(self.road.from.1, self.road.to.1);
        // Writing to a Vec cannot fail.
        let _ = write!(
            row,
            r#"[1,{longitude:.6},{latitude:.6},{:.2},"{:.2}",{:.3},0,"c{index:05}","{time}","{time}","1970-01-01T00:00:00Z"]"#,
            self.speed_kmh, self.fuel_percent, self.total_km,
        );
    }
}

impl Road {
    fn length_km(self) -> f64 {
        let (dx, dy) = (self.to.0 - self.from.0, self.to.1 - self.from.1);
        (dx.hypot(dy) * KM_PER_DEGREE).max(0.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(seed: u64, ticks: u64) -> Vec<String> {
        let mut cars = Cars::new(seed, 3);
        let mut out = Payloads::default();
        for tick in 0..ticks {
            cars.tick(1_000_000 + tick * 100_000, &mut out);
        }
        out.iter().map(|row| String::from_utf8(row.to_vec()).unwrap()).collect()
    }

    #[test]
    fn the_same_seed_drives_the_same_way() {
        assert_eq!(rows(7, 50), rows(7, 50));
        assert_ne!(rows(7, 50), rows(8, 50));
    }

    #[test]
    fn rows_have_the_published_columns_and_cars_move() {
        let rows: Vec<serde_json::Value> =
            rows(1, 20).iter().map(|row| serde_json::from_str(row).unwrap()).collect();
        assert_eq!(rows.len(), 60);
        assert!(rows.iter().all(|row| row.as_array().is_some_and(|row| row.len() == 11)));
        assert_eq!(rows[0][7], "c00000");
        assert_ne!(rows[0][1], rows[57][1]);
    }

    #[test]
    fn the_highest_speed_goes_up_and_down_however_long_cars_drive() {
        let Cars { mut cars, mut random, .. } = Cars::new(1, 100);
        let mut ticks_at_the_limit = 0;
        for _ in 0..10_000 {
            cars.iter_mut().for_each(|car| car.drive(0.1 / 3600.0, &mut random));
            ticks_at_the_limit += u32::from(cars.iter().any(|car| car.speed_kmh >= 130.0));
        }
        assert!(ticks_at_the_limit < 100, "{ticks_at_the_limit}");
    }

    #[test]
    fn a_car_stands_still_while_its_source_is_idle() {
        let total_km = |idles: bool| {
            let (mut cars, mut out) = (Cars::new(1, 1), Payloads::default());
            cars.tick(0, &mut out);
            if idles {
                cars.resume();
            }
            cars.tick(3_600_000_000, &mut out);
            let row: serde_json::Value =
                serde_json::from_slice(out.iter().last().unwrap()).unwrap();
            row[5].as_f64().unwrap()
        };
        assert!(total_km(false) - total_km(true) > 1.0);
    }

    #[test]
    fn timestamps_are_civil_time() {
        assert_eq!(timestamp(EPOCH_MS + 419), "2022-07-13T21:04:08.419Z");
    }
}
