//! Requests of sessions: a client sends records and polls in requests that may arrive at any shard.

use std::{rc::Rc, time::Duration};

use tokio::{sync::oneshot, task::spawn_local, time::timeout};

use super::{Handle, Shard};
use crate::{
    clock::now_us,
    protocol::{SessionPlace, unknown_session},
    refusal::Refusal,
    shard::{
        message::ShardMessage,
        session_input::{SessionInput, SubscriberId},
        subscribers::ReconnectReason,
    },
};

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Polled {
    /// Whole messages, or none after the wait.
    Messages(Vec<u8>),
    /// The session has ended, or another poll waits.
    Ended,
}

impl Handle {
    /// Gives a session's connection the records of a request. Returns when they are processed. `permit`, which bounds the memory
    /// of request bodies, is held until the message to the connection's shard is queued. Fails if the session has ended, or another
    /// request is not finished.
    pub(crate) async fn send_records(
        &self,
        place: SessionPlace,
        records: String,
        permit: impl Sized,
    ) -> Result<(), Refusal> {
        let (request, taken) = oneshot::channel();
        self.request(place, SessionInput::Records(records, request)).await?;
        drop(permit);
        taken.await.unwrap_or_else(|_| Err(unknown_session()))
    }

    /// Waits for a session's messages, for at most `wait`. Fails if the server has ended.
    pub(crate) async fn poll(
        self: &Rc<Self>,
        place: SessionPlace,
        wait: Duration,
    ) -> Result<Polled, Refusal> {
        let (poll, answer) = oneshot::channel();
        let mut waiting = WaitingPoll { handle: self, place, answer };
        self.request(place, SessionInput::Poll(poll)).await?;
        if let Ok(answered) = timeout(wait, &mut waiting.answer).await {
            return Ok(answered.map_or(Polled::Ended, Polled::Messages));
        }
        Ok(Polled::Messages(waiting.last_messages().unwrap_or_default()))
    }

    /// Ends the sessions of a draining server that have no poll to answer, when no further poll can arrive.
    pub(super) async fn end_polled_sessions(self: Rc<Self>) {
        self.common.open_sockets.all_closed().await;
        self.with_shard(Shard::end_polled_sessions);
    }

    /// Ends a session. Fails if the server has ended.
    pub(crate) async fn end_session(&self, place: SessionPlace) -> Result<(), Refusal> {
        self.request(place, SessionInput::End).await
    }

    async fn request(&self, place: SessionPlace, input: SessionInput) -> Result<(), Refusal> {
        let SessionPlace { shard, key, serial } = place;
        let id = SubscriberId { key, serial };
        if shard == self.id {
            self.with_shard(|shard| shard.take_request(id, input));
            return Ok(());
        }
        let message = ShardMessage::Session { id, input };
        let publishes = &self.common.peers[shard].publishes;
        publishes.send(message).await.map_err(|_| Refusal::draining())
    }
}

/// A waiting poll. If its client disconnects while messages are on their way, they are lost, so dropping the poll ends the session.
struct WaitingPoll<'a> {
    handle: &'a Rc<Handle>,
    place: SessionPlace,
    answer: oneshot::Receiver<Vec<u8>>,
}

impl WaitingPoll<'_> {
    /// Returns the messages that were sent until now. Further ones are for the next poll.
    fn last_messages(&mut self) -> Option<Vec<u8>> {
        self.answer.close();
        self.answer.try_recv().ok()
    }
}

impl Drop for WaitingPoll<'_> {
    fn drop(&mut self) {
        if self.last_messages().is_some() {
            let (handle, place) = (Rc::clone(self.handle), self.place);
            // A server that ends has no sessions.
            drop(spawn_local(async move { handle.end_session(place).await }));
        }
    }
}

impl Shard {
    fn end_polled_sessions(&mut self) {
        self.subscribers.end_polled(&mut self.topics, ReconnectReason::Draining.close());
    }

    pub(super) fn take_request(&mut self, id: SubscriberId, input: SessionInput) {
        self.subscribers.take_request(&mut self.topics, id, input, now_us());
    }
}
