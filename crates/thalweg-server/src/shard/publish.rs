use std::rc::Rc;

use serde_json::value::RawValue;
use thalweg_wire::{
    ErrorCode, Topic,
    answer::refusal,
    command::{Asked, Command},
    event,
    websocket::text_header,
};
use tokio::{sync::oneshot, task::spawn_local};

use super::{
    Handle, Mail, Shard, Timer, home_of,
    mail::{Placed, TooManyTopics},
};
use crate::{clock::now_us, fanout::FeedKey, refusal::Refusal, stream::Payloads, transport::Heard};

/// A publish command, read; its topic's home may be elsewhere.
struct Wanted {
    id: Option<Box<RawValue>>,
    topic: Topic,
    payloads: Payloads,
}

impl Handle {
    /// Appends events to a topic wherever its home is; says where they stand.
    pub(super) async fn publish(
        &self,
        topic: &Topic,
        payloads: &mut Payloads,
    ) -> Result<Placed, Refusal> {
        let home = home_of(topic, self.common.peers.len());
        if home == self.id {
            let placed = self.step(|shard| shard.append(topic, payloads));
            payloads.clear();
            return placed.map_err(Refusal::from);
        }
        let (answer, placed) = oneshot::channel();
        let payloads = std::mem::take(payloads);
        let letter = Mail::Append { topic: topic.clone(), payloads, answer };
        let publishes = &self.common.peers[home].publishes;
        publishes.send(letter).await.map_err(|_| Refusal::draining())?;
        Ok(placed.await.map_err(|_| Refusal::draining())??)
    }
}

impl Shard {
    /// Appends events to a topic whose home this is.
    pub(super) fn append(
        &mut self,
        topic: &Topic,
        payloads: &Payloads,
    ) -> Result<Placed, TooManyTopics> {
        let key = self.feeds.open(topic, true)?;
        self.append_to(key, payloads).ok_or(TooManyTopics)
    }

    pub(super) fn append_to(&mut self, key: FeedKey, payloads: &Payloads) -> Option<Placed> {
        let home = self.feeds.get_mut(key)?.home.as_mut()?;
        let now_us = now_us();
        let appended = home.sequencer.append(payloads, now_us);
        let count = appended.end - appended.first;
        let placed = Placed { epoch: home.sequencer.epoch(), appended, count };
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

    /// Hears a connection: reads it once, or takes in what was read before.
    pub(super) fn hear(
        &mut self,
        handle: &Rc<Handle>,
        key: u32,
        read_before: Option<&[u8]>,
    ) -> Heard {
        let Some(connection) = self.connections.get_mut(key as usize) else { return Heard::Gone };
        let mut wanted = Vec::new();
        let mut on_text = |text: &str, own: &mut Vec<u8>| match read_command(text) {
            Ok(want) => wanted.push(want),
            Err(refusal) => {
                text_header(refusal.len(), own);
                own.extend_from_slice(&refusal);
            }
        };
        let mut buffer = std::mem::take(&mut self.read_buffer);
        let heard = match read_before {
            Some(bytes) => {
                connection.hear(bytes, &mut on_text);
                Heard::Nothing
            }
            None => connection.read(&mut buffer, &mut on_text),
        };
        self.read_buffer = buffer;
        if connection.subscriber.own_bytes() > 0 {
            self.mark_dirty(key);
        }
        for want in wanted {
            self.publish_command(handle, key, want);
        }
        heard
    }

    fn publish_command(&mut self, handle: &Rc<Handle>, key: u32, mut want: Wanted) {
        if self.is_home_of(&want.topic) {
            let placed = self.append(&want.topic, &want.payloads).map_err(Refusal::from);
            self.answer(key, &want.to_answer(placed));
            return;
        }
        let Some(connection) = self.connections.get_mut(key as usize) else { return };
        connection.unanswered += 1;
        let serial = connection.serial;
        let handle = Rc::clone(handle);
        spawn_local(async move {
            let mut payloads = std::mem::take(&mut want.payloads);
            let placed = handle.publish(&want.topic, &mut payloads).await;
            let json = want.to_answer(placed);
            handle.step(|shard| shard.answer_later(key, serial, &json));
        });
    }

    fn answer(&mut self, key: u32, json: &[u8]) {
        if let Some(connection) = self.connections.get_mut(key as usize) {
            connection.answer(json);
            self.mark_dirty(key);
        }
    }

    /// Answers the connection that asked, if it is still there.
    fn answer_later(&mut self, key: u32, serial: u64, json: &[u8]) {
        let Some(connection) = self.connections.get_mut(key as usize) else { return };
        if connection.serial != serial {
            return;
        }
        connection.unanswered -= 1;
        if connection.unanswered == 0 && std::mem::take(&mut self.flags[key as usize].unread) {
            self.mark_readable(key);
        }
        self.answer(key, json);
    }
}

impl Wanted {
    fn to_answer(&self, placed: Result<Placed, Refusal>) -> Vec<u8> {
        match placed {
            Ok(placed) => placed.published(&self.topic).to_answer(self.id.as_deref()),
            Err(error) => refusal(error.code, &error.message, self.id.as_deref(), None),
        }
    }
}

/// Reads a command; an error is the refusal to answer with.
fn read_command(text: &str) -> Result<Wanted, Vec<u8>> {
    let Asked { id, command } = Asked::parse(text);
    let refuse = |code, message: &str| refusal(code, message, id, None);
    let Command::Publish { topic, events } =
        command.map_err(|message| refuse(ErrorCode::BadCommand, &message))?
    else {
        todo!()
    };
    let topic: Topic =
        topic.parse().map_err(|error| refuse(ErrorCode::BadTopic, &format!("{error}")))?;
    let mut payloads = Payloads::default();
    for raw in events {
        payloads
            .push(|out| event::push_json(raw.get().as_bytes(), 1 << 20, out))
            .map_err(|error| refuse(error.code(), &error.to_string()))?;
    }
    Ok(Wanted { id: id.map(ToOwned::to_owned), topic, payloads })
}

impl From<TooManyTopics> for Refusal {
    fn from(TooManyTopics: TooManyTopics) -> Self {
        Self {
            code: ErrorCode::TooManyTopics,
            message: "the server keeps no more topics: use an existing one".into(),
        }
    }
}
