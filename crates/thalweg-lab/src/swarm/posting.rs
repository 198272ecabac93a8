//! Publishing for its own sake: how fast the subject takes events. Nobody
//! subscribes.

use super::answer;
use super::event::{self, Stamp};
use super::link::Dialer;
use super::publisher::Publisher;
use super::socket::{Interest, Poller, dial, now_us, read, thread_cpu_ns, write};
use super::{Figures, Interrupted, Moment, Observer, Outcome, PROGRESS_EVERY_US, Workload};
use crate::measure::Traffic;
use crate::scenario::Request;
use crate::subject::dialect;
use anyhow::{anyhow, bail};
use rustix::fd::OwnedFd;
use std::ops::ControlFlow;
use std::time::Duration;

/// An NDJSON publisher keeps about this much ready for the kernel to take.
const CHUNK_BYTES: usize = 64 * 1024;
/// How long the subject may take to answer once a request has ended.
const ANSWER_WITHIN_US: u64 = 10_000_000;

pub(super) fn run(workload: &Workload<'_>, observer: &mut dyn Observer) -> anyhow::Result<Outcome> {
    let mut posting = Posting { workload, observer, poller: Poller::new()?, told_us: 0 };
    posting.observer.at(Moment::Open);
    posting.take(workload.warm_up)?;

    posting.observer.at(Moment::Begin);
    let (begun_us, cpu_ns) = (now_us(), thread_cpu_ns());
    let (events, wire_bytes) = posting.take(workload.measured)?;
    let span_us = now_us() - begun_us;
    let swarm_cpu_ns = thread_cpu_ns() - cpu_ns;
    posting.observer.at(Moment::End { stopped_ports: &[] });
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
    told_us: u64,
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
                publishers[index].flush(&self.poller)?;
                if ready.readable {
                    answers[index].extend(publishers[index].answer()?);
                    taken[index] = acknowledged(&answers[index])?.map(|(count, _)| count);
                }
            }
            self.tell_progress(seq, begun_us)?;
        }
        Ok((taken.into_iter().flatten().sum(), sent_bytes))
    }

    /// One event per request; each connection sends the next when it has the
    /// answer.
    fn single(&mut self, until_us: u64) -> anyhow::Result<(u64, u64)> {
        let Workload { address, settings, .. } = *self.workload;
        let head = dialect::single_request(address, settings.event_bytes);
        let mut sockets: Vec<(OwnedFd, Vec<u8>)> = Vec::new();
        for key in 0..settings.connections {
            let socket = dial(address, key as usize, 0)?;
            self.poller.add(&socket, u64::from(key), Interest::ReadAndWrite)?;
            sockets.push((socket, Vec::new()));
        }
        let (mut seq, mut answered, mut sent_bytes, begun_us) = (0, 0, 0, now_us());
        let mut request = Vec::new();
        let mut has_asked = vec![false; sockets.len()];
        while now_us() < until_us {
            for index in 0..self.poller.wait(PROGRESS_EVERY_US)? {
                let ready = self.poller.ready(index);
                let index = ready.key as usize;
                let (socket, answer) = &mut sockets[index];
                if !has_asked[index] {
                    has_asked[index] = true;
                    self.poller.change(&*socket, ready.key, Interest::Read)?;
                } else if receive_answer(socket, answer)? {
                    answered += 1;
                } else {
                    continue;
                }
                seq += 1;
                request.clear();
                request.extend_from_slice(&head);
                let stamp = Stamp { seq, due_us: now_us() };
                event::write(&mut request, stamp, settings.event_bytes as usize);
                sent_bytes += request.len() as u64;
                if write(socket, &request)? != Some(request.len()) {
                    bail!("the kernel took only part of a request of {} bytes", request.len());
                }
            }
            self.tell_progress(answered, begun_us)?;
        }
        Ok((answered, sent_bytes))
    }

    fn tell_progress(&mut self, events: u64, begun_us: u64) -> anyhow::Result<()> {
        let now_us = now_us();
        if now_us - self.told_us < PROGRESS_EVERY_US {
            return Ok(());
        }
        self.told_us = now_us;
        let figures = Figures {
            connections: self.workload.settings.connections as usize,
            events_per_s: events as f64 * 1e6 / (now_us - begun_us).max(1) as f64,
            ..Figures::default()
        };
        match self.observer.progress(figures) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Interrupted.into()),
        }
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

/// Reads; whether the answer is complete, which empties it.
fn receive_answer(socket: &OwnedFd, answer: &mut Vec<u8>) -> anyhow::Result<bool> {
    let mut bytes = [0; 4096];
    match read(socket, &mut bytes)? {
        Some(0) => bail!("the subject ended a publish connection"),
        Some(length) => answer.extend_from_slice(&bytes[..length]),
        None => return Ok(false),
    }
    let Some((_, used)) = acknowledged(answer)? else {
        return Ok(false);
    };
    answer.drain(..used);
    Ok(true)
}

/// The number of events an answer acknowledges, and its length; `None` while
/// it is incomplete.
fn acknowledged(answer: &[u8]) -> anyhow::Result<Option<(u64, usize)>> {
    let Some(answer) = answer::take(answer)? else {
        return Ok(None);
    };
    let body = String::from_utf8_lossy(&answer.body);
    if answer.status != 200 {
        bail!("the subject refused an event: {body}");
    }
    let count = body.split("\"count\":").nth(1).and_then(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..end].parse().ok()
    });
    let count = count.ok_or_else(|| anyhow!("an answer without a count: {body}"))?;
    Ok(Some((count, answer.length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_when_they_are_complete() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n{\"count\":42}more";
        assert_eq!(acknowledged(answer).unwrap(), Some((42, answer.len() - 4)));
        for cut in [0, 20, 40, answer.len() - 5] {
            assert_eq!(acknowledged(&answer[..cut]).unwrap(), None);
        }
        let refusal = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\n{}";
        assert!(acknowledged(refusal).is_err());
    }
}
