//! Publishing for its own sake: how fast the subject takes events. Nobody
//! subscribes.

use super::answer::{self, Answer};
use super::asker::Asker;
use super::event::{self, Stamp};
use super::link::Dialer;
use super::progress::Progress;
use super::publisher::Publisher;
use super::socket::{Poller, now_us, thread_cpu_ns};
use super::{Figures, Moment, Observer, Outcome, PROGRESS_EVERY_US, Workload};
use crate::measure::Traffic;
use crate::scenario::Request;
use crate::subject::dialect;
use anyhow::{anyhow, bail};
use std::time::Duration;

/// An NDJSON publisher keeps about this much ready for the kernel to take.
const CHUNK_BYTES: usize = 64 * 1024;
/// How long the subject may take to answer once a request has ended.
const ANSWER_WITHIN_US: u64 = 10_000_000;

pub(super) fn run(workload: &Workload<'_>, observer: &mut dyn Observer) -> anyhow::Result<Outcome> {
    let (poller, progress) = (Poller::new()?, Progress::default());
    let mut posting = Posting { workload, observer, poller, progress };
    posting.observer.at(Moment::Open);
    posting.take(workload.warm_up)?;

    posting.observer.at(Moment::Warm);
    posting.observer.at(Moment::Begin);
    let (begun_us, cpu_ns) = (now_us(), thread_cpu_ns());
    let (events, wire_bytes) = posting.take(workload.measured)?;
    let span_us = now_us() - begun_us;
    let swarm_cpu_ns = thread_cpu_ns() - cpu_ns;
    posting.observer.at(Moment::End);
    posting.observer.at(Moment::Over { stopped_ports: &[] });
    Ok(Outcome {
        traffic: Traffic { events, wire_bytes, ..Traffic::default() },
        span_us,
        swarm_cpu_ns,
        ..Outcome::default()
    })
}

struct Posting<'a> {
    workload: &'a Workload<'a>,
    observer: &'a mut dyn Observer,
    poller: Poller,
    progress: Progress,
}

impl Posting<'_> {
    /// Publishes for so long on fresh connections; returns the events that
    /// were acknowledged and the bytes sent.
    fn take(&mut self, time: Duration) -> anyhow::Result<(u64, u64)> {
        let until_us = now_us() + time.as_micros() as u64;
        match self.workload.settings.request {
            Request::Ndjson => self.stream(until_us),
            Request::Single => self.single(until_us),
        }
    }

    /// Long NDJSON requests: written as fast as the kernel takes them, counted
    /// by the answer at their end.
    fn stream(&mut self, until_us: u64) -> anyhow::Result<(u64, u64)> {
        let Workload { address, settings, .. } = *self.workload;
        let dialer = Dialer::new(address, settings, dialect::HTTP_1)?;
        let mut publishers: Vec<Publisher> = (0..settings.connections)
            .map(|key| Publisher::open(&dialer, 0, u64::from(key), &self.poller))
            .collect::<Result<_, _>>()?;
        let mut answers = vec![Vec::new(); publishers.len()];
        let mut taken = vec![None; publishers.len()];
        let (mut lines, mut seq, mut sent_bytes) = (Vec::new(), 0, 0);
        let (mut has_ended, begun_us) = (false, now_us());
        while taken.iter().any(Option::is_none) {
            let now_us = now_us();
            if now_us > until_us + ANSWER_WITHIN_US {
                bail!("the subject did not answer a publish request within 10 s of its end");
            }
            let mut timeout_us = PROGRESS_EVERY_US;
            for publisher in publishers.iter_mut().filter(|it| it.pending_bytes() == 0) {
                if now_us < until_us {
                    lines.clear();
                    fill(&mut lines, &mut seq, settings.event_bytes as usize);
                    sent_bytes += lines.len() as u64;
                    publisher.post(&lines, &self.poller)?;
                    timeout_us = 0;
                }
            }
            if !has_ended && now_us >= until_us {
                has_ended = true;
                for publisher in &mut publishers {
                    publisher.finish(&self.poller)?;
                }
            }
            for index in 0..self.poller.wait(timeout_us)? {
                let ready = self.poller.ready(index);
                let index = ready.key as usize;
                if ready.readable {
                    answers[index].extend(publishers[index].answer()?);
                    let answer = answer::take(&answers[index])?;
                    taken[index] = answer.as_ref().map(acknowledged).transpose()?;
                }
                // Behind the read: with it a TLS handshake may have ended, and then
                // the socket had room all the time and will not say so again.
                publishers[index].flush(&self.poller)?;
            }
            self.tell_progress(seq, begun_us)?;
        }
        Ok((taken.into_iter().flatten().sum(), sent_bytes))
    }

    /// One event per request; each connection sends the next when it has the
    /// answer.
    fn single(&mut self, until_us: u64) -> anyhow::Result<(u64, u64)> {
        let Workload { address, settings, .. } = *self.workload;
        let dialer = Dialer::new(address, settings, dialect::HTTP_1)?;
        let head = dialect::single_request(address, settings.event_bytes);
        let (mut seq, mut answered, mut sent_bytes, begun_us) = (0, 0, 0, now_us());
        let mut request = Vec::new();
        let mut publish = |asker: &mut Asker, poller: &Poller| {
            seq += 1;
            request.clear();
            request.extend_from_slice(&head);
            let stamp = Stamp { seq, due_us: now_us() };
            event::write(&mut request, stamp, settings.event_bytes as usize);
            sent_bytes += request.len() as u64;
            asker.ask(&request, poller)
        };
        let mut askers = Vec::new();
        for key in 0..settings.connections {
            let mut asker = Asker::open(&dialer, u64::from(key), &self.poller)?;
            publish(&mut asker, &self.poller)?;
            askers.push(asker);
        }
        while now_us() < until_us {
            for index in 0..self.poller.wait(PROGRESS_EVERY_US)? {
                let ready = self.poller.ready(index);
                let asker = &mut askers[ready.key as usize];
                if ready.writable {
                    asker.flush(&self.poller)?;
                }
                if !ready.readable {
                    continue;
                }
                if let Some(answer) = asker.hear()? {
                    acknowledged(&answer)?;
                    answered += 1;
                    publish(asker, &self.poller)?;
                }
            }
            self.tell_progress(answered, begun_us)?;
        }
        Ok((answered, sent_bytes))
    }

    fn tell_progress(&mut self, events: u64, begun_us: u64) -> anyhow::Result<()> {
        let connections = self.workload.settings.connections as usize;
        self.progress.tell(self.observer, |now_us| Figures {
            connections,
            events_per_s: events as f64 * 1e6 / (now_us - begun_us).max(1) as f64,
            events,
            ..Figures::default()
        })
    }
}

/// A chunk's worth of events, one a line.
fn fill(lines: &mut Vec<u8>, seq: &mut u64, event_bytes: usize) {
    let due_us = now_us();
    while lines.len() < CHUNK_BYTES {
        *seq += 1;
        event::write(lines, Stamp { seq: *seq, due_us }, event_bytes);
        lines.push(b'\n');
    }
}

/// The number of events that an answer acknowledges.
fn acknowledged(answer: &Answer) -> anyhow::Result<u64> {
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
        let answer = |status, body: &str| Answer { status, body: body.into(), length: 0 };
        assert_eq!(acknowledged(&answer(200, "{\"count\":42}")).unwrap(), 42);
        assert!(acknowledged(&answer(200, "{}")).is_err());
        assert!(acknowledged(&answer(400, "{\"count\":42}")).is_err());
    }
}
