//! Rows of several kinds: an optimization for one kind must not slow another one down.

/// A name, the declarations of its columns, and a function that makes this many rows.
pub(crate) type Sample = (&'static str, &'static [&'static str], fn(usize) -> Vec<u8>);

pub(crate) const SAMPLES: [Sample; 4] = [
    ("cars", &CARS, cars),
    ("cars as objects", &CARS, cars_as_objects),
    ("one car", &CARS, one_car),
    ("all new", &ALL_NEW, all_new),
];

const CARS: [&str; 11] = [
    "in_use:int",
    "longitude:double",
    "latitude:double",
    "gas_percent:int",
    "speed_kmh:double",
    "total_km:double",
    "locked:int",
    "cid:string",
    "time:time",
    "event_time:time",
    "trip:time",
];

/// Experiment A's `car_live_data` as published, with the values that differ between rows.
fn cars(rows: usize) -> Vec<u8> {
    joined(rows, |row| format!("[{}]", car(row).join(",")))
}

fn cars_as_objects(rows: usize) -> Vec<u8> {
    joined(rows, |row| {
        let members = CARS.iter().zip(car(row)).map(|(declared, value)| {
            let (name, _) = declared.split_once(':').unwrap_or_default();
            format!(r#""{name}":{value}"#)
        });
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    })
}

/// One car that does not move.
fn one_car(rows: usize) -> Vec<u8> {
    joined(rows, |_| format!("[{}]", car(12_345).join(",")))
}

fn car(row: usize) -> [String; 11] {
    [
        format!("{}", row % 2),
        format!("16.{:014}", row * 7_919_333_871_044 % 100_000_000_000_000),
        format!("54.{:014}", row * 5_417_095_924_933 % 100_000_000_000_000),
        "39".to_owned(),
        format!(r#""{}.{:02}""#, row % 120, row % 97),
        format!("934.{:013}", row * 1_228_226_776_661 % 10_000_000_000_000),
        "0".to_owned(),
        format!(r#""c{:05}""#, row % 1000),
        format!(
            r#""2022-07-13T21:{:02}:{:02}.{:03}Z""#,
            row / 60_000 % 60,
            row / 1000 % 60,
            row % 1000
        ),
        r#""2022-07-13T21:04:08.419Z""#.to_owned(),
        r#""1970-01-01T00:00:00Z""#.to_owned(),
    ]
}

const ALL_NEW: [&str; 8] = [
    "int:int",
    "large:int",
    "double:double",
    "small:double",
    "string:string",
    "text:string",
    "time:time",
    "bool:bool",
];

/// Rows without repeated values, of different lengths, some null.
fn all_new(rows: usize) -> Vec<u8> {
    let mut random = Random(1);
    joined(rows, |row| {
        let ms = random.below(86_400_000);
        let mut cells = [
            format!("{}", random.short()),
            format!("-{}", random.below(1 << 53) >> random.below(30)),
            format!("{}", random.fraction() * 100.0),
            format!("{}", random.short() as f64 / 100.0),
            format!(r#""c{:x}""#, random.below(1 << 53)),
            format!(r#""{row} {}""#, "text ".repeat(random.below(8) as usize)),
            format!(
                r#""2022-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z""#,
                random.below(12) + 1,
                random.below(28) + 1,
                ms / 3_600_000,
                ms / 60_000 % 60,
                ms / 1000 % 60,
                ms % 1000
            ),
            format!("{}", random.below(2) == 0),
        ];
        for cell in &mut cells {
            if random.below(16) == 0 {
                *cell = "null".to_owned();
            }
        }
        format!("[{}]", cells.join(","))
    })
}

fn joined(rows: usize, row: impl FnMut(usize) -> String) -> Vec<u8> {
    (0..rows).map(row).collect::<Vec<_>>().join(",").into_bytes()
}

/// Knuth's MMIX generator, whose upper bits are random: the same numbers in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(0x14057b7ef767814f);
        (self.0 >> 11) % bound
    }

    /// A number of one to six digits.
    fn short(&mut self) -> u64 {
        let digits = self.below(6) as u32 + 1;
        self.below(10_u64.pow(digits))
    }

    /// A computed double: 15 to 18 digits.
    fn fraction(&mut self) -> f64 {
        self.below(1 << 53) as f64 / (1_u64 << 53) as f64
    }
}
