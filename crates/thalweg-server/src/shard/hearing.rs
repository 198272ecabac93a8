//! What connections say: read, taken apart, and asked for one wish after the other.

use std::rc::Rc;

use thalweg_wire::close;
use tokio::task::spawn_local;

use super::{
    Handle, Shard,
    commands::{Elsewhere, Errand, Wish},
};
use crate::{refusal::Refusal, transport::Heard};

/// Bytes taken apart before the answers to them are looked at: the shortest commands
/// have answers many times their length.
const PIECE_BYTES: usize = 8 << 10;

impl Handle {
    /// Posts what a topic's home is asked for, and answers it when that has.
    async fn post_wish(self: &Rc<Self>, key: u32, serial: u64, elsewhere: Elsewhere) {
        let Elsewhere { wish, topic, errand } = elsewhere;
        let payloads = match errand {
            Errand::Append(payloads) => payloads,
            Errand::Find(start, terms) => {
                let found = self.find(std::iter::once(&topic)).await;
                return self.step(|shard| {
                    if shard.is_there(key, serial) {
                        shard.answer_found(key, &wish, &topic, found, start, terms);
                    }
                });
            }
        };
        let posted = self.post(&topic, payloads, None).await;
        if self.step(|shard| shard.is_there(key, serial).then(|| shard.begin_answer(key))).is_none()
        {
            return;
        }
        let handle = Rc::clone(self);
        spawn_local(async move {
            let placed = match posted {
                Ok(placed) => placed.await.unwrap_or_else(|_| Err(Refusal::draining())),
                Err(refused) => Err(refused),
            };
            handle.step(|shard| {
                if shard.is_there(key, serial) {
                    shard.end_answer(key, serial);
                    shard.answer_publish(key, &wish, &topic, placed);
                }
            });
        });
    }
}

impl Shard {
    /// Reads a connection once.
    pub(super) fn hear(&mut self, handle: &Rc<Handle>, key: u32, now_us: u64) -> Heard {
        let Some(connection) = self.connections.get_mut(key as usize) else { return Heard::Gone };
        let held_before = connection.unfinished_bytes();
        let unheard = connection.take_unheard();
        if !unheard.is_empty() {
            self.count_unfinished(key, held_before);
            self.take_in(handle, key, &unheard, now_us);
            return Heard::More;
        }
        let mut buffer = std::mem::take(&mut self.read_buffer);
        let (bytes, heard) = connection.read(&mut buffer);
        self.take_in(handle, key, &buffer[..bytes], now_us);
        self.read_buffer = buffer;
        heard
    }

    /// Takes in what a connection said. Once its answers are too many, or one must be
    /// waited for, the rest is kept until they are not.
    pub(super) fn take_in(&mut self, handle: &Rc<Handle>, key: u32, bytes: &[u8], now_us: u64) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let Some(connection) = self.connections.get_mut(key as usize) else { return };
            if !connection.may_be_read(&self.common.config.limits) {
                let held_before = connection.unfinished_bytes();
                connection.keep_unheard(rest);
                self.flags[key as usize].unread = true;
                return self.count_unfinished(key, held_before);
            }
            let (piece, later) = rest.split_at(rest.len().min(PIECE_BYTES));
            self.take_in_piece(handle, key, piece, now_us);
            rest = later;
        }
    }

    fn take_in_piece(&mut self, handle: &Rc<Handle>, key: u32, piece: &[u8], now_us: u64) {
        let Some(connection) = self.connections.get_mut(key as usize) else { return };
        let limits = &self.common.config.limits;
        let mut wishes = Vec::new();
        let held_before = connection.unfinished_bytes();
        connection.hear(piece, now_us, &mut |text| wishes.push(Wish::read(text, limits)));
        self.flags[key as usize].unfinished = connection.unfinished_us > 0;
        let is_answered = connection.subscriber.own_bytes() > 0;
        self.count_unfinished(key, held_before);
        if is_answered {
            self.mark_dirty(key);
        }
        let mut wishes = wishes.into_iter();
        while let Some(wish) = wishes.next() {
            if let Some(elsewhere) = self.grant(key, wish) {
                self.grant_later(handle, key, elsewhere, wishes);
                break;
            }
        }
    }

    /// Counts what a connection holds of unfinished messages, which was `held_before`;
    /// if all hold too much together, the one that holds most has to go.
    fn count_unfinished(&mut self, key: u32, held_before: usize) {
        let held = self.connections[key as usize].unfinished_bytes();
        self.unfinished_bytes = self.unfinished_bytes + held - held_before;
        if self.unfinished_bytes <= self.common.config.limits.unfinished_bytes || held == 0 {
            return;
        }
        let others = self.connections.iter().filter(|(key, _)| self.flags[*key].unfinished);
        let others =
            others.map(|(other, connection)| (connection.unfinished_bytes(), other as u32));
        let (_, largest) = others.fold((held, key), |most, other| most.max(other));
        self.close(largest, close::BUSY);
    }

    /// Goes on with a connection's wishes when their turn has come, one after the
    /// other: what it publishes to a topic keeps its order.
    fn grant_later(
        &mut self,
        handle: &Rc<Handle>,
        key: u32,
        elsewhere: Elsewhere,
        mut wishes: std::vec::IntoIter<Wish>,
    ) {
        let Some(serial) = self.begin_answer(key) else { return };
        let handle = Rc::clone(handle);
        spawn_local(async move {
            let mut next = Some(elsewhere);
            loop {
                if let Some(elsewhere) = next.take() {
                    handle.post_wish(key, serial, elsewhere).await;
                }
                let Some(wish) = wishes.next() else { break };
                next = handle.step(|shard| match shard.is_there(key, serial) {
                    true => shard.grant(key, wish),
                    false => None,
                });
            }
            handle.step(|shard| shard.end_answer(key, serial));
        });
    }
}
