//! Options of the limit, and its errors.

use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use rustix::io::Errno;

use crate::topic::is_topic;

/// Smallest size of an event of the dummy source, as in Thalweg.
const DUMMY_BYTES_MIN: usize = 64;

/// The limit of the protocol.
const EVENT_BYTES_MAX: usize = 1 << 20;

/// How to run the limit.
#[derive(Clone, Debug)]
pub struct Options {
    /// The address to listen on; port 0 takes a free one.
    pub listen: SocketAddr,
    /// How often to send.
    pub mode: Mode,
    /// The load that the limit generates, if any.
    pub source: Option<SourcePlan>,
    /// Whether to use TLS, with a self-signed certificate.
    pub is_tls: bool,
    /// Whether to echo WebSocket messages and otherwise send only dummies.
    pub is_echo: bool,
    /// Busy wait after each send to a subscriber (without `--echo`), which makes a subject slower by a known amount.
    pub busy_wait: Duration,
}

/// A load that the limit generates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourcePlan {
    /// Rows of experiment A.
    Constant(ConstantPlan),
    /// The firehose of experiment C.
    Dummy(DummyPlan),
}

impl FromStr for SourcePlan {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        if text.split(',').next() == Some("dummy") {
            return text.parse().map(Self::Dummy);
        }
        text.parse().map(Self::Constant)
    }
}

/// How often the limit sends to a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Once a turn: everything due to a socket in one send, all events of a topic in one frame.
    Coalesced,
    /// Once for each frame, with a frame for each posted event: like a server that writes each event when it is published.
    Frame,
}

impl FromStr for Mode {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        match text {
            "coalesced" => Ok(Self::Coalesced),
            "frame" => Ok(Self::Frame),
            _ => Err(LimitError::Mode(text.to_owned())),
        }
    }
}

/// A generated load: rows of experiment A, written `constant,topic=NAME,batch=N,interval_us=N,start_us=N`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConstantPlan {
    /// The topic; default: `constant`.
    pub topic: String,
    /// Rows per tick, which are one batch.
    pub batch: u64,
    /// Time between two ticks, µs.
    pub interval_us: u64,
    /// The first tick, µs of `CLOCK_MONOTONIC`. Without it: now. If it has passed: the next tick of the schedule.
    pub start_us: Option<u64>,
}

impl FromStr for ConstantPlan {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        let wrong = || LimitError::Source(text.to_owned());
        let mut parts = text.split(',');
        if parts.next() != Some("constant") {
            return Err(wrong());
        }
        let topic = "constant".to_owned();
        let mut plan = Self { topic, batch: 1, interval_us: 1_000, start_us: None };
        for part in parts {
            let (key, value) = part.split_once('=').ok_or_else(wrong)?;
            let number = || value.parse().map_err(|_| wrong());
            match key {
                "topic" if is_topic(value) => plan.topic = value.to_owned(),
                "batch" => plan.batch = number()?,
                "interval_us" => plan.interval_us = number()?,
                "start_us" => plan.start_us = Some(number()?),
                _ => return Err(wrong()),
            }
        }
        if plan.batch == 0 || plan.interval_us == 0 {
            return Err(wrong());
        }
        Ok(plan)
    }
}

/// The firehose of experiment C: one event of `size` bytes to every connection at every tick, unless the previous one is still being sent,
/// written `dummy,topic=NAME,size=N,interval_us=N`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DummyPlan {
    /// The topic; default: `dummy`.
    pub topic: String,
    /// Bytes of an event.
    pub size: usize,
    /// Time between two ticks, µs.
    pub interval_us: u64,
}

impl FromStr for DummyPlan {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        let wrong = || LimitError::Dummy(text.to_owned());
        let mut parts = text.split(',');
        if parts.next() != Some("dummy") {
            return Err(wrong());
        }
        let mut plan = Self { topic: "dummy".to_owned(), size: 1_000, interval_us: 1_000 };
        for part in parts {
            let (key, value) = part.split_once('=').ok_or_else(wrong)?;
            match key {
                "topic" if is_topic(value) => plan.topic = value.to_owned(),
                "size" => plan.size = value.parse().map_err(|_| wrong())?,
                "interval_us" => plan.interval_us = value.parse().map_err(|_| wrong())?,
                _ => return Err(wrong()),
            }
        }
        if !(DUMMY_BYTES_MIN..=EVENT_BYTES_MAX).contains(&plan.size) || plan.interval_us == 0 {
            return Err(wrong());
        }
        Ok(plan)
    }
}

/// The reason why the limit could not start, or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum LimitError {
    /// `--mode` is not a mode.
    #[error("unknown mode `{0}`: use coalesced or frame")]
    Mode(String),
    /// `--source` is not a source.
    #[error(
        "source `{0}` is not understood: write constant,topic=NAME,batch=N,interval_us=N,start_us=N \
         with a batch and an interval of at least 1"
    )]
    Source(String),
    /// `--source dummy,…` is not a source.
    #[error(
        "source `{0}` is not understood: write dummy,topic=NAME,size=N,interval_us=N \
         with 64 to 1048576 bytes and an interval of at least 1"
    )]
    Dummy(String),
    /// Only the echo paces a firehose by what its reader takes.
    #[error("a dummy source needs --echo: add it, or use a constant source")]
    DummyWithoutEcho,
    /// The echo is a server of its own.
    #[error("--echo supports only a dummy source, and no --tls: remove the other option")]
    EchoAlone,
    /// A certificate or a session cannot be created.
    #[error("TLS cannot be set up: {0}; remove --tls to serve without TLS")]
    Tls(String),
    /// The limit cannot listen on the address.
    #[error("cannot listen on {0}: {1}; choose another --listen address")]
    Listen(SocketAddr, Errno),
    /// The kernel refused a call that the limit needs.
    #[error("the operating system refused {0}: {1}")]
    System(&'static str, Errno),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_read_in_any_order_and_nothing_is_guessed() {
        let topic = "bench/0".to_owned();
        let plan = "constant,topic=bench/0,interval_us=500,batch=40,start_us=7";
        assert_eq!(
            plan.parse::<ConstantPlan>().unwrap(),
            ConstantPlan { topic, batch: 40, interval_us: 500, start_us: Some(7) }
        );
        for wrong in [
            "",
            "cars",
            "constant,batch",
            "constant,batch=-1",
            "constant,batch=0",
            "constant,interval_us=0",
            "constant,interval=5",
            "constant,topic=a b",
        ] {
            assert!(wrong.parse::<ConstantPlan>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_firehose_has_bounds() {
        let plan = DummyPlan { topic: "bench/0".to_owned(), size: 10_000, interval_us: 500 };
        let text = "dummy,topic=bench/0,size=10000,interval_us=500";
        assert_eq!(text.parse::<SourcePlan>().unwrap(), SourcePlan::Dummy(plan));
        for wrong in ["dummy,size=10", "dummy,size=1048577", "dummy,interval_us=0", "dummy,batch=2"]
        {
            assert!(wrong.parse::<SourcePlan>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_mode_is_one_of_two() {
        assert_eq!("coalesced".parse::<Mode>().unwrap(), Mode::Coalesced);
        assert_eq!("frame".parse::<Mode>().unwrap(), Mode::Frame);
        assert!("both".parse::<Mode>().is_err());
    }
}
