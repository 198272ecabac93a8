use std::rc::Rc;

use thalweg_wire::{ErrorCode, Topic};
use tokio::sync::{
    mpsc::{self, error::TrySendError},
    oneshot,
};

use super::{
    Handle, Mail, Shard, Timer, home_of,
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
        let appending = self.shard.borrow_mut().publish(topic, payloads, retry);
        if let Appending::Done(_) = appending {
            self.wake.notify_one();
        }
        appending.placed().await
    }
}

/// Events on their way to their topic's home. A home on this shard has appended them at once;
/// others complete it later.
pub(super) enum Appending {
    Done(Result<Placed, Refusal>),
    /// The home has them, and will answer.
    Posted(oneshot::Receiver<Result<Placed, Refusal>>),
    /// The home takes no more at present: they wait here.
    Waiting(mpsc::Sender<Mail>, Mail, oneshot::Receiver<Result<Placed, Refusal>>),
}

impl Appending {
    /// Where they stand.
    ///
    /// # Errors
    /// When the home refuses them, or has ended.
    pub(super) async fn placed(self) -> Result<Placed, Refusal> {
        let placed = match self {
            Self::Done(placed) => return placed,
            Self::Posted(placed) => placed,
            Self::Waiting(home, letter, placed) => {
                home.send(letter).await.map_err(|_| Refusal::draining())?;
                placed
            }
        };
        placed.await.map_err(|_| Refusal::draining())?
    }
}

impl Shard {
    /// Gives events to their topic's home: the one way in, for requests and commands.
    pub(super) fn publish(
        &mut self,
        topic: &Topic,
        payloads: &mut Payloads,
        retry: Option<Retry>,
    ) -> Appending {
        let home = home_of(topic, self.common.peers.len());
        if home == self.id {
            return Appending::Done(self.append(topic, payloads, retry));
        }
        let (answer, placed) = oneshot::channel();
        let (topic, payloads) = (topic.clone(), std::mem::take(payloads));
        let letter = Mail::Append { topic, payloads, retry, answer };
        let home = &self.common.peers[home].publishes;
        match home.try_send(letter) {
            Err(TrySendError::Full(letter)) => Appending::Waiting(home.clone(), letter, placed),
            // One that has drained answers nothing.
            Ok(()) | Err(TrySendError::Closed(_)) => Appending::Posted(placed),
        }
    }

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
