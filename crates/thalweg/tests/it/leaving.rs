//! Unsubscribing: other subscribers miss no event, and the cost does not depend on their number.

use std::{fs, time::Instant};

use crate::harness::{Server, Subscriber, Transport};

const TOPICS: [&str; 3] = ["a", "b", "c"];

fn command(subscriber: &mut Subscriber, command: &str, topic: &str) {
    let answer =
        subscriber.command(&format!(r#"{{"command":"{command}","id":1,"topic":"{topic}"}}"#));
    assert_eq!(answer["answer"]["topic"], topic);
}

#[test]
fn remaining_subscribers_receive_everything() {
    let server = Server::start(&[]);
    let all = "?topic=a&topic=b&topic=c";
    let mut subscribers: Vec<_> =
        (0..12).map(|_| (server.subscribe(Transport::WebSocket, all), TOPICS.to_vec())).collect();
    for (subscriber, _) in &mut subscribers {
        TOPICS.iter().for_each(|_| _ = subscriber.confirmed());
    }
    // Knuth's linear congruential generator (MMIX): the same way each time.
    let mut state = 7_u64;
    let mut random = |below: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for number in 0..40 {
        let at = random(subscribers.len());
        let (subscriber, reads) = &mut subscribers[at];
        let topic = TOPICS[random(TOPICS.len())];
        match reads.iter().position(|read| *read == topic) {
            _ if random(8) == 0 && at > 0 => drop(subscribers.swap_remove(at)),
            Some(index) => {
                reads.remove(index);
                command(subscriber, "unsubscribe", topic);
            }
            None => {
                reads.push(topic);
                command(subscriber, "subscribe", topic);
                subscriber.confirmed();
            }
        }
        server.await_connections(subscribers.len());
        TOPICS.iter().for_each(|topic| _ = server.publish(topic, number..number + 1));
        for (subscriber, reads) in &mut subscribers {
            let mut received: Vec<String> =
                reads.iter().map(|_| subscriber.envelope().topic).collect();
            received.sort_unstable();
            reads.sort_unstable();
            assert_eq!(received, *reads);
        }
    }
}

/// The CPU time of the server so far, in ns.
fn cpu_ns(server: &Server) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{}/task", server.pid().as_raw_pid()));
    let of_task = |task: fs::DirEntry| -> Option<u64> {
        let schedstat = fs::read_to_string(task.path().join("schedstat")).ok()?;
        schedstat.split(' ').next()?.parse().ok()
    };
    tasks.expect("its threads").flatten().filter_map(of_task).sum()
}

/// A measurement, run alone: `cargo test -p thalweg --test it leaving:: -- --ignored --nocapture`. The newest
/// subscriber leaves first, the worst case of a linear search.
#[test]
#[ignore = "measures; needs 10,000 descriptors and the machine for itself"]
fn ten_thousand_leave_a_topic_in_linear_time() {
    let mut each_ns = Vec::new();
    for count in [2_500, 5_000, 10_000] {
        let server = Server::start(&[]);
        let mut subscribers: Vec<_> =
            (0..count).map(|_| server.subscribe(Transport::Sse, "/a")).collect();
        server.await_connections(count);
        let (begun, before_ns) = (Instant::now(), cpu_ns(&server));
        while let Some(last) = subscribers.pop() {
            drop(last);
        }
        server.await_connections(0);
        let (elapsed, spent_ns) = (begun.elapsed(), cpu_ns(&server) - before_ns);
        each_ns.push(spent_ns / count as u64);
        println!(
            "{count} subscribers left in {} ms; {} ms of the server's CPU, {} ns each",
            elapsed.as_millis(),
            spent_ns / 1_000_000,
            spent_ns / count as u64,
        );
    }
    // Four times as many subscribers take four times as long, or sixteen times with a linear search for each.
    assert!(each_ns[2] < 2 * each_ns[0], "{each_ns:?}");
}
