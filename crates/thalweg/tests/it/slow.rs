//! A subscriber that stops reading: the memory of the server stays bounded, other subscribers are not
//! delayed, and the policy announces missing events.

use crate::harness::{Received, Server, Subscriber, Transport, at, close, offset, wait_for};

/// Events of 1 kB each: far more than history and kernel hold.
const EVENTS: u64 = 5_000;
const EVENTS_PER_POST: u64 = 100;

const ARGUMENTS: &[&str] = &["--topic", "**,history-bytes=256KiB"];

/// Returns a subscriber that has received its confirmation, and then missed most of the published events.
fn fallen_behind(server: &Server, transport: Transport, policy: &str) -> Subscriber {
    let topic = format!("{policy}/{transport:?}");
    let target = format!("/{topic}?policy={policy}");
    let mut slow = server.subscribe(transport, &target);
    slow.confirmed();
    let mut reader = server.subscribe(transport, &format!("/{topic}"));
    reader.confirmed();
    let line = format!("\"{}\"\n", "x".repeat(1000));
    for post in 1..=EVENTS / EVENTS_PER_POST {
        let body = line.repeat(EVENTS_PER_POST as usize);
        server.post(&topic, "application/x-ndjson", body).published();
        // Another subscriber receives all events.
        while offset(&reader.envelope().position) < post * EVENTS_PER_POST {}
    }
    slow
}

/// Reads up to event `head`. Returns the gaps on the way. Missed and received events are together complete.
fn gaps_up_to(slow: &mut Subscriber, head: u64) -> Vec<u64> {
    let mut seen = 0;
    let mut gaps = Vec::new();
    while seen < head {
        gaps.extend(step(slow, &mut seen));
    }
    gaps
}

/// Receives one message, which must continue after event `seen`. Returns the gap, if it is one.
fn step(slow: &mut Subscriber, seen: &mut u64) -> Option<u64> {
    match slow.next() {
        Received::Envelope(envelope) => {
            assert_eq!(envelope.first, *seen + 1);
            *seen = offset(&envelope.position);
            None
        }
        Received::Gap(gap) => {
            let missed = gap.missed.expect("a gap of known size");
            // A poll, or a reloaded document, is a new subscription.
            assert!(matches!(gap.reason.as_str(), "slow" | "trimmed"), "{gap:?}");
            assert_eq!(offset(&gap.position), *seen + missed);
            *seen += missed;
            Some(missed)
        }
        other => panic!("{other:?} after {seen} events"),
    }
}

#[test]
fn skip_announces_a_gap_and_goes_on_in_the_middle_of_the_history() {
    let server = Server::start(ARGUMENTS);
    for transport in Transport::ALL {
        let mut slow = fallen_behind(&server, transport, "skip");
        let gaps = gaps_up_to(&mut slow, EVENTS);
        assert!(gaps.iter().sum::<u64>() > EVENTS / 2, "{gaps:?}");
    }
}

#[test]
fn latest_announces_a_gap_and_goes_on_with_the_newest_batch() {
    let server = Server::start(ARGUMENTS);
    for transport in Transport::ALL {
        let mut slow = fallen_behind(&server, transport, "latest");
        let mut seen = 0;
        let gap = loop {
            match slow.next() {
                Received::Envelope(envelope) => seen = offset(&envelope.position),
                Received::Gap(gap) => {
                    let is_new = matches!(transport, Transport::LongPolling);
                    assert_eq!(gap.reason, if is_new { "trimmed" } else { "slow" });
                    break gap;
                }
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(gap.missed, Some(offset(&gap.position) - seen));
        let envelope = slow.envelope();
        assert_eq!(envelope.first, offset(&gap.position) + 1);
        assert_eq!(offset(&envelope.position), EVENTS, "the newest batch ends at the head");
    }
}

#[test]
fn a_subscriber_whose_policy_is_close_is_told_the_end_and_nothing_after_it() {
    let server = Server::start(ARGUMENTS);
    for transport in Transport::ALL {
        let mut slow = fallen_behind(&server, transport, "close");
        let (mut seen, mut place) = (0, None);
        let end = loop {
            match slow.next() {
                Received::Envelope(envelope) => {
                    assert_eq!(envelope.first, seen + 1);
                    seen = offset(&envelope.position);
                    place = Some(envelope.position);
                }
                other => break other,
            }
        };
        let Received::TopicEnd(_, position, code) = end else { panic!("{transport:?}: {end:?}") };
        // A poll, or a reloaded document, is a new subscription.
        assert!(matches!(code.as_str(), "slow" | "trimmed"), "{transport:?}: {code}");
        assert_eq!(position, place.map_or_else(|| at(&position, 0), |place| at(&place, seen)));
        assert!(seen < EVENTS / 2, "{seen}");
        if transport != Transport::WebSocket {
            assert_eq!(slow.next(), close(transport, 4500, "ended", false));
        }
        wait_for("the end to be counted as a gap", || {
            let of = |reason| server.count(&format!("thalweg_gaps_{reason}_total"));
            (of("slow") + of("trimmed") > 0).then_some(())
        });
    }
}

#[test]
fn a_gap_names_the_position_to_resume_from() {
    let server = Server::start(ARGUMENTS);
    let mut slow = fallen_behind(&server, Transport::HttpStreaming, "skip");
    let gap = loop {
        if let Received::Gap(gap) = slow.next() {
            break gap;
        }
    };
    for transport in Transport::ALL {
        let target = format!("/skip/HttpStreaming?cursor={}", gap.position);
        let mut resumed = server.subscribe(transport, &target);
        assert_eq!(resumed.confirmed(), gap.position);
        assert_eq!(resumed.envelope().first, offset(&gap.position) + 1);
    }
}

#[test]
fn a_subscriber_slower_than_the_publisher_but_within_the_history_misses_nothing() {
    let server = Server::start(&["--topic", "**,history-bytes=64MiB"]);
    for transport in Transport::ALL {
        let mut slow = fallen_behind(&server, transport, "skip");
        assert_eq!(gaps_up_to(&mut slow, EVENTS), Vec::<u64>::new());
    }
}

/// A frame may begin in the hot tail, in the history, or in a batch that only this frame still pins. It is always completed.
#[test]
fn a_subscriber_that_reads_now_and_then_hears_whole_frames() {
    const EVENTS_PER_POST: u64 = 3;
    let server = Server::start(&["--topic", "**,history-bytes=64KiB"]);
    let line = format!("\"{}\"\n", "x".repeat(10_000));
    for transport in Transport::ALL {
        let topic = format!("now-and-then/{transport:?}");
        let mut slow = server.subscribe(transport, &format!("/{topic}"));
        slow.confirmed();
        let (mut head, mut seen) = (0, 0);
        let mut gaps = Vec::new();
        for round in 0..200 {
            let body = line.repeat(EVENTS_PER_POST as usize);
            server.post(&topic, "application/x-ndjson", body).published();
            head += EVENTS_PER_POST;
            // At first the subscriber only falls behind; then it reads more and more.
            if round % 7 < round / 30 && seen < head {
                gaps.extend(step(&mut slow, &mut seen));
            }
        }
        while seen < head {
            gaps.extend(step(&mut slow, &mut seen));
        }
        assert!(!gaps.is_empty(), "it was slow enough over {transport:?}");
    }
}
