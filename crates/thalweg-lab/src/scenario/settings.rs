//! Everything that may differ between two samples.

use super::{
    Answers, Arrivals, Consumer, CoreUse, Mode, Payload, PublishTo, Request, TopicKind, Transport,
};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::time::Duration;

const SLOW_SPAN_EVENTS: u32 = 5;

/// Everything that may differ between two samples of a scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// How subscribers are connected.
    pub transport: Transport,
    /// Subscribers, each with a connection of its own unless `streams` says otherwise; with the `publish` drive, publishers.
    pub connections: u32,
    /// Subscribers that share an HTTP/2 connection; 0 is HTTP/1.1.
    pub streams: u32,
    /// Whether connections are encrypted (TLS 1.3).
    pub tls: bool,
    /// Whether subscribers offer compression: permessage-deflate, or gzip.
    pub compress: bool,
    /// Topics each connection subscribes to.
    pub topics: u32,
    /// Topics that connections are spread over in turn, each on one of them.
    pub keys: u32,
    /// Content of a published event.
    pub payload: Payload,
    /// Exact size of a published event; of a document, about.
    pub event_bytes: u32,
    /// Published events outstanding per topic.
    pub window: u32,
    /// Published events per second and topic, on a schedule; 0 posts as fast as the window allows. First rate of `ceiling`.
    pub rate: u32,
    /// Time between two events of a topic on such a schedule, instead of a rate; 0 is none.
    pub every_ms: u64,
    /// The latency objective of the `ceiling` drive, for 99 of 100 events.
    pub p99_us_max: u64,
    /// The latency objective of a `ramp` beside published events, for every event; 0 is none.
    pub late_us_max: u64,
    /// Rows in a generated batch.
    pub batch: u32,
    /// Time between two generated batches.
    pub interval_us: u64,
    /// Subscribers that stop reading once warm-up is over.
    pub stopped: u32,
    /// Subscribers that read at a trickle from then on.
    pub slow: u32,
    /// How much each of these reads a second.
    pub slow_bytes_per_s: u32,
    /// At which rate connections arrive.
    pub arrivals: Arrivals,
    /// Keys whose connections are lost in a stampede; 0 is all.
    pub lost_keys: u32,
    /// How long a connection stays, on average.
    pub stay_ms: u64,
    /// Threads of `thalweg serve`.
    pub shards: u32,
    /// Kind of the topics of `thalweg serve`.
    pub kind: TopicKind,
    /// Whether subscribers take patches of value topics.
    pub deltas: bool,
    /// How `limit` sends.
    pub mode: Mode,
    /// How the `publish` drive hands events in.
    pub request: Request,
    /// Events of a chunk, in a long publish request; 0 puts all that are due into one.
    pub chunk_events: u32,
    /// Where published events go to.
    pub publish_to: PublishTo,
    /// Events in a message to a NATS server.
    pub message_events: u32,
    /// Requests, or round trips; without requests the firehose runs alone.
    pub requests: u32,
    /// From request to request.
    pub request_us: u64,
    /// Which connection carries the answers.
    pub answers: Answers,
    /// Size of the firehose's event; 0 is no firehose.
    pub dummy_bytes: u32,
    /// Bytes that may be under way and not acked; 0 is no window.
    pub window_bytes: u32,
    /// `SO_RCVBUF` of a subscriber; 0 leaves it to the kernel.
    pub receive_buffer_bytes: u32,
    /// `tuning.send-buffer-bytes` of `thalweg serve`; 0 is its default.
    pub send_buffer_bytes: u32,
    /// `tuning.unsent-bytes` of `thalweg serve`; 0 is its default.
    pub unsent_bytes: u32,
    /// In a browser: tabs that the connections are spread over.
    pub tabs: u32,
    /// In a browser: whether each tab is observed as DevTools does it.
    pub devtools: bool,
    /// In a browser: how many times its tabs' main threads are slowed down; 1 is not at all.
    pub throttle: u32,
    /// In a browser: the page's consumer.
    pub consumer: Consumer,
    /// In a browser: whether that happens in a worker.
    pub worker: bool,
    /// In a browser: whether it has cores of its own, or shares all of them with the subject.
    pub cores: CoreUse,
    /// Changes nothing: cells that differ in it are measured one by one, where equal ones would be one.
    pub round: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            transport: Transport::Websocket,
            connections: 100,
            streams: 0,
            tls: false,
            compress: false,
            topics: 1,
            keys: 1,
            payload: Payload::Padded,
            event_bytes: 128,
            window: 4,
            rate: 0,
            every_ms: 0,
            p99_us_max: 50_000,
            late_us_max: 0,
            batch: 1,
            interval_us: 1000,
            stopped: 0,
            slow: 0,
            slow_bytes_per_s: 1000,
            arrivals: Arrivals::default(),
            lost_keys: 0,
            stay_ms: 10_000,
            shards: 1,
            kind: TopicKind::Log,
            deltas: false,
            mode: Mode::Coalesced,
            request: Request::Ndjson,
            chunk_events: 0,
            publish_to: PublishTo::Subject,
            message_events: 1,
            answers: Answers::Same,
            requests: 1000,
            request_us: 1000,
            dummy_bytes: 0,
            window_bytes: 0,
            receive_buffer_bytes: 0,
            send_buffer_bytes: 0,
            unsent_bytes: 0,
            tabs: 1,
            devtools: false,
            throttle: 1,
            consumer: Consumer::Rows,
            worker: false,
            cores: CoreUse::Apart,
            round: 0,
        }
    }
}

impl Settings {
    /// Subscribers that read to the end, and so move the window on.
    pub fn readers(&self) -> u32 {
        self.connections - self.stopped - self.slow
    }

    /// The shortest span at a slow rate: one of fewer events would measure little else than when it began.
    pub fn slow_span(&self) -> Duration {
        self.period().map_or(Duration::ZERO, |period| SLOW_SPAN_EVENTS * period)
    }

    /// Events of a topic per second, on a schedule set in advance; `None` without one.
    pub fn events_per_s(&self) -> Option<f64> {
        match (self.every_ms, self.rate) {
            (0, 0) => None,
            (0, rate) => Some(f64::from(rate)),
            (every_ms, _) => Some(1000.0 / every_ms as f64),
        }
    }

    /// Time between two of them.
    pub fn period(&self) -> Option<Duration> {
        self.events_per_s().map(|rate| Duration::from_secs_f64(1.0 / rate))
    }

    /// Topics of all connections together.
    pub fn topics_in_all(&self) -> u32 {
        self.topics.max(self.keys)
    }

    /// The topics of the connection with this number.
    pub fn topics_of(&self, connection: usize) -> Range<u32> {
        match self.keys {
            ..=1 => 0..self.topics,
            keys => {
                let key = (connection % keys as usize) as u32;
                key..key + 1
            }
        }
    }

    /// Whether the connections of a topic are lost in a stampede.
    pub fn is_lost(&self, topic: u32) -> bool {
        self.lost_keys == 0 || topic < self.lost_keys
    }

    /// How many of the first `connections` subscribe to a topic.
    pub fn subscribers_of(&self, topic: u32, connections: u32) -> u32 {
        match self.keys {
            ..=1 => connections,
            keys => (connections + keys - 1 - topic) / keys,
        }
    }
}
