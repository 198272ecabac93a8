//! Publishing without subscribers: how fast the subject takes events. The subject's acknowledgements are
//! compared with what was sent.

use super::Workload;
use crate::measure::{Counts, Negotiated, Traffic, WarmUp};
use crate::scenario::Request;
use crate::subject::tls;
use crate::swarm::dialect;
use crate::swarm::dialer::Dialer;
use crate::swarm::event::{self, Stamp};
use crate::swarm::http_client::{self, HttpClient};
use crate::swarm::http_response::{self, HttpResponse};
use crate::swarm::negotiated;
use crate::swarm::progress::ProgressReporter;
use crate::swarm::publisher::Publisher;
use crate::swarm::publishing;
use crate::swarm::socket::{Poller, now_us};
use crate::swarm::{Figures, Load, Observer, Outcome, PROGRESS_EVERY_US};
use anyhow::{anyhow, bail};
use std::net::SocketAddr;
use std::time::Duration;

/// An NDJSON publisher keeps about this much ready for the kernel to take.
const CHUNK_BYTES: usize = 64 * 1024;
/// How long the subject may take to answer once a request has ended.
const ANSWER_WITHIN_US: u64 = 10_000_000;

pub(super) struct PublishWorkload<'a> {
    load: Load<'a>,
    observer: &'a mut dyn Observer,
    poller: Poller,
    progress: ProgressReporter,
    /// Negotiated values of the first connection that was answered.
    negotiated: Negotiated,
    taken: Taken,
    /// Before the span.
    before: Taken,
}

impl Workload for PublishWorkload<'_> {
    /// Does nothing: every span opens its own connections.
    fn connect(&mut self) -> anyhow::Result<u64> {
        Ok(0)
    }

    fn warm_up(&mut self) -> anyhow::Result<WarmUp> {
        self.run(self.load.warm_up)?;
        Ok(WarmUp::default())
    }

    fn begin(&mut self, _: u64) {
        self.before = std::mem::take(&mut self.taken);
    }

    fn run(&mut self, time: Duration) -> anyhow::Result<()> {
        let until_us = now_us() + time.as_micros() as u64;
        let taken = match self.load.settings.request {
            Request::Ndjson => self.stream(until_us)?,
            Request::Single => self.single(until_us)?,
        };
        self.taken.add(&taken);
        Ok(())
    }

    fn end(&mut self, _: u64) -> anyhow::Result<Outcome> {
        let Taken { events, sent_bytes, .. } = self.taken;
        Ok(Outcome {
            traffic: Traffic { events, wire_bytes: sent_bytes, ..Traffic::default() },
            negotiated: self.negotiated.clone(),
            ledger: self.before.counts().and(&self.taken.counts()),
            ..Outcome::default()
        })
    }

    fn pause(&mut self) -> anyhow::Result<()> {
        self.taken = Taken::default();
        Ok(())
    }

    fn collect(&mut self) -> anyhow::Result<Counts> {
        Ok(Counts::default())
    }

    fn poller(&mut self) -> &mut Poller {
        &mut self.poller
    }

    fn observer(&mut self) -> &mut dyn Observer {
        self.observer
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Taken {
    /// Acknowledged events.
    events: u64,
    /// Events that were sent and not acknowledged.
    missing: u64,
    /// Bytes of all requests.
    sent_bytes: u64,
}

impl Taken {
    /// Enters the answer to a request of this many events; fails if it acknowledges none, or more than were sent.
    fn enter(&mut self, answer: &HttpResponse, sent: u64) -> anyhow::Result<()> {
        let events = acknowledged(answer)?;
        let Some(missing) = sent.checked_sub(events) else {
            bail!("the subject acknowledged {events} events of a request that had {sent}");
        };
        self.events += events;
        self.missing += missing;
        Ok(())
    }

    fn add(&mut self, other: &Taken) {
        self.events += other.events;
        self.missing += other.missing;
        self.sent_bytes += other.sent_bytes;
    }

    fn counts(&self) -> Counts {
        Counts { delivered: self.events, missing: self.missing, ..Counts::default() }
    }
}

/// One long NDJSON request.
struct PostedStream {
    publisher: Publisher,
    sent: u64,
    answer: Vec<u8>,
    /// Negotiated values of the connection, before much was sent.
    facts: Option<Vec<(String, String)>>,
    negotiated: Option<Negotiated>,
}

impl<'a> PublishWorkload<'a> {
    pub(super) fn new(load: &Load<'a>, observer: &'a mut dyn Observer) -> anyhow::Result<Self> {
        Ok(PublishWorkload {
            load: load.clone(),
            observer,
            poller: Poller::new()?,
            progress: ProgressReporter::default(),
            negotiated: Negotiated::default(),
            taken: Taken::default(),
            before: Taken::default(),
        })
    }

    /// Sends long NDJSON requests as fast as the kernel takes them; the answer at their end has the count.
    fn stream(&mut self, until_us: u64) -> anyhow::Result<Taken> {
        let settings = self.load.settings;
        let target = self.publish_target()?;
        let open = |key| -> anyhow::Result<PostedStream> {
            let dialer = Dialer::to_subject(self.node_of(key), settings, tls::HTTP_1)?;
            let (chunk_events, key) = (settings.chunk_events, u64::from(key));
            let publisher = Publisher::ndjson(&dialer, &target, chunk_events, key, &self.poller)?;
            Ok(PostedStream {
                publisher,
                sent: 0,
                answer: Vec::new(),
                facts: None,
                negotiated: None,
            })
        };
        let mut streams = (0..settings.connections).map(open).collect::<Result<Vec<_>, _>>()?;
        let (mut taken, mut lines, mut seq) = (Taken::default(), Vec::new(), 0);
        let (mut has_ended, begun_us) = (false, now_us());
        while streams.iter().any(|stream| stream.negotiated.is_none()) {
            let now_us = now_us();
            if now_us > until_us + ANSWER_WITHIN_US {
                bail!("the subject did not answer a publish request within 10 s of its end");
            }
            let mut timeout_us = PROGRESS_EVERY_US;
            if now_us < until_us {
                for stream in
                    streams.iter_mut().filter(|stream| stream.publisher.pending_bytes() == 0)
                {
                    lines.clear();
                    stream.sent += fill(&mut lines, &mut seq, settings.event_bytes as usize);
                    taken.sent_bytes += lines.len() as u64;
                    stream.publisher.post(&lines, &self.poller)?;
                    timeout_us = 0;
                }
            } else if !has_ended {
                has_ended = true;
                for stream in &mut streams {
                    stream.publisher.finish(&self.poller)?;
                }
            }
            for index in 0..self.poller.wait(timeout_us)? {
                let ready = self.poller.ready(index);
                let stream = &mut streams[ready.key as usize];
                if ready.readable {
                    stream.hear(has_ended, &mut taken)?;
                }
                // After the read, which may end a TLS handshake: the socket had room all the time and will not report it again.
                stream.publisher.flush(&self.poller)?;
                if stream.facts.is_none() {
                    stream.facts = stream.publisher.facts();
                }
            }
            self.tell_progress(seq, begun_us)?;
        }
        self.know(streams.into_iter().next().and_then(|stream| stream.negotiated));
        Ok(taken)
    }

    /// Sends one event per request; each connection sends the next after the answer.
    fn single(&mut self, until_us: u64) -> anyhow::Result<Taken> {
        let settings = self.load.settings;
        let event_bytes = settings.event_bytes as usize;
        // A request's host need not be the node that gets it.
        let head = http_client::post(&self.publish_target()?, self.load.address, event_bytes);
        let (mut taken, mut seq, mut sent_bytes, begun_us) = (Taken::default(), 0, 0, now_us());
        let mut request = Vec::new();
        let mut publish = |client: &mut HttpClient, poller: &Poller| {
            seq += 1;
            request.clear();
            request.extend_from_slice(&head);
            let stamp = Stamp { seq, due_us: now_us() };
            event::write(&mut request, stamp, event_bytes);
            sent_bytes += request.len() as u64;
            client.send(&request, poller)
        };
        let mut clients = Vec::new();
        for key in 0..settings.connections {
            let dialer = Dialer::to_subject(self.node_of(key), settings, tls::HTTP_1)?;
            let mut client = HttpClient::open(&dialer, u64::from(key), &self.poller)?;
            publish(&mut client, &self.poller)?;
            clients.push(client);
        }
        while now_us() < until_us {
            for index in 0..self.poller.wait(PROGRESS_EVERY_US)? {
                let ready = self.poller.ready(index);
                let client = &mut clients[ready.key as usize];
                if ready.writable {
                    client.flush(&self.poller)?;
                }
                if !ready.readable {
                    continue;
                }
                if let Some(answer) = client.receive()? {
                    taken.enter(&answer, 1)?;
                    publish(client, &self.poller)?;
                }
            }
            self.tell_progress(taken.events, begun_us)?;
        }
        self.know(clients.first().map(HttpClient::negotiated));
        Ok(Taken { sent_bytes, ..taken })
    }

    /// Returns the node of a publisher: publishers are spread over the subject and the other nodes.
    fn node_of(&self, publisher: u32) -> SocketAddr {
        let nodes = &self.load.cluster.nodes;
        let turn = publisher as usize % (1 + nodes.len());
        turn.checked_sub(1).map_or(self.load.address, |index| nodes[index])
    }

    fn publish_target(&self) -> anyhow::Result<String> {
        match dialect::new(self.load.program, self.load.settings).publishing(0) {
            publishing::Publishing::Ndjson { target } => Ok(target),
            _ => bail!("this subject takes no NDJSON: leave it out of the `publish` drive"),
        }
    }

    /// Keeps the agreed values of the first connection.
    fn know(&mut self, negotiated: Option<Negotiated>) {
        if self.negotiated.facts.is_empty() {
            self.negotiated = negotiated.unwrap_or_default();
        }
    }

    fn tell_progress(&mut self, events: u64, begun_us: u64) -> anyhow::Result<()> {
        let connections = self.load.settings.connections as usize;
        self.progress.report(self.observer, |now_us| Figures {
            connections,
            events_per_s: events as f64 * 1e6 / (now_us - begun_us).max(1) as f64,
            events,
            ..Figures::default()
        })
    }
}

impl PostedStream {
    /// Reads available bytes of the answer, which may be complete only once the request `has_ended`.
    fn hear(&mut self, has_ended: bool, taken: &mut Taken) -> anyhow::Result<()> {
        self.answer.extend(self.publisher.answer()?);
        let Some(answer) = http_response::take(&self.answer)? else { return Ok(()) };
        if self.negotiated.is_some() {
            bail!("the subject answered a publish request twice");
        }
        taken.enter(&answer, self.sent)?;
        if !has_ended {
            bail!("the subject acknowledged a publish request before its end");
        }
        let (head, facts) = (&self.answer[..answer.head_length], self.facts.take());
        self.negotiated = Some(negotiated::joined(Some(head), facts.unwrap_or_default()));
        self.answer.drain(..answer.length);
        Ok(())
    }
}

/// Appends a chunk's worth of events, one per line; returns their number.
fn fill(lines: &mut Vec<u8>, seq: &mut u64, event_bytes: usize) -> u64 {
    let (due_us, before) = (now_us(), *seq);
    while lines.len() < CHUNK_BYTES {
        *seq += 1;
        event::write(lines, Stamp { seq: *seq, due_us }, event_bytes);
        lines.push(b'\n');
    }
    *seq - before
}

fn acknowledged(answer: &HttpResponse) -> anyhow::Result<u64> {
    let body = String::from_utf8_lossy(&answer.body);
    if answer.status != 200 {
        bail!("the subject refused an event: {body}");
    }
    let count = body.split("\"count\":").nth(1).and_then(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..end].parse().ok()
    });
    count.ok_or_else(|| anyhow!("an answer without a count: {body}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted() {
        let answer = |status, body: &str| HttpResponse {
            status,
            body: body.into(),
            ..HttpResponse::default()
        };
        assert_eq!(acknowledged(&answer(200, "{\"count\":42}")).unwrap(), 42);
        assert!(acknowledged(&answer(200, "{}")).is_err());
        assert!(acknowledged(&answer(400, "{\"count\":42}")).is_err());
    }

    #[test]
    fn acknowledged_events_are_compared_with_sent_ones() {
        let answer = |count| HttpResponse {
            status: 200,
            body: format!("{{\"count\":{count}}}").into(),
            ..HttpResponse::default()
        };
        let mut taken = Taken::default();
        taken.enter(&answer(42), 42).unwrap();
        assert_eq!((taken.events, taken.counts().to_string().as_str()), (42, "whole"));
        taken.enter(&answer(40), 42).unwrap();
        assert_eq!((taken.events, taken.counts().to_string().as_str()), (82, "2 missing"));
        let boast = taken.enter(&answer(43), 42).unwrap_err().to_string();
        assert_eq!(boast, "the subject acknowledged 43 events of a request that had 42");
    }
}
