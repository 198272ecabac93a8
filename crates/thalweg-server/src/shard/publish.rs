use std::rc::Rc;

use serde::Deserialize;
use thalweg_wire::{Epoch, ErrorCode, Offset, Topic};
use tokio::sync::{
    mpsc::{self, error::TrySendError},
    oneshot,
};

use super::{
    Handle, Mail, Peer, Shard, Timer, home_of,
    mail::Ack,
    placed::Placed,
    retries::{Known, Retry},
    room::Maker,
};
use crate::{clock::now_us, fanout::FeedKey, refusal::Refusal, stream::Payloads};

/// What of an event that acks another is looked at: the offset it acks, which a
/// source that waits for acks calls its events' `id`.
#[derive(Deserialize)]
struct AckEvent {
    id: Offset,
}

impl Handle {
    /// Appends events to a topic wherever its home is; says where they stand.
    pub(super) async fn publish(
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
                self.counts.retries_replayed += 1;
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
        self.hear_acks(key, payloads);
        let home = self.feeds.get_mut(key)?.home.as_mut()?;
        let appended = home.sequencer.append(payloads, now_us);
        let count = appended.end - appended.first;
        let placed = Placed { epoch: home.sequencer.epoch(), appended, count, replayed: false };
        self.counts.events_published += count;
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

    /// Takes events for acks, if those of their topic are.
    fn hear_acks(&mut self, key: FeedKey, payloads: &Payloads) {
        let home = self.feeds.get(key).and_then(|feed| feed.home.as_ref());
        let Some(topic) = home.and_then(|home| home.acks_of.clone()) else { return };
        for event in payloads.iter() {
            if let Ok(AckEvent { id }) = serde_json::from_slice(event) {
                self.hear_ack(&topic, None, id);
            }
        }
    }

    /// Tells the source of `topic`, if that waits for it, that everything up to
    /// `offset` has been processed.
    pub(super) fn hear_ack(&mut self, topic: &Topic, epoch: Option<Epoch>, offset: Offset) {
        self.counts.acks += 1;
        if !self.common.acked.contains(topic) {
            return;
        }
        if self.is_home_of(topic) {
            return self.ack_source(topic, epoch, offset);
        }
        // The last of them says it all.
        let mut unposted = self.unposted_acks.iter_mut();
        match unposted.find(|ack| ack.topic == *topic && ack.epoch == epoch) {
            Some(ack) => ack.offset = ack.offset.max(offset),
            None => self.unposted_acks.push(Ack { topic: topic.clone(), epoch, offset }),
        }
    }

    /// Posts the acks of other shards' topics.
    pub(super) fn post_acks(&mut self) {
        let mut unposted = std::mem::take(&mut self.unposted_acks);
        unposted.retain(|ack| {
            let home = home_of(&ack.topic, self.common.peers.len());
            match self.common.peers[home].publishes.try_send(Mail::Ack(ack.clone())) {
                Err(TrySendError::Full(_)) => true,
                // A shard that has drained needs no acks.
                Ok(()) | Err(TrySendError::Closed(_)) => false,
            }
        });
        self.unposted_acks = unposted;
        if !self.unposted_acks.is_empty() {
            self.try_again();
        }
    }

    pub(super) fn ack_source(&mut self, topic: &Topic, epoch: Option<Epoch>, offset: Offset) {
        let Some(key) = self.feeds.find(topic) else { return };
        let home = self.feeds.get(key).and_then(|feed| feed.home.as_ref());
        let own_epoch = home.map(|home| home.sequencer.epoch());
        if epoch.is_some() && epoch != own_epoch {
            return;
        }
        let Some(running) = self.sources.iter_mut().find(|running| running.feed == key) else {
            return;
        };
        let mut payloads = std::mem::take(&mut running.payloads);
        let now_us = now_us();
        running.scheduled.source.ack(offset, now_us, &mut payloads);
        if !payloads.is_empty() {
            self.append_to(key, &mut payloads, now_us);
        }
        if let Some(running) = self.sources.iter_mut().find(|running| running.feed == key) {
            running.payloads = payloads;
        }
    }
}
