//! Everything that may differ between two samples: one table, from which files, cells, labels and the schema are generated.

use super::quantity::{Axis, Bytes, Ms, Plain, Us, bytes_label};
use super::{
    Answers, Arrivals, Consumer, CoreUse, Mode, Payload, PublishTo, Request, TopicKind, Transport,
};
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::time::Duration;

const SLOW_SPAN_EVENTS: u32 = 5;

/// Each line has a key, its type, the unit of its numbers, its default, and its part of a cell's label.
/// Cells are ordered by the first keys first.
macro_rules! settings {
    ($($(#[$doc:meta])* $key:ident: $type:ty as $unit:ident = $default:expr $(, $label:expr)?;)*) => {
        /// Everything that may differ between two samples of a scenario.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct Settings {
            $($(#[$doc])* pub $key: $type,)*
        }

        impl Default for Settings {
            fn default() -> Self {
                Settings { $($key: $default),* }
            }
        }

        /// Settings, each one value or a list of values. A block has a cell for every combination of its lists.
        #[derive(Clone, Debug, Default, Deserialize)]
        #[cfg_attr(test, derive(JsonSchema))]
        #[serde(deny_unknown_fields)]
        pub(super) struct Block {
            $($(#[$doc])* pub(super) $key: Option<Axis<$type, $unit>>,)*
            /// The subjects of these cells, by name. Default: all that are not on demand.
            pub(super) subjects: Option<Vec<String>>,
            /// The subject with which the others are compared. Default: the first.
            pub(super) baseline: Option<String>,
        }

        impl Block {
            pub(super) const KEYS: &'static [&'static str] =
                &[$(stringify!($key),)* "subjects", "baseline"];

            /// Returns the names of the settings that have a value.
            pub(super) fn keys(&self) -> impl Iterator<Item = &'static str> + use<> {
                let set = [$(self.$key.is_some(),)* self.subjects.is_some(), self.baseline.is_some()];
                Block::KEYS.iter().zip(set).filter(|(_, is_set)| *is_set).map(|(key, _)| *key)
            }

            /// Returns these settings, with those of `below` that have no value here.
            pub(super) fn over(&self, below: &Block) -> Block {
                Block {
                    $($key: self.$key.as_ref().or(below.$key.as_ref()).cloned(),)*
                    subjects: self.subjects.as_ref().or(below.subjects.as_ref()).cloned(),
                    baseline: self.baseline.as_ref().or(below.baseline.as_ref()).cloned(),
                }
            }

            /// Returns the settings that `other` does not have.
            pub(super) fn except(&self, other: &Block) -> Block {
                let set: Vec<&str> = other.keys().collect();
                self.only(|key| !set.contains(&key))
            }

            /// Returns the settings whose names are wanted.
            pub(super) fn only(&self, is_wanted: impl Fn(&str) -> bool) -> Block {
                Block {
                    $($key: self.$key.clone().filter(|_| is_wanted(stringify!($key))),)*
                    subjects: self.subjects.clone().filter(|_| is_wanted("subjects")),
                    baseline: self.baseline.clone().filter(|_| is_wanted("baseline")),
                }
            }

            /// Returns every combination of these values, with other settings as in `base`.
            pub(super) fn combinations(&self, base: &Settings) -> Vec<Settings> {
                let mut all = vec![base.clone()];
                $(vary(&mut all, &self.$key, |settings, value| settings.$key = value);)*
                all
            }
        }

        /// Parts of a label, in the table's order.
        pub(super) const LABELS: &[fn(&Settings) -> String] = &[$($($label,)?)*];
    };
}

settings! {
    /// How subscribers are connected. `limit` speaks the first three.
    transport: Transport as Plain = Transport::Websocket;
    /// How `limit` sends.
    mode: Mode as Plain = Mode::Coalesced;
    /// How the `publish` drive sends events.
    request: Request as Plain = Request::Ndjson;
    /// Subscribers that share an HTTP/2 connection, not over WebSocket. 0 uses HTTP/1.1, with a connection
    /// for each subscriber.
    streams: u32 as Plain = 0, |s| above(s.streams, 0, " × {} streams");
    /// Whether connections are encrypted (TLS 1.3). `limit` cannot do this with `echo` and `round-trip`.
    tls: bool as Plain = false, |s| when(s.tls, " TLS");
    /// Whether subscribers offer compression: permessage-deflate (RFC 7692), or gzip. Thalweg then runs with
    /// `--compression`, and `limit` does not take part.
    compress: bool as Plain = false, |s| when(s.compress, " compressed");
    /// Number of topics to which each connection subscribes, each with its own window or schedule.
    topics: u32 as Plain = 1, |s| above(s.topics, 1, " × {} topics");
    /// Number of topics over which connections are distributed: each subscribes to one of them. An echo probe
    /// (a small request every 100 ms) runs at the same time. With `published-load` the report also has the
    /// mean delay of the event loop, of subjects that report it.
    keys: u32 as Plain = 1, |s| above(s.keys, 1, " × {} keys");
    /// The kind of published events.
    payload: Payload as Plain = Payload::Padded;
    /// Size of a published event: exact for events, within 5 % for documents.
    event_bytes: u32 as Bytes = 128;
    /// Number of subscribers, each with its own connection unless `streams` is set; with the `publish` drive,
    /// of publishers. 1 with `echo` and `round-trip`.
    connections: u32 as Plain = 100;
    /// The kind of the topics of `thalweg serve`.
    kind: TopicKind as Plain = TopicKind::Log, |s| when(s.kind == TopicKind::Value, " value");
    /// Whether subscribers request deltas: patches of Thalweg's value topics, or Fossil deltas of Centrifugo.
    deltas: bool as Plain = false, |s| when(s.deltas, " patches");
    /// Number of subscribers that stop reading after the warm-up; not over long polling.
    stopped: u32 as Plain = 0, |s| above(s.stopped, 0, ", {} stop");
    /// Number of subscribers that read very slowly after the warm-up.
    slow: u32 as Plain = 0, |s| above(s.slow, 0, ", {} read ") + &when(s.slow > 0, &format!("{}/s", bytes_label(s.slow_bytes_per_s)));
    /// Bytes per second that each slow subscriber reads.
    slow_bytes_per_s: u32 as Bytes = 1000;
    /// The rate at which connections arrive with the `ramp` drive, in stages: `50/s 10s, 200/s`. A last stage
    /// without a time continues until all have arrived.
    arrivals: Arrivals as Plain = Arrivals::default();
    /// Number of keys whose connections are lost with the `stampede` drive. The report compares the events on
    /// the other connections during this time with those before. 0: all keys.
    lost_keys: u32 as Plain = 0;
    /// How long a connection of the `churn` drive stays on average before another takes its place, ms.
    stay_ms: u64 as Ms = 10_000;
    /// Maximum number of published events per topic that not all subscribers have received: event n + window
    /// is published when all have n. With the `stored` drive: messages without an acknowledgement.
    window: u32 as Plain = 4;
    /// Published events per second and topic, on a schedule that is set in advance, without a window. 0
    /// publishes as fast as the window allows. With the `ceiling` drive: the first rate to try.
    rate: u32 as Plain = 0;
    /// Time between two published events of a topic, instead of a rate, ms; 0 is none.
    every_ms: u64 as Ms = 0;
    /// The latency objective of the `ramp` drive beside published events, for every event, µs. The result is
    /// the number of clients that get every event within this time. 0 is no objective.
    late_us_max: u64 as Us = 0;
    /// The latency objective of the `ceiling` drive, µs: 99 of 100 events arrive within this time.
    p99_us_max: u64 as Us = 50_000;
    /// The connection over which the answers of the `echo` drive come.
    answers: Answers as Plain = Answers::Same;
    /// Time between two generated batches, or, with `echo`, between two events of the firehose, µs. 0 sends
    /// none.
    interval_us: u64 as Us = 1000;
    /// Rows in a generated batch.
    batch: u32 as Plain = 1;
    /// Events of an HTTP chunk, where they are published in one long request. 0 puts all that are
    /// due into one chunk.
    chunk_events: u32 as Plain = 0, |s| above(s.chunk_events, 0, ", {} a chunk");
    /// Where events are published: to the subject, or to the NATS server from which it reads.
    publish_to: PublishTo as Plain = PublishTo::Subject, |s| when(s.publish_to == PublishTo::Nats, " by NATS");
    /// Events in a message to a NATS server, 1 to 256. The message is sent when it has this many.
    message_events: u32 as Plain = 1, |s| above(s.message_events, 1, ", {} a message");
    /// Requests of the `echo` drive, or round trips; with `echo`, 0 measures only the firehose.
    requests: u32 as Plain = 1000;
    /// Size of the firehose's event, with `echo`; 0 is no firehose.
    dummy_bytes: u32 as Bytes = 0;
    /// Time between two requests of the `echo` drive, µs.
    request_us: u64 as Us = 1000;
    /// Maximum bytes that are sent and not acked, with `echo`; 0: no window.
    window_bytes: u32 as Bytes = 0;
    /// `SO_RCVBUF` of a subscriber; 0 leaves it to the kernel.
    receive_buffer_bytes: u32 as Bytes = 0;
    /// `tuning.send-buffer-bytes` of `thalweg serve`; 0 is its default.
    send_buffer_bytes: u32 as Bytes = 0;
    /// `tuning.unsent-bytes` of `thalweg serve`; 0 is its default.
    unsent_bytes: u32 as Bytes = 0;
    /// Browser only: number of tabs over which the connections are distributed.
    tabs: u32 as Plain = 1, |s| above(s.tabs, 1, ", {} tabs");
    /// Browser only: whether a debugger observes each tab as DevTools does (Runtime, Network and Performance
    /// domains).
    devtools: bool as Plain = false, |s| when(s.devtools, ", DevTools");
    /// Browser only: the factor by which the main thread of each tab is slowed down.
    throttle: u32 as Plain = 1, |s| above(s.throttle, 1, ", slowed {} times");
    /// Browser only: how a page processes messages. All but `raw`, `sdk` and the live page read one column of
    /// numbers, or every value of every row (of a string, its length).
    consumer: Consumer as Plain = Consumer::Rows, |s| s.consumer.label().to_owned();
    /// Browser only: whether a worker does this.
    worker: bool as Plain = false, |s| when(s.worker, ", in a worker");
    /// Browser only: the cores of browser and subject.
    cores: CoreUse as Plain = CoreUse::Apart, |s| when(s.cores == CoreUse::Shared, ", cores shared");
    /// Threads of `thalweg serve`.
    shards: u32 as Plain = 1, |s| above(s.shards, 1, ", {} shards");
    /// A number without effect that makes equal cells different: `[1, 2, 3]` measures the same cell three
    /// times.
    round: u32 as Plain = 0, |s| above(s.round, 0, ", round {}");
}

/// Returns every combination so far, once for each value of one more axis.
fn vary<T: Clone, U>(
    all: &mut Vec<Settings>,
    axis: &Option<Axis<T, U>>,
    set: impl Fn(&mut Settings, T),
) {
    let Some(Axis(values, _)) = axis else { return };
    let shorter = std::mem::take(all);
    for settings in shorter {
        for value in values {
            let mut longer = settings.clone();
            set(&mut longer, value.clone());
            all.push(longer);
        }
    }
}

/// Returns a part of a label with the value, if it is above `than`.
fn above(value: u32, than: u32, text: &str) -> String {
    when(value > than, &text.replacen("{}", &value.to_string(), 1))
}

fn when(condition: bool, text: &str) -> String {
    if condition { text.to_owned() } else { String::new() }
}

impl Settings {
    /// Returns the number of subscribers that read to the end, and so advance the window.
    pub fn readers(&self) -> u32 {
        self.connections - self.stopped - self.slow
    }

    /// Returns the shortest span at a slow rate: the figures of a shorter one would depend on the moment at which it began.
    pub fn slow_span(&self) -> Duration {
        self.period().map_or(Duration::ZERO, |period| SLOW_SPAN_EVENTS * period)
    }

    /// Returns the events of a topic per second, on a schedule set in advance; `None` without one.
    pub fn events_per_s(&self) -> Option<f64> {
        match (self.every_ms, self.rate) {
            (0, 0) => None,
            (0, rate) => Some(f64::from(rate)),
            (every_ms, _) => Some(1000.0 / every_ms as f64),
        }
    }

    /// Returns the time between two of them.
    pub fn period(&self) -> Option<Duration> {
        self.events_per_s().map(|rate| Duration::from_secs_f64(1.0 / rate))
    }

    /// Returns the number of topics of all connections together.
    pub fn topics_in_all(&self) -> u32 {
        self.topics.max(self.keys)
    }

    /// Returns the topics of the connection with this number.
    pub fn topics_of(&self, connection: usize) -> Range<u32> {
        match self.keys {
            ..=1 => 0..self.topics,
            keys => {
                let key = (connection % keys as usize) as u32;
                key..key + 1
            }
        }
    }

    /// Returns whether the connections of a topic are lost in a stampede.
    pub fn is_lost(&self, topic: u32) -> bool {
        self.lost_keys == 0 || topic < self.lost_keys
    }

    /// Returns how many of the first `connections` subscribe to a topic.
    pub fn subscribers_of(&self, topic: u32, connections: u32) -> u32 {
        match self.keys {
            ..=1 => connections,
            keys => (connections + keys - 1 - topic) / keys,
        }
    }
}
