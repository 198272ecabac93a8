//! Measures how many bytes the compressed formats save and how much CPU time they cost. Prints the tables of
//! `docs/explanation/compression.md`:
//!
//! ```sh
//! cargo run --release -p thalweg-wire --example compression
//! ```
//!
//! With the name of a kind of events as argument, it prints events of this kind instead, one per line.

use std::{
    error::Error,
    hint::black_box,
    time::{Duration, Instant},
};

use flate2::{Decompress, FlushDecompress};
use thalweg_wire::{Before, ContextWindow, Envelope, Epoch, Format, Framing, Topic};

const COUNTS: [usize; 4] = [1, 10, 100, 1000];

/// Over other transports a batch has a few more bytes.
const FORMATS: [Format; 1] = [Format::WEBSOCKET];

/// Repetitions of each measurement; the median counts.
const TIMES: usize = 301;

/// The end of a sync flush, which a WebSocket message omits (RFC 7692 §7.2.1).
const FLUSH_END: [u8; 4] = [0, 0, 0xff, 0xff];

/// Makes the event with this number, with a source of random values.
type Event = fn(usize, &mut Random) -> String;

/// Kinds of single events.
const KINDS: [(&str, Event); 5] = [
    ("cars", cars_row),
    ("chat", chat_message),
    ("small-event", small_event),
    ("trade", trade),
    ("token", token),
];

fn main() -> Result<(), Box<dyn Error>> {
    if let Some(wanted) = std::env::args().nth(1) {
        let kind = KINDS.into_iter().find(|(name, _)| *name == wanted);
        let (_, event) = kind.ok_or("a kind is cars, chat, small-event, trade or token")?;
        let mut random = Random(1);
        (1..=SERIES).for_each(|n| println!("{}", event(n, &mut random)));
        return Ok(());
    }
    let payloads: [(&str, Event); 4] = [
        ("fixed rows", fixed_row),
        ("cars", cars_row),
        ("chat", chat_message),
        ("small events", small_event),
    ];
    println!(
        "| events | in a batch | framing | plain, bytes | compressed, bytes | ratio | to compress, µs | to inflate, µs |\n\
         |---|---:|---|---:|---:|---:|---:|---:|"
    );
    for (name, event) in payloads {
        for count in COUNTS {
            let mut random = Random(1);
            let events: Vec<String> = (1..=count).map(|n| event(n, &mut random)).collect();
            let events = events.join(",");
            for plain in FORMATS {
                let figures = Figures::new(count, &events, plain)?;
                println!("| {name} | {count} | {:?} | {figures} |", plain.framing());
            }
        }
    }
    println!(
        "\n| event | framing | plain, bytes | alone, bytes | in 1 KiB | in 4 KiB | in 32 KiB | alone, µs | in 4 KiB, µs |\n\
         |---|---|---:|---:|---:|---:|---:|---:|---:|"
    );
    for (name, event) in KINDS {
        for plain in [Format::WEBSOCKET, Format::SSE] {
            println!("| {name} | {:?} | {} |", plain.framing(), series(event, plain)?);
        }
    }
    Ok(())
}

/// Single events, one after the other: those before the first [`WARM_UP`] are left out.
const SERIES: usize = 2000;
const WARM_UP: usize = 400;

/// Returns the mean bytes of a frame, plain, alone and in contexts, and the mean times.
fn series(event: Event, plain: Format) -> Result<String, Box<dyn Error>> {
    let mut random = Random(1);
    let events: Vec<String> = (1..=SERIES).map(|n| event(n, &mut random)).collect();
    let topic: Topic = "car_live_data".parse()?;
    let epoch: Epoch = "5f0c2e1d9a3b".parse()?;
    let measure = |format: Format| {
        let mut context = format.context();
        let (mut bytes, mut spent) = (0, Duration::ZERO);
        for (number, event) in events.iter().enumerate() {
            let first = 100_001 + number as u64;
            let (last, events) = (first, event.as_bytes());
            let before = Before::Adjacent;
            let envelope = Envelope {
                topic: &topic,
                epoch,
                first,
                last,
                before,
                offsets: None,
                keyed: None,
                events,
            };
            let mut frame = Vec::new();
            let begun = Instant::now();
            match &mut context {
                Some(context) => drop(format.batch_in_context(&envelope, context, &mut frame)),
                None => format.batch(black_box(&envelope), &mut frame),
            }
            if number >= WARM_UP {
                spent += begun.elapsed();
                bytes += frame.len();
            }
        }
        let count = (SERIES - WARM_UP) as f64;
        (bytes as f64 / count, spent.as_secs_f64() * 1e6 / count)
    };
    let none = "a format that is never compressed";
    let (plain_bytes, _) = measure(plain);
    let (alone, alone_us) = measure(plain.compressed().ok_or(none)?);
    let mut contexts = Vec::new();
    for window in [ContextWindow::Bits10, ContextWindow::Bits12, ContextWindow::Bits15] {
        contexts.push(measure(plain.compressed_in_context(window).ok_or(none)?));
    }
    let [(small, _), (middle, middle_us), (large, _)] = contexts[..] else {
        return Err("three contexts".into());
    };
    Ok(format!(
        "{plain_bytes:.0} | {alone:.0} | {small:.0} | {middle:.0} | {large:.0} | {alone_us:.1} | {middle_us:.1}"
    ))
}

struct Figures {
    plain_bytes: usize,
    compressed_bytes: usize,
    compress_us: f64,
    /// `None` if the format left the batch uncompressed.
    inflate_us: Option<f64>,
}

impl Figures {
    fn new(count: usize, events: &str, plain: Format) -> Result<Self, Box<dyn Error>> {
        let compressed = plain.compressed().ok_or("a format that is never compressed")?;
        let topic: Topic = "car_live_data".parse()?;
        let epoch: Epoch = "5f0c2e1d9a3b".parse()?;
        let (first, last) = (100_001, 100_000 + count as u64);
        let events = events.as_bytes();
        let envelope = Envelope {
            topic: &topic,
            epoch,
            first,
            last,
            before: Before::Adjacent,
            offsets: None,
            keyed: None,
            events,
        };
        let mut frame = Vec::new();
        plain.batch(&envelope, &mut frame);
        let (plain_bytes, plain_text) = (frame.len(), text_of(plain, &frame).to_vec());

        let compress_us = median_us(|| {
            frame.clear();
            compressed.batch(black_box(&envelope), &mut frame);
            black_box(&frame);
        });
        let is_websocket = plain == Format::WEBSOCKET;
        // A gzip stream holds such a batch as a stored block.
        let is_plain = frame.first() == Some(if is_websocket { &0x81 } else { &0 });
        let mut inflate_us = None;
        if !is_plain {
            let mut deflated = text_of(compressed, &frame).to_vec();
            if is_websocket {
                deflated.extend(FLUSH_END);
            }
            // Like the compressor, the inflater serves all frames.
            let mut inflater = Decompress::new(false);
            let mut text = vec![0; plain_text.len() + 1];
            let mut outcome = Ok(());
            inflate_us = Some(median_us(|| {
                inflater.reset(false);
                let flush = FlushDecompress::Sync;
                let inflated = inflater.decompress(black_box(&deflated), &mut text, flush);
                outcome = inflated.map(|_| ());
                black_box(&text);
            }));
            outcome?;
            if text[..plain_text.len()] != plain_text {
                return Err("what was compressed is not what is inflated".into());
            }
        }
        Ok(Self { plain_bytes, compressed_bytes: frame.len(), compress_us, inflate_us })
    }
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { plain_bytes, compressed_bytes, compress_us, inflate_us } = self;
        let ratio = *plain_bytes as f64 / *compressed_bytes as f64;
        write!(f, "{plain_bytes} | {compressed_bytes} | {ratio:.1} | {compress_us:.1} | ")?;
        match inflate_us {
            Some(inflate_us) => write!(f, "{inflate_us:.1}"),
            None => f.write_str("–"),
        }
    }
}

fn text_of(format: Format, frame: &[u8]) -> &[u8] {
    let header = match frame {
        [_, 127, ..] => 10,
        [_, 126, ..] => 4,
        _ => 2,
    };
    if format.framing() == Framing::WebSocket { &frame[header..] } else { frame }
}

/// Returns the median duration of `what` in µs.
fn median_us(mut what: impl FnMut()) -> f64 {
    let mut once = || {
        let begun = Instant::now();
        what();
        begun.elapsed()
    };
    let mut times: Vec<Duration> = (0..TIMES).map(|_| once()).collect();
    times.sort_unstable();
    times[TIMES / 2].as_secs_f64() * 1e6
}

/// A linear congruential generator with Knuth's constants: the same values in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn choose<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len() as u64) as usize]
    }
}

/// A row as the server's source `constant` makes it: a number, and equal values otherwise.
fn fixed_row(n: usize, _: &mut Random) -> String {
    format!(
        r#"[{n},8123456789,1,116.9232297,40.676318,4745,"c00070",78,"32.07","1970-01-01T00:00:00Z","column 1","another field"]"#
    )
}

/// A row as the server's source `cars` makes it: each column moves by itself, all in one tick.
fn cars_row(n: usize, random: &mut Random) -> String {
    let mut digits = |end| random.below(end);
    let (longitude, latitude) = (16_600_000 + digits(500_000), 54_100_000 + digits(500_000));
    let (speed, fuel, km) = (3000 + digits(6000), 2000 + digits(8000), digits(2_000_000));
    let fixed = |value: u64, one: u64| (value / one, value % one);
    let ((east, e), (north, m)) = (fixed(longitude, 1_000_000), fixed(latitude, 1_000_000));
    let ((speed, s), (fuel, f), (km, k)) = (fixed(speed, 100), fixed(fuel, 100), fixed(km, 1000));
    let time = "2022-07-13T21:04:08.419Z";
    format!(
        r#"[1,{east}.{e:06},{north}.{m:06},{speed}.{s:02},"{fuel}.{f:02}",{km}.{k:03},0,"c{n:05}","{time}","{time}","1970-01-01T00:00:00Z"]"#
    )
}

fn chat_message(n: usize, random: &mut Random) -> String {
    const NAMES: [&str; 8] = ["ada", "grace", "linus", "edsger", "barbara", "ken", "radia", "tony"];
    const WORDS: [&str; 32] = [
        "the", "a", "and", "you", "I", "we", "is", "was", "not", "match", "goal", "today", "never",
        "again", "great", "what", "who", "saw", "that", "referee", "corner", "late", "please",
        "think", "so", "lol", "yes", "no", "really", "second", "half", "home",
    ];
    let name = random.choose(&NAMES);
    let words: Vec<&str> = (0..3 + random.below(15)).map(|_| random.choose(&WORDS)).collect();
    let ms = 1_657_746_248_000 + 700 * n as u64 + random.below(700);
    let text = words.join(" ");
    format!(r#"{{"id":{n},"from":"{name}","at":{ms},"text":"{text}"}}"#)
}

fn small_event(n: usize, random: &mut Random) -> String {
    format!(r#"{{"id":{n},"speed":{}}}"#, random.below(130))
}

fn trade(n: usize, random: &mut Random) -> String {
    let symbol = random.choose(&["ETHUSDT", "BTCUSDT", "SOLUSDT", "XRPUSDT"]);
    let (price, cents) = (1800 + random.below(90), random.below(100));
    let (whole, part) = (random.below(4), random.below(10_000));
    let (time, is_maker) =
        (1_657_746_248_000 + 37 * n as u64 + random.below(37), n.is_multiple_of(3));
    format!(
        r#"{{"event":"trade","symbol":"{symbol}","id":{},"price":"{price}.{cents:02}","quantity":"{whole}.{part:04}","time":{time},"is_buyer_maker":{is_maker}}}"#,
        90_210_000 + n
    )
}

/// A piece of an answer of a language model, in a common form.
fn token(n: usize, random: &mut Random) -> String {
    const WORDS: [&str; 16] = [
        " the", " river", " flows", " along", " its", " deepest", ",", " line", ".", " A", " boat",
        " that", " follows", " it", " never", " stands",
    ];
    let word = random.choose(&WORDS);
    format!(
        r#"{{"id":"answer-7f3c","created":{},"model":"small","choices":[{{"index":0,"delta":{{"content":"{word}"}},"finish_reason":null}}]}}"#,
        1_657_746_248 + n / 40
    )
}
