use std::rc::Rc;

use thalweg_wire::{ErrorCode, Position, Topic};
use tokio::sync::{mpsc, oneshot};

use super::{
    Handle, Mail, Peer, Shard, Timer, home_of,
    placed::Placed,
    retries::{Known, Retry},
    room::Maker,
};
use crate::{clock::now_us, fanout::FeedKey, refusal::Refusal, stream::Payloads};

impl Handle {
    /// Appends events to a topic wherever its home is; says where they stand.
    pub(crate) async fn publish(
        self: &Rc<Self>,
        topic: &Topic,
        payloads: &mut Payloads,
        retry: Option<Retry>,
    ) -> Result<Placed, Refusal> {
        let home = home_of(topic, self.common.peers.len());
        if home == self.id {
            let placed = self.step(|shard| shard.append(topic, payloads, retry));
            return placed;
        }
        let payloads = std::mem::take(payloads);
        let (home, letter, placed) = append_letter(&self.common.peers, topic, payloads, retry);
        home.send(letter).await.map_err(|_| Refusal::draining())?;
        placed.await.map_err(|_| Refusal::draining())?
    }
}

impl Handle {
    /// Tells the sources of `topic`, if they wait for it, how far its client has come.
    pub(crate) fn hear_ack(&self, topic: &Topic, position: Position) {
        self.step(|shard| shard.hear_ack(topic, position));
    }
}

/// Events for a topic as a letter; where it goes, and where its answer comes.
pub(super) fn append_letter<'a>(
    peers: &'a [Peer],
    topic: &Topic,
    payloads: Payloads,
    retry: Option<Retry>,
) -> (&'a mpsc::Sender<Mail>, Mail, oneshot::Receiver<Result<Placed, Refusal>>) {
    let (answer, placed) = oneshot::channel();
    let letter = Mail::Append { topic: topic.clone(), payloads, retry, answer };
    (&peers[home_of(topic, peers.len())].publishes, letter, placed)
}

impl Shard {
    /// Appends events to a topic whose home this is, unless they are there already.
    pub(super) fn append(
        &mut self,
        topic: &Topic,
        payloads: &mut Payloads,
        retry: Option<Retry>,
    ) -> Result<Placed, Refusal> {
        match retry.map(|retry| self.retries.look(retry)) {
            None | Some(Known::New) => {}
            Some(Known::Done(placed)) => {
                self.counts.retries_replayed.add(1);
                return Ok(Placed { replayed: true, ..placed });
            }
            Some(Known::Other) => {
                return Err(Refusal::new(
                    ErrorCode::KeyReused,
                    "this idempotency key came with another body: use a new key for each event",
                ));
            }
        }
        let key = self.feeds.open(topic, true, Maker::Publisher)?;
        let now_us = now_us();
        let placed = self.append_to(key, payloads, now_us).ok_or_else(Refusal::draining)?;
        if let Some(retry) = retry {
            self.retries.remember(retry, placed, now_us, &self.common.config.limits);
        }
        Ok(placed)
    }

    pub(super) fn append_to(
        &mut self,
        key: FeedKey,
        payloads: &mut Payloads,
        now_us: u64,
    ) -> Option<Placed> {
        let home = self.feeds.get_mut(key)?.home.as_mut()?;
        let appended = home.sequencer.append(payloads, now_us);
        let count = appended.end - appended.first;
        let placed = Placed { epoch: home.sequencer.epoch(), appended, count, replayed: false };
        self.counts.events_published.add(count);
        if let Some(due_us) = home.sequencer.due_us() {
            let is_due = due_us <= now_us;
            let mark = if is_due { &mut home.is_due } else { &mut home.is_timed };
            match std::mem::replace(mark, true) {
                true => {}
                false if is_due => self.due.push(key),
                false => self.set_timer(due_us, Timer::Flush(key)),
            }
        }
        Some(placed)
    }
}
