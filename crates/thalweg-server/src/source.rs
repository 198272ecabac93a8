//! Ways in. All end in `stream`'s `append`, as [`Payloads`].
//!
//! ```text
//! posted      what publishers send: bodies and lines
//! cars        car_live_data: cars driving on roads
//! constant    the published experiment's fixed row, any batch and interval
//! dummy       padding of any size
//! runner      the published round trip: the next event when the last is acked
//! ```
//!
//! The synthetic sources are deterministic by seed and open-loop: ticks follow a
//! schedule set in advance, events carry their intended time, and a late tick is
//! made up for, never left out. Pure: the shard tells them the time.

mod cars;
mod constant;
mod dummy;
pub(crate) mod posted;
mod runner;

use thalweg_wire::{Offset, Topic, topic::TopicError};

use crate::{
    config::{Options, SourceConfig, nearest},
    stream::Payloads,
};

/// A synthetic source.
pub(crate) trait Source: Send {
    /// Appends the events of the tick that is due at `due_us`.
    fn tick(&mut self, due_us: u64, out: &mut Payloads);

    /// Hears that the topic's events up to `offset` have been processed; may append
    /// what comes of that.
    fn ack(&mut self, _offset: Offset, _now_us: u64, _out: &mut Payloads) {}
}

/// A source and its schedule.
pub(crate) struct Scheduled {
    /// What makes the events.
    pub source: Box<dyn Source>,
    /// The first tick, in µs of the monotonic clock; `None`: at once.
    pub start_us: Option<u64>,
    /// From tick to tick, in µs; `None`: it only answers acks.
    pub interval_us: Option<u64>,
    /// The topic whose events ack its own.
    pub ack_topic: Option<Topic>,
}

/// Rows that a source makes in a tick: a tick is one step, in which its shard does
/// nothing else, and these are more than ten megabytes.
const ROWS_MAX: u64 = 100_000;

const KINDS: [&str; 4] = ["cars", "constant", "dummy", "runner"];

/// Makes the source that `config` asks for.
///
/// # Errors
/// One sentence naming the wrong kind, key or value.
pub(crate) fn build(config: &SourceConfig) -> Result<Scheduled, String> {
    let options = &config.options;
    if config.kind == "runner" {
        options.check_keys(&["ack"])?;
        let ack_topic = options.text("ack").map(str::parse).transpose();
        let ack_topic = ack_topic.map_err(|error: TopicError| format!("ack: {error}"))?;
        let source = Box::new(runner::Runner::default());
        return Ok(Scheduled { source, start_us: None, interval_us: None, ack_topic });
    }
    let seed = options.number("seed");
    let (source, known, default_interval_us): (Box<dyn Source>, &[&str], u64) =
        match config.kind.as_str() {
            "cars" => {
                let cars = rows(options, "cars")?.unwrap_or(100);
                (Box::new(cars::Cars::new(seed?.unwrap_or(1), cars)), &["cars", "seed"], 100_000)
            }
            "constant" => {
                let batch = rows(options, "batch")?.unwrap_or(1);
                (Box::new(constant::Constant::new(batch)), &["batch"], 1_000)
            }
            "dummy" => {
                let size = options.bytes("size")?.unwrap_or(100);
                (Box::new(dummy::Dummy::new(seed?.unwrap_or(1), size)?), &["size", "seed"], 1_000)
            }
            other => return Err(format!("unknown source {other:?}{}", nearest(other, &KINDS))),
        };
    options.check_keys(&[known, &["interval", "start"]].concat())?;
    let interval = options.duration("interval")?.map(|interval| interval.as_micros() as u64);
    let interval_us = interval.unwrap_or(default_interval_us);
    if interval_us == 0 {
        return Err("interval: must be at least 1us".into());
    }
    let (start_us, interval_us) = (options.number("start")?, Some(interval_us));
    Ok(Scheduled { source, start_us, interval_us, ack_topic: None })
}

fn rows(options: &Options, key: &str) -> Result<Option<u64>, String> {
    match options.number(key)? {
        Some(rows) if rows > ROWS_MAX => Err(format!("{key}: at most {ROWS_MAX}")),
        rows => Ok(rows),
    }
}

/// Appends an event that `write` cannot fail to make.
fn push(out: &mut Payloads, write: impl FnOnce(&mut Vec<u8>)) {
    let _: Result<(), std::convert::Infallible> = out.push(|bytes| {
        write(bytes);
        Ok(())
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_is_bounded() {
        let check = |text: &str, refusal: Option<&str>| {
            let built = build(&SourceConfig::parse(text).unwrap());
            assert_eq!(built.err().as_deref(), refusal, "{text}");
        };
        check("a=cars,cars=100000", None);
        // No memory holds as many.
        check("a=cars,cars=18446744073709551615", Some("cars: at most 100000"));
        check("a=constant,batch=100000", None);
        check("a=constant,batch=100001", Some("batch: at most 100000"));
    }
}
