//! Sources of events, which reach `append` of a stream as [`Payloads`].
//!
//! ```text
//! posted      bodies and lines of publishers
//! cars        car_live_data: cars driving on roads
//! constant    the published experiment's fixed row, any batch and interval
//! dummy       padding of any size
//! runner      the published round trip: the next event after the ack of the last
//! ```
//!
//! The synthetic sources are deterministic by seed and open-loop: ticks follow a fixed schedule, events carry their intended
//! time, and a late tick is made up for, never omitted. The exception is a source with `when=subscribed`, which is idle while
//! nobody subscribes. Each source publishes to one topic, its output. It may read the events of other topics, its inputs, and the
//! acks of its output. The shard delivers them from the topics' owner shards. Pure: the shard passes the time in.

mod cars;
mod constant;
mod dummy;
mod event_keys;
pub(crate) mod posted;
mod runner;

use std::{
    collections::HashSet,
    time::{Duration, UNIX_EPOCH},
};

use thalweg_core::stream::Payloads;
use thalweg_wire::{Offset, Topic, topic::TopicError};

pub(crate) use event_keys::EventKeys;

use crate::config::{Options, SourceConfig, nearest};

/// A synthetic source.
pub(crate) trait Source: Send {
    /// Appends the events of the tick that is due at `due_us`.
    fn tick(&mut self, _due_us: u64, _out: &mut Payloads) {}

    /// Reads an input; may append events.
    fn input(&mut self, _input: Input<'_>, _now_us: u64, _out: &mut Payloads) {}

    /// Returns the declared columns of its rows, if it makes rows.
    fn columns(&self) -> &'static [&'static str] {
        &[]
    }

    /// Continues after an idle time as if no time had passed since the last tick.
    fn resume(&mut self) {}
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Input<'a> {
    /// An event of one of its inputs.
    Event(&'a [u8]),
    /// A client has processed the events of the output up to this one.
    Ack(Offset),
}

/// A source with its output, inputs and schedule.
pub(crate) struct Scheduled {
    pub source: Box<dyn Source>,
    pub output: Topic,
    pub inputs: Vec<Topic>,
    /// Whether it reads the acks of its output.
    pub takes_acks: bool,
    /// The first tick, in µs of the monotonic clock; `None`: at once.
    pub start_us: Option<u64>,
    /// Time between two ticks, in µs; `None`: it makes events only from its inputs.
    pub interval_us: Option<u64>,
    /// Whether it ticks only while somebody subscribes to its topic. The first tick is one interval after the first subscription.
    pub while_subscribed: bool,
}

/// The inputs of all sources and queries of a server, by topic.
#[derive(Debug, Default)]
pub(crate) struct Inputs {
    /// Topics whose events they read.
    pub events: HashSet<Topic>,
    /// Topics whose acks they read.
    pub acks: HashSet<Topic>,
}

impl Inputs {
    /// Returns the inputs of these sources and queries. `queried`: the topics that queries read.
    pub(crate) fn new<'a>(
        sources: &'a [Scheduled],
        queried: impl Iterator<Item = &'a Topic>,
    ) -> Self {
        let events = sources.iter().flat_map(|source| &source.inputs).chain(queried).cloned();
        let takes_acks = sources.iter().filter(|source| source.takes_acks);
        let acks = takes_acks.map(|source| source.output.clone());
        Self { events: events.collect(), acks: acks.collect() }
    }
}

/// Maximum rows per tick. A tick is one step, in which its shard does nothing else, and this many rows are more than
/// ten megabytes.
const ROWS_MAX: u64 = 100_000;

const KINDS: [&str; 4] = ["cars", "constant", "dummy", "runner"];

/// JSON forms of rows.
const SHAPES: [&str; 2] = ["rows", "columns"];

/// The values of `when`.
const WHENS: [&str; 2] = ["always", "subscribed"];

/// Builds the configured source. The error is one sentence naming the wrong kind, key or value.
pub(crate) fn build(config: &SourceConfig) -> Result<Scheduled, String> {
    match config.kind.as_str() {
        "runner" => {
            config.options.check_keys(&["ack"])?;
            let source = Box::new(runner::Runner::default());
            Ok(Scheduled { takes_acks: true, ..unscheduled(source, config, input(config, "ack")?) })
        }
        _ => generator(config),
    }
}

/// Returns a source that makes events only from its inputs.
fn unscheduled(source: Box<dyn Source>, config: &SourceConfig, input: Option<Topic>) -> Scheduled {
    Scheduled {
        source,
        output: config.topic.clone(),
        inputs: Vec::from_iter(input),
        takes_acks: false,
        start_us: None,
        interval_us: None,
        while_subscribed: false,
    }
}

/// Builds a source without inputs.
fn generator(config: &SourceConfig) -> Result<Scheduled, String> {
    let options = &config.options;
    let seed = options.number("seed");
    let (source, known, default_interval_us): (Box<dyn Source>, &[&str], u64) =
        match config.kind.as_str() {
            "cars" => {
                let count = rows(options, "cars")?.unwrap_or(100);
                let cars = cars::Cars::new(seed?.unwrap_or(1), count);
                (Box::new(cars), &["cars", "seed"], 100_000)
            }
            "constant" => {
                let batch = rows(options, "batch")?.unwrap_or(1);
                let shape = shape(options)?;
                (Box::new(constant::Constant::new(batch, shape)), &["batch", "shape"], 1_000)
            }
            "dummy" => {
                let size = options.bytes("size")?.unwrap_or(100);
                (Box::new(dummy::Dummy::new(seed?.unwrap_or(1), size)?), &["size", "seed"], 1_000)
            }
            other => return Err(format!("unknown source {other:?}{}", nearest(other, &KINDS))),
        };
    options.check_keys(&[known, &["interval", "start", "when"]].concat())?;
    let interval = options.duration("interval")?.map(|interval| interval.as_micros() as u64);
    let interval_us = interval.unwrap_or(default_interval_us);
    if interval_us == 0 {
        return Err("interval is too short: write at least 1us".into());
    }
    let (start_us, while_subscribed) = start(options)?;
    let interval_us = Some(interval_us);
    Ok(Scheduled { start_us, interval_us, while_subscribed, ..unscheduled(source, config, None) })
}

/// Parses the JSON form of a tick's rows.
fn shape(options: &Options) -> Result<constant::Shape, String> {
    match options.text("shape") {
        None | Some("rows") => Ok(constant::Shape::Rows),
        Some("columns") => Ok(constant::Shape::Columns),
        Some(other) => Err(format!("shape: unknown shape {other:?}{}", nearest(other, &SHAPES))),
    }
}

/// Parses the first tick's time, if set, and whether the source ticks only while somebody subscribes.
fn start(options: &Options) -> Result<(Option<u64>, bool), String> {
    let start_us = options.number("start")?;
    match options.text("when") {
        None | Some("always") => Ok((start_us, false)),
        Some("subscribed") if start_us.is_some() => {
            Err("start has no effect with when=subscribed: remove one of them".into())
        }
        Some("subscribed") => Ok((None, true)),
        Some(other) => Err(format!("when: unknown value {other:?}{}", nearest(other, &WHENS))),
    }
}

/// Returns the topic of the option `key`. It must not be the source's own output, because
/// the source would answer itself forever.
fn input(config: &SourceConfig, key: &str) -> Result<Option<Topic>, String> {
    let topic = config.options.text(key).map(str::parse).transpose();
    match topic.map_err(|error: TopicError| format!("{key}: {error}"))? {
        Some(topic) if topic == config.topic => {
            Err(format!("{key} is the source's own topic: name another one"))
        }
        topic => Ok(topic),
    }
}

fn rows(options: &Options, key: &str) -> Result<Option<u64>, String> {
    match options.number(key)? {
        Some(rows) if rows > ROWS_MAX => {
            Err(format!("{key} is too large: write at most {ROWS_MAX}"))
        }
        rows => Ok(rows),
    }
}

/// Appends an event. `write` cannot fail.
fn push(out: &mut Payloads, write: impl FnOnce(&mut Vec<u8>)) {
    let _: Result<(), std::convert::Infallible> = out.push(|bytes| {
        write(bytes);
        Ok(())
    });
}

/// Returns a time, in ms since 1970, as RFC 3339 with milliseconds.
fn timestamp(ms: u64) -> String {
    humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(ms)).to_string()
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
        // More than fits into any memory.
        check("a=cars,cars=18446744073709551615", Some("cars is too large: write at most 100000"));
        check("a=constant,batch=100000", None);
        check("a=constant,batch=100001", Some("batch is too large: write at most 100000"));
    }

    #[test]
    fn an_unknown_shape_is_rejected() {
        let config = |shape| SourceConfig::parse(&format!("a=constant,shape={shape}")).unwrap();
        assert!(build(&config("columns")).is_ok() && build(&config("rows")).is_ok());
        let said = "shape: unknown shape \"column\", did you mean \"columns\"?";
        assert_eq!(build(&config("column")).err().as_deref(), Some(said));
    }

    #[test]
    fn a_source_ticks_always_or_while_somebody_subscribes() {
        let check = |text: &str, expected: Result<bool, &str>| {
            let built = build(&SourceConfig::parse(text).unwrap());
            let built = built.map(|scheduled| scheduled.while_subscribed);
            assert_eq!(built, expected.map_err(str::to_owned), "{text}");
        };
        for kind in ["cars", "constant", "dummy"] {
            check(&format!("a={kind}"), Ok(false));
            check(&format!("a={kind},when=always"), Ok(false));
            check(&format!("a={kind},when=subscribed"), Ok(true));
        }
        let meant = "when: unknown value \"subscribe\", did you mean \"subscribed\"?";
        check("a=dummy,when=subscribe", Err(meant));
        let twice = "start has no effect with when=subscribed: remove one of them";
        check("a=dummy,when=subscribed,start=1", Err(twice));
        assert!(build(&SourceConfig::parse("a=runner,when=subscribed").unwrap()).is_err());
    }

    #[test]
    fn the_input_of_a_source_is_another_topic() {
        let check = |text: &str, expected: Result<&[&str], &str>| {
            let built = build(&SourceConfig::parse(text).unwrap());
            let inputs = built.map(|scheduled| scheduled.inputs);
            let topics = |names: &[&str]| names.iter().map(|name| name.parse().unwrap()).collect();
            assert_eq!(inputs, expected.map(topics).map_err(str::to_owned), "{text}");
        };
        check("a=cars", Ok(&[]));
        check("a=runner", Ok(&[]));
        check("a=runner,ack=b", Ok(&["b"]));
        check("a=runner,ack=a", Err("ack is the source's own topic: name another one"));
        assert!(build(&SourceConfig::parse("a=runner,ack=b//c").unwrap()).is_err());
        assert!(build(&SourceConfig::parse("a=cars,ack=b").unwrap()).is_err());
    }

    #[test]
    fn inputs_are_found_by_topic() {
        let sources = ["a=runner,ack=c", "b=runner,ack=c", "d=cars"];
        let build = |text: &str| build(&SourceConfig::parse(text).unwrap()).unwrap();
        let inputs = Inputs::new(&sources.map(build), [&"d".parse().unwrap()].into_iter());
        let topics = |names: [&str; 2]| names.map(|name| name.parse().unwrap()).into();
        assert_eq!((inputs.events, inputs.acks), (topics(["c", "d"]), topics(["a", "b"])));
    }
}
