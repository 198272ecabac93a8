//! The cost of presence, beside the same subscribers without presence. Both take turns.

use std::{
    collections::VecDeque,
    net::TcpStream,
    thread,
    time::{Duration, Instant},
};

use anyhow::ensure;
use serde_json::json;

use crate::server::{Server, allow_sockets};

/// Topics of each connection of [`hold`].
const TOPICS: usize = 10;

/// How long members of [`come_and_go`] stay.
const STAY: Duration = Duration::from_secs(5);

/// How long they come before the measurement, and in it.
const SPANS: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(15)];

/// Readers of the list of members.
const READERS: usize = 10;

fn serve(presence: &str) -> anyhow::Result<Server> {
    let grace = if presence == "none" { "" } else { ",presence-grace=1s" };
    let topics = format!("rooms/**,presence={presence}{grace}");
    Server::start(&["--topic", topics.as_str()])
}

/// Measures connections that each are a member of ten topics.
pub(crate) fn hold(starts: usize, connections: usize) -> anyhow::Result<()> {
    allow_sockets(connections)?;
    let topics: Vec<_> = (0..TOPICS).map(|number| format!("topic=rooms/{number}")).collect();
    let target = format!("?{}", topics.join("&"));
    let members = (connections * TOPICS) as f64;
    for start in 0..starts {
        for presence in ["none", "connections"] {
            let server = serve(presence)?;
            let before = (server.cpu_s()?, server.resident()?);
            let mut held = Vec::new();
            for _ in 0..connections {
                let mut subscriber = server.subscribe(&target)?;
                subscriber.envelope()?;
                held.push(subscriber.into_socket());
            }
            let cpu_s = server.cpu_s()? - before.0;
            let listed = server.metric("thalweg_members")?;
            ensure!(
                presence == "none" || listed == members,
                "{listed} of {members} members are listed"
            );
            let bytes = server.resident()? - before.1;
            // Reads the lists, which have all members.
            let begun = (server.cpu_s()?, Instant::now());
            if presence != "none" {
                for number in 0..TOPICS {
                    server
                        .subscribe(&format!("/presence/rooms/{number}"))?
                        .read_to(connections as u64)?;
                }
            }
            println!(
                "{}",
                json!({ "presence": presence, "start": start, "connections": connections, "members": members,
                    "cpu_us_per_subscription": cpu_s * 1e6 / members,
                    "resident_bytes_per_subscription": bytes / members,
                    "lists_cpu_s": server.cpu_s()? - begun.0,
                    "lists_s": begun.1.elapsed().as_secs_f64() })
            );
        }
    }
    Ok(())
}

/// Measures members that come at a rate, and leave after five seconds, while ten readers read the list.
pub(crate) fn come_and_go(starts: usize, rate: usize) -> anyhow::Result<()> {
    ensure!(rate > 0, "the rate is at least 1");
    allow_sockets(rate * STAY.as_secs() as usize * 2)?;
    for start in 0..starts {
        for presence in ["none", "connections"] {
            let server = serve(presence)?;
            for _ in 0..READERS {
                let mut reader = server.subscribe("/presence/rooms/hall?interval=200ms")?;
                // Ends with the server.
                thread::spawn(move || while reader.envelope().is_ok() {});
            }
            let mut visitors = Visitors {
                server: &server,
                every: Duration::from_secs(1) / rate as u32,
                present: VecDeque::new(),
            };
            visitors.come(SPANS[0])?;
            let (cpu_s, begun) = (server.cpu_s()?, Instant::now());
            let (joins, late) = visitors.come(SPANS[1])?;
            let cpu_s = server.cpu_s()? - cpu_s;
            println!(
                "{}",
                json!({ "presence": presence, "start": start, "joins": joins,
                    "joins_per_s": f64::from(joins) / begun.elapsed().as_secs_f64(),
                    "cpu_us_per_join": cpu_s * 1e6 / f64::from(joins),
                    "latest_ms": late.as_secs_f64() * 1e3 })
            );
        }
    }
    Ok(())
}

/// Subscribers that come and go.
struct Visitors<'a> {
    server: &'a Server,
    every: Duration,
    present: VecDeque<(Instant, TcpStream)>,
}

impl Visitors<'_> {
    /// Lets visitors come for a time. Returns their number, and the longest time by which one was late.
    fn come(&mut self, time: Duration) -> anyhow::Result<(u32, Duration)> {
        let begun = Instant::now();
        let (mut number, mut latest) = (0, Duration::ZERO);
        while self.every * number < time {
            let due = begun + self.every * number;
            thread::sleep(due.saturating_duration_since(Instant::now()));
            latest = latest.max(due.elapsed());
            while self.present.front().is_some_and(|(came, _)| came.elapsed() >= STAY) {
                self.present.pop_front();
            }
            self.present
                .push_back((Instant::now(), self.server.subscribe("/rooms/hall")?.into_socket()));
            number += 1;
        }
        Ok((number, latest))
    }
}
