//! Ways in. All end in `stream`'s `append`, as [`Payloads`].
//!
//! ```text
//! posted      what publishers send: bodies and lines
//! cars        car_live_data: cars driving on roads
//! max_speed   the highest of their speeds in each second
//! constant    the published experiment's fixed row, any batch and interval
//! dummy       padding of any size
//! runner      the published round trip: the next event when the last is acked
//! ```
//!
//! The synthetic sources are deterministic by seed and open-loop: ticks follow a
//! schedule set in advance, events carry their intended time, and a late tick is
//! made up for, never left out, unless nobody subscribes to a source that is told to rest
//! then (`when=subscribed`). Pure: the shard tells them the time.

mod cars;
mod constant;
mod dummy;
mod max_speed;
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

    /// Hears that it has rested: the time since its last tick did not pass for it.
    fn pause(&mut self) {}

    /// Gives away what it has made for another topic than its own.
    fn take_beside(&mut self) -> Payloads {
        Payloads::default()
    }
}

/// A source and its schedule.
pub(crate) struct Scheduled {
    /// What makes the events.
    pub source: Box<dyn Source>,
    /// The first tick, in µs of the monotonic clock; `None`: at once.
    pub start_us: Option<u64>,
    /// From tick to tick, in µs; `None`: it only answers acks.
    pub interval_us: Option<u64>,
    /// It ticks only while somebody subscribes to its topic; its first tick is one interval
    /// after that, then.
    pub while_subscribed: bool,
    /// The topic whose events ack its own.
    pub ack_topic: Option<Topic>,
    /// The topic that it feeds besides its own.
    pub beside_topic: Option<Topic>,
}

impl Scheduled {
    /// What it has made for another topic than its own, if it has.
    pub(crate) fn take_beside(&mut self) -> Option<(Topic, Payloads)> {
        let topic = self.beside_topic.as_ref()?;
        let payloads = self.source.take_beside();
        (!payloads.is_empty()).then(|| (topic.clone(), payloads))
    }
}

/// Rows that a source makes in a tick: a tick is one step, in which its shard does
/// nothing else, and these are more than ten megabytes.
const ROWS_MAX: u64 = 100_000;

const KINDS: [&str; 4] = ["cars", "constant", "dummy", "runner"];

/// When a source ticks.
const WHENS: [&str; 2] = ["always", "subscribed"];

/// Makes the source that `config` asks for.
///
/// # Errors
/// One sentence naming the wrong kind, key or value.
pub(crate) fn build(config: &SourceConfig) -> Result<Scheduled, String> {
    let options = &config.options;
    if config.kind == "runner" {
        options.check_keys(&["ack"])?;
        return Ok(Scheduled {
            source: Box::new(runner::Runner::default()),
            start_us: None,
            interval_us: None,
            while_subscribed: false,
            ack_topic: topic(options, "ack")?,
            beside_topic: None,
        });
    }
    let seed = options.number("seed");
    let mut beside_topic = None;
    let (source, known, default_interval_us): (Box<dyn Source>, &[&str], u64) =
        match config.kind.as_str() {
            "cars" => {
                let count = rows(options, "cars")?.unwrap_or(100);
                let mut cars = cars::Cars::new(seed?.unwrap_or(1), count);
                beside_topic = topic(options, "max-speed")?;
                if beside_topic.as_ref() == Some(&config.topic) {
                    return Err("max-speed: another topic than that of the cars".into());
                }
                if beside_topic.is_some() {
                    cars = cars.with_max_speed();
                }
                (Box::new(cars), &["cars", "seed", "max-speed"], 100_000)
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
    options.check_keys(&[known, &["interval", "start", "when"]].concat())?;
    let interval = options.duration("interval")?.map(|interval| interval.as_micros() as u64);
    let interval_us = interval.unwrap_or(default_interval_us);
    if interval_us == 0 {
        return Err("interval: must be at least 1us".into());
    }
    let (start_us, while_subscribed) = start(options)?;
    let interval_us = Some(interval_us);
    Ok(Scheduled { source, start_us, interval_us, while_subscribed, ack_topic: None, beside_topic })
}

/// When it starts, if that is said, and whether it ticks only while somebody subscribes.
fn start(options: &Options) -> Result<(Option<u64>, bool), String> {
    let start_us = options.number("start")?;
    match options.text("when") {
        None | Some("always") => Ok((start_us, false)),
        Some("subscribed") if start_us.is_some() => {
            Err("start: its first subscriber starts it, leave it away".into())
        }
        Some("subscribed") => Ok((None, true)),
        Some(other) => Err(format!("when: {other:?} is none{}", nearest(other, &WHENS))),
    }
}

fn topic(options: &Options, key: &str) -> Result<Option<Topic>, String> {
    let topic = options.text(key).map(str::parse).transpose();
    topic.map_err(|error: TopicError| format!("{key}: {error}"))
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
        let meant = "when: \"subscribe\" is none, did you mean \"subscribed\"?";
        check("a=dummy,when=subscribe", Err(meant));
        let twice = "start: its first subscriber starts it, leave it away";
        check("a=dummy,when=subscribed,start=1", Err(twice));
        assert!(build(&SourceConfig::parse("a=runner,when=subscribed").unwrap()).is_err());
    }

    #[test]
    fn the_highest_speed_has_a_topic_of_its_own() {
        let built = |text: &str| build(&SourceConfig::parse(text).unwrap());
        let beside = |text: &str| built(text).ok().and_then(|scheduled| scheduled.beside_topic);
        assert_eq!(beside("a=cars,max-speed=a/max"), Some("a/max".parse().unwrap()));
        assert_eq!(beside("a=cars"), None);
        assert!(built("a=cars,max-speed=a").is_err());
        assert!(built("a=cars,max-speed=a//b").is_err());
        assert!(built("a=dummy,max-speed=b").is_err());
    }
}
