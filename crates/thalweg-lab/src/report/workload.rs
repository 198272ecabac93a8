//! Report of each workload, one arm for each: its load, its table, its comparisons, its charts.

use super::columns::{
    BATCHING, BROWSER_CPU, BROWSER_KINDS, BROWSER_PAGE, CEILING, CONNECTING, CONNECTING_LATE, CPU,
    Column, FROM_INTENDED, HELD, IDLE, LATENCY, MEMORY, MESSAGES, RECEIVED, ROUND_TRIP, SCHEDULE,
    SERVICE, THROUGHPUT, TOTAL,
};
use super::part_summary::PartSummary;
use crate::measure::comparison::Metric;
use crate::scenario::{Drive, Figure};

pub(super) struct Shown {
    pub(super) sentence: &'static str,
    pub(super) columns: Vec<&'static [Column]>,
    pub(super) compared: &'static [Metric],
    /// The most informative chart first.
    pub(super) charts: &'static [&'static str],
    /// Whether events per second are a throughput where the subject is saturated.
    pub(super) has_throughput: bool,
    pub(super) note: Option<&'static str>,
}

const CPU_AND_P99: &[Metric] = &[Metric::Cpu, Metric::P99];

pub(super) fn shown(part: &PartSummary) -> Shown {
    match part.drive {
        Drive::PublishedLoad if part.is_closed_loop() => Shown {
            sentence: "The lab publishes the next event as soon as every subscriber has what the \
                window allows: a subject is always given as much as it can take. Service time is \
                from publishing an event to when the swarm has read it, without any queueing.",
            columns: vec![CPU, THROUGHPUT, SERVICE, BATCHING, MEMORY],
            charts: match part.figure {
                Figure::Latency => &["service-p99", "events", "cpu"],
                _ => &["events", "cpu", "service-p99"],
            },
            ..Shown::default()
        },
        Drive::PublishedLoad => Shown {
            sentence: "The lab publishes at a rate set in advance, whatever happens. Latency is from \
                when an event should have been sent to when the swarm has read it.",
            columns: vec![CPU, THROUGHPUT, LATENCY, BATCHING, MEMORY],
            charts: match part.figure {
                Figure::Cpu => &["cpu", "subject-busy", "p99"],
                // At a given rate, the CPU is the next question.
                _ => &["p99", "subject-busy", "events"],
            },
            ..Shown::default()
        },
        Drive::Ceiling => Shown {
            sentence: "The lab publishes at rates that rise until the p99 latency is over the \
                objective; shown is the highest rate that was not.",
            columns: vec![CPU, THROUGHPUT, CEILING, LATENCY, BATCHING, MEMORY],
            compared: &[Metric::Cpu, Metric::P99, Metric::Throughput],
            charts: &["events", "cpu", "p99"],
            ..Shown::default()
        },
        Drive::GeneratedLoad if part.in_browser => Shown {
            sentence: "The subject broadcasts by itself, on a schedule set at its start, to \
                tabs of Chromium. Latency is from when a batch was due to when the page had \
                processed it. CPU is in cores: 100 % is one.",
            columns: vec![THROUGHPUT, SCHEDULE, BROWSER_CPU, BROWSER_KINDS, LATENCY, BROWSER_PAGE],
            compared: &[Metric::BrowserCpu, Metric::Throughput],
            charts: &["events", "browser-busy", "subject-cores", "browser-cpu"],
            ..Shown::default()
        },
        Drive::RoundTrip if part.in_browser => Shown {
            sentence: "A page acks every event, and the subject sends the next one only then: one \
                round trip after the other, from sending the ack to handling the next event.",
            columns: vec![ROUND_TRIP, TOTAL, BROWSER_KINDS, BROWSER_PAGE],
            compared: &[Metric::RoundTrip],
            charts: &["round-trip", "browser-busy", "subject-cores"],
            has_throughput: false,
            ..Shown::default()
        },
        Drive::GeneratedLoad => Shown {
            sentence: "The subject broadcasts by itself, on a schedule set at its start. \
                Latency is from when a batch was due to when the swarm has read it.",
            columns: vec![CPU, THROUGHPUT, SCHEDULE, LATENCY, BATCHING, MEMORY],
            charts: &["events", "subject-busy", "cpu", "p99"],
            ..Shown::default()
        },
        Drive::Idle => Shown {
            sentence: "Nobody sends anything: all connections are idle.",
            columns: vec![IDLE, MEMORY],
            compared: &[Metric::Memory],
            charts: &["memory", "open"],
            ..Shown::default()
        },
        Drive::Publish => Shown {
            sentence: "The lab publishes as fast as the subject takes it; nobody subscribes. Events \
                are those that were taken.",
            columns: vec![CPU, THROUGHPUT, MEMORY],
            compared: &[Metric::Cpu],
            charts: &["events", "cpu"],
            ..Shown::default()
        },
        Drive::Stored => Shown {
            sentence: "The lab publishes to NATS, at a rate set in advance or as fast as it is \
                acknowledged; nobody subscribes. Events are those that were published and that the \
                subject reports as read.",
            columns: vec![CPU, THROUGHPUT, MEMORY],
            compared: &[Metric::Cpu],
            charts: &["cpu", "subject-busy"],
            has_throughput: false,
            ..Shown::default()
        },
        Drive::Echo => Shown {
            sentence: "Over a WebSocket the client sends requests on a schedule and must be answered, while the \
                subject pushes other data to it, on the same connection unless the cell says \
                otherwise.",
            columns: vec![ROUND_TRIP, FROM_INTENDED, RECEIVED, SCHEDULE, MEMORY],
            compared: &[Metric::RoundTrip],
            charts: &["round-trip", "round-trip-worst", "round-trip-p99", "received"],
            has_throughput: false,
            note: Some(
                "Latency here is from when a request was due, the round trip above from when it \
                    was sent.",
            ),
        },
        Drive::RoundTrip => Shown {
            sentence: "The subject sends the next event when the client has acknowledged the last: \
                one round trip after the other.",
            columns: vec![TOTAL, ROUND_TRIP, CPU, MEMORY],
            compared: &[Metric::Cpu, Metric::RoundTrip],
            charts: &["round-trips", "round-trip-p99", "cpu"],
            ..Shown::default()
        },
        Drive::Listen => Shown {
            sentence: "The lab only listens to a running endpoint, and does not know which messages should \
                have come. Latency is from the time that a message names to when the swarm has read \
                it.",
            columns: vec![MESSAGES, RECEIVED, LATENCY, MEMORY],
            compared: &[Metric::P99],
            charts: &["messages", "message-cpu", "p99"],
            ..Shown::default()
        },
        Drive::Send => Shown {
            sentence: "The lab sends messages to a running endpoint, at a rate set in advance, whatever \
                happens. The answer to a message is the message that comes back with its id. Latency \
                is from when a message was due to when its answer was read, a round trip from when it \
                was sent.",
            columns: vec![ROUND_TRIP, FROM_INTENDED, RECEIVED, MEMORY],
            compared: &[Metric::RoundTrip, Metric::P99],
            charts: &["p99", "round-trip", "messages"],
            has_throughput: false,
            ..Shown::default()
        },
        Drive::Ramp if part.has_objective() => Shown {
            sentence: "Clients arrive at a rate set in advance, while the lab publishes on a \
                schedule, until an event reaches a client later than the objective. Held are the clients \
                that were connected when it was due. Latency is that of the events.",
            columns: vec![HELD, CPU, LATENCY, MEMORY],
            compared: &[Metric::Held],
            charts: &["held", "cpu", "p99"],
            has_throughput: false,
            ..Shown::default()
        },
        Drive::Ramp => connecting(
            "Connections arrive at a rate set in advance, regardless of earlier ones, while \
             the subject sends to those that are open. Latency is from when a connection was due to \
             when its subscriptions were confirmed.",
        ),
        Drive::Churn => connecting(
            "One connection after the other leaves, on a schedule set in advance, and another takes \
             its place, while the subject sends to those that are open. Latency is from when a \
             connection was due to when its subscriptions were confirmed.",
        ),
        Drive::Stampede => connecting(
            "All connections are lost at once, reconnect and resume where they were. Latency is \
             from then to when the subscriptions of each were confirmed again.",
        ),
    }
}

/// Returns what is shown of drives that open connections.
fn connecting(sentence: &'static str) -> Shown {
    Shown {
        sentence,
        columns: vec![CONNECTING, CONNECTING_LATE, MEMORY],
        charts: &["set-up-p99", "set-up-cpu", "set-up"],
        has_throughput: false,
        ..Shown::default()
    }
}

impl Default for Shown {
    fn default() -> Shown {
        Shown {
            sentence: "",
            columns: Vec::new(),
            compared: CPU_AND_P99,
            charts: &[],
            has_throughput: true,
            note: None,
        }
    }
}
