//! The connection of a subscriber, in both directions. Its client sends on it, or in the requests of its session.
//! Quoted names are those of sections in SignalR's `TransportProtocols.md`.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde_json::value::RawValue;
use thalweg_core::fanout::{Feeds, Subscriber};
use thalweg_wire::{
    Close, Framing, close,
    format::Compression,
    key::check_key,
    limits::COMMAND_BYTES_MAX,
    websocket::{self, Decoder},
};

use crate::{
    access::Holder,
    clock::now_us,
    config::{Limits, PresenceOf, SIGNALR_POLL_WAIT, UNANSWERED_MAX, has_read_enough},
    connection_limits::ConnectionPermit,
    metrics::CountedTransport,
    protocol::{
        Heartbeat, Inbound, Message, Messages, Protocol, Reply, Request, SessionPlace, in_use,
    },
    rates::ConnectionBuckets,
    refusal::Refusal,
    shard::{
        message::{Member, MemberChange},
        session_input::RecordsTaken,
    },
    transport::{Client, MemberRequest, PollAnswer, Writer},
};

/// A subscriber's connection: a slab entry, no task.
pub(crate) struct Connection {
    pub(crate) writer: Writer,
    pub(crate) subscriber: Subscriber,
    input: ClientInput,
    protocol: Box<dyn Protocol>,
    /// Data that waits to be processed, for example because the client must read earlier replies first.
    deferred: Option<Box<Deferred>>,
    /// When its client last sent data, or a poll, in µs.
    received_us: u64,
    /// When a send last found the connection full, in µs. 0: it is not full.
    pub(crate) stalled_us: u64,
    progress: WriteProgress,
    /// When a timer will visit it, in µs. 0: there is none.
    timer_us: u64,
    timers: u8,
    /// When its unfinished message began, in µs. 0: there is none.
    pub(crate) unfinished_us: u64,
    /// Distinguishes connections that have had the same key.
    pub(crate) serial: u64,
    /// Publishes that other shards have not answered.
    pub(crate) unanswered: u32,
    /// Whether reading waits until another shard has room for a publish, or for the lookup of a topic.
    pub(crate) waits: bool,
    pub(crate) client: Client,
    /// The holder whose rights it has.
    pub(crate) holder: Arc<Holder>,
    /// Whether it may publish to at least one topic. If not, its events are not parsed.
    pub(crate) may_publish: bool,
    /// Its rate limits, once a command has been counted.
    pub(crate) buckets: Option<Box<ConnectionBuckets>>,
    /// When its token's expiry is checked, in µs. `u64::MAX`: never.
    pub(crate) token_watched_us: u64,
    /// The client's description of itself, for the members of its topics.
    member: Option<Box<MemberRequest>>,
    /// Its permit as one of the server's connections.
    _permit: Option<ConnectionPermit>,
}

/// The way in which a client's data arrives.
enum ClientInput {
    /// As messages of a WebSocket.
    Messages(Decoder),
    /// As records in separate requests.
    Requests,
    /// Data is dropped.
    Nothing,
}

/// Data that a client has sent and that is not processed.
#[derive(Debug, Default)]
struct Deferred {
    /// The records of a message, and how many of their bytes are processed.
    records: String,
    read: usize,
    /// The bytes after that message.
    bytes: Vec<u8>,
    /// Answers the request whose records these are.
    request: Option<RecordsTaken>,
}

/// The data that was pending when a peer could not take everything, and how much the peer has read since.
#[derive(Debug, Clone, Copy, Default)]
struct WriteProgress {
    /// Since when, in µs. 0: no data is pending.
    since_us: u64,
    pending_bytes: usize,
    read_bytes: usize,
}

/// The maximum number of timers of a connection. A timer is added for an earlier time. At the limit the existing
/// timers must suffice.
const TIMERS_MAX: u8 = 16;

impl Connection {
    /// Returns the connection as a member of a topic.
    pub(super) fn member(&self, of: PresenceOf) -> Member {
        // A client cannot change the description that its token has.
        let signed = self.holder.info.as_ref().map(|info| info.clone().into_string());
        let signed = signed.and_then(|info| RawValue::from_string(info).ok());
        let info = signed.or_else(|| self.member.as_ref().and_then(|member| member.info.clone()));
        let (connection, user) = (self.serial, self.holder.subject().into());
        Member { connection, key: self.member_key(of), user, info }
    }

    pub(super) fn member_left(&self, of: PresenceOf) -> MemberChange {
        MemberChange::Left(self.member_key(of), self.serial)
    }

    /// Returns its key among the members of a topic: the subject of its token, alone or followed by a tilde and an id of the connection.
    fn member_key(&self, of: PresenceOf) -> Arc<str> {
        let subject = self.holder.subject();
        let identity = || format!("{:?}", self.holder.identity);
        // A subject may have any characters. The user ends at the first tilde of a key, so that nobody can take the key of another user.
        let is_key = check_key(subject).is_ok() && !subject.contains('~');
        let user = match subject.is_empty() || is_key {
            true => subject.to_owned(),
            false => identity(),
        };
        if of == PresenceOf::Users && !user.is_empty() {
            return user.into();
        }
        let key = match self.member.as_ref().and_then(|member| member.id.as_deref()) {
            Some(own) => format!("{user}~{own}"),
            None => format!("{user}~{:x}", self.serial),
        };
        match check_key(&key) {
            Ok(()) => key.into(),
            // It is too long.
            Err(_) => format!("{}~{:x}", identity(), self.serial).into(),
        }
    }

    /// Creates the connection of a socket after takeover. With `command_bytes_max` its client may publish, in
    /// messages of at most this size.
    pub(crate) fn new(
        writer: Writer,
        subscriber: Subscriber,
        protocol: Box<dyn Protocol>,
        (client, holder, member): (Client, Arc<Holder>, Option<Box<MemberRequest>>),
        command_bytes_max: Option<usize>,
        serial: u64,
        permit: Option<ConnectionPermit>,
    ) -> Self {
        let format = subscriber.format();
        let input = match (format.framing(), format.compression()) {
            // Messages of a client never refer to earlier ones.
            (Framing::WebSocket, Compression::Deflate | Compression::Context { .. }) => {
                ClientInput::Messages(Decoder::inflating(0))
            }
            (Framing::WebSocket, Compression::None) => ClientInput::Messages(Decoder::new(0)),
            _ if format.takes_commands() => ClientInput::Requests,
            _ => ClientInput::Nothing,
        };
        let mut connection = Self {
            writer,
            subscriber,
            input,
            protocol,
            deferred: None,
            received_us: now_us(),
            stalled_us: 0,
            progress: WriteProgress::default(),
            timer_us: 0,
            timers: 0,
            unfinished_us: 0,
            serial,
            unanswered: 0,
            waits: false,
            client,
            holder,
            may_publish: false,
            member,
            buckets: None,
            token_watched_us: u64::MAX,
            _permit: permit,
        };
        connection.let_publish(command_bytes_max);
        connection
    }

    /// Sets whether the client may publish, in messages of at most `command_bytes_max`, and the limit of messages accordingly.
    fn let_publish(&mut self, command_bytes_max: Option<usize>) {
        self.may_publish = command_bytes_max.is_some();
        let bytes_max = self.protocol.message_bytes_max().or(command_bytes_max);
        if let ClientInput::Messages(decoder) = &mut self.input {
            let is_in_proportion = bytes_max.is_none();
            let bytes_max = bytes_max.unwrap_or(COMMAND_BYTES_MAX) as u32;
            decoder.set_message_bytes_max(bytes_max, is_in_proportion);
        }
    }

    /// Gives the connection another holder's rights.
    pub(crate) fn set_holder(&mut self, holder: Arc<Holder>, command_bytes_max: Option<usize>) {
        self.holder = holder;
        self.let_publish(command_bytes_max);
    }

    /// Returns whether the connection may be read, because its replies have room. If not, its commands stay in the
    /// socket, so a peer that reads no replies costs only its socket.
    pub(crate) fn may_be_read(&self, limits: &Limits) -> bool {
        !self.waits
            && self.unanswered < UNANSWERED_MAX
            && self.subscriber.control_bytes() <= limits.control_bytes
    }

    /// Returns whether the connection holds memory for a peer that does not read.
    pub(crate) fn holds_memory(&self) -> bool {
        self.subscriber.holds_memory() || self.writer.held_bytes() > 0
    }

    /// Notes that the writer is full, and that the held data is pending for the peer.
    pub(crate) fn block(&mut self, feeds: &impl Feeds, now_us: u64) {
        self.stalled_us = now_us;
        if self.progress.since_us == 0 {
            self.begin_pending(feeds, now_us);
        }
    }

    fn begin_pending(&mut self, feeds: &impl Feeds, now_us: u64) {
        // This drops the count of bytes taken before.
        self.writer.take_taken(0);
        let pending_bytes = self.subscriber.held_bytes(feeds) + self.writer.held_bytes();
        self.progress = WriteProgress { since_us: now_us, pending_bytes, read_bytes: 0 };
    }

    /// Notes that the writer took `sent` bytes.
    pub(crate) fn moved(&mut self, sent: usize) {
        self.stalled_us = 0;
        if self.progress.since_us > 0 {
            self.progress.read_bytes += self.writer.take_taken(sent);
        }
    }

    /// Returns whether the writer is a plain TCP socket that took everything the last time.
    #[inline]
    pub(crate) fn has_nothing_pending(&self) -> bool {
        matches!(self.writer, Writer::Tcp(_)) && (self.stalled_us | self.progress.since_us) == 0
    }

    /// Notes that the writer took everything.
    pub(crate) fn clear_pending(&mut self) {
        self.progress.since_us = 0;
    }

    /// Returns whether the peer has read too little of the pending data for `stall_us`.
    pub(crate) fn is_stalled(&mut self, feeds: &impl Feeds, now_us: u64, stall_us: u64) -> bool {
        // Encrypted bytes may be sent without a visit.
        self.progress.read_bytes += self.writer.take_taken(0);
        let WriteProgress { since_us, pending_bytes, read_bytes } = self.progress;
        if now_us.saturating_sub(self.stalled_us) > stall_us {
            return true;
        }
        if now_us.saturating_sub(since_us) <= stall_us {
            return false;
        }
        let is_stalled = !has_read_enough(read_bytes, pending_bytes);
        self.begin_pending(feeds, now_us);
        is_stalled
    }

    /// Returns whether a visit at `due_us` needs another timer.
    pub(crate) fn wants_timer(&mut self, due_us: u64) -> bool {
        let is_earlier = due_us < self.timer_us && self.timers < TIMERS_MAX;
        let wants = self.timer_us == 0 || is_earlier;
        if wants {
            self.timer_us = due_us;
            self.timers += 1;
        }
        wants
    }

    pub(crate) fn timer_fired(&mut self) {
        self.timer_us = 0;
        self.timers = self.timers.saturating_sub(1);
    }

    /// Returns whether each command waits for the reply to the one before.
    pub(crate) fn replies_in_order(&self) -> bool {
        self.protocol.replies_in_order()
    }

    /// Keeps bytes that cannot be processed yet.
    pub(crate) fn defer(&mut self, bytes: &[u8]) {
        if matches!(self.input, ClientInput::Messages(_)) && !bytes.is_empty() {
            self.deferred.get_or_insert_default().bytes.extend_from_slice(bytes);
        }
    }

    /// Takes the records of a request. `request` is answered when they are processed.
    pub(crate) fn take_records(&mut self, records: String, request: RecordsTaken, now_us: u64) {
        // "HTTP Post": a second request is refused while another is unfinished.
        if self.has_records() {
            // Its client may have gone.
            let _ = request.send(Err(in_use()));
            return;
        }
        if records.is_empty() {
            let _ = request.send(Ok(()));
            return;
        }
        if matches!(self.input, ClientInput::Requests) && !self.subscriber.is_ending() {
            self.note_data(now_us);
            let deferred = self.deferred.get_or_insert_default();
            (deferred.records, deferred.read) = (records, 0);
            deferred.request = Some(request);
        }
    }

    /// Notes that the client has sent data. A client that polls has to poll, whatever else it sends.
    fn note_data(&mut self, now_us: u64) {
        if !self.is_polled() {
            self.received_us = now_us;
        }
    }

    /// Lets a poll wait for messages ("Long Polling"). The silence of its client begins at the latest when the poll is answered.
    pub(crate) fn take_poll(&mut self, poll: PollAnswer, now_us: u64) {
        self.received_us = now_us + SIGNALR_POLL_WAIT.as_micros() as u64;
        if let Writer::Polls(polls) = &mut self.writer {
            polls.wait(poll);
        }
    }

    /// Returns whether its client has sent nothing for longer than its protocol allows. A client whose poll waits
    /// need not send anything.
    pub(crate) fn is_silent(&self, now_us: u64) -> bool {
        let is_over = |timeout_us| now_us.saturating_sub(self.received_us) > timeout_us;
        self.protocol.client_timeout_us().is_some_and(is_over)
            && !matches!(&self.writer, Writer::Polls(polls) if polls.is_waiting())
    }

    /// Measures its client's silence from now on, because the earlier silence was handled.
    pub(crate) fn forgive_silence(&mut self, now_us: u64) {
        self.received_us = now_us;
    }

    /// Returns whether it sends in the answers to polls.
    pub(crate) fn is_polled(&self) -> bool {
        matches!(self.writer, Writer::Polls(_))
    }

    /// Returns the transport that it counts for. A response with an end is the answer to a poll.
    pub(super) fn counted_transport(&self) -> CountedTransport {
        match self.subscriber.format().framing() {
            Framing::WebSocket => CountedTransport::WebSocket,
            _ if self.subscriber.is_of_poll() => CountedTransport::LongPolling,
            Framing::Sse | Framing::SseMany | Framing::SseData => CountedTransport::Sse,
            Framing::Ndjson => CountedTransport::HttpStreaming,
            Framing::ForeverFrame => CountedTransport::ForeverFrame,
            Framing::ArrowMessages => CountedTransport::Arrow,
            // SignalR's polls.
            Framing::Bare => CountedTransport::LongPolling,
        }
    }

    /// Returns whether its protocol limits how long the client may send no data.
    pub(crate) fn has_client_timeout(&self) -> bool {
        self.protocol.client_timeout_us().is_some()
    }

    pub(crate) fn opened(&mut self, place: SessionPlace) {
        self.protocol.opened(place, self.client.identity);
    }

    pub(crate) fn take_deferred(&mut self) -> Vec<u8> {
        let Some(deferred) = &mut self.deferred else { return Vec::new() };
        let bytes = std::mem::take(&mut deferred.bytes);
        if deferred.records.is_empty() {
            self.deferred = None;
        }
        bytes
    }

    /// Returns whether records of the last message are unprocessed.
    pub(crate) fn has_records(&self) -> bool {
        self.deferred.as_ref().is_some_and(|deferred| !deferred.records.is_empty())
    }

    /// Parses the next record of the last message. Without one, decodes bytes up to the end of a message, or
    /// all of them, and leaves the rest in `bytes`. Returns the request, if there is one. `event_bytes_max` is the
    /// longest event that the client may publish.
    pub(crate) fn receive(
        &mut self,
        bytes: &mut &[u8],
        now_us: u64,
        event_bytes_max: Option<usize>,
    ) -> Option<Request> {
        self.note_data(now_us);
        let Self { subscriber, protocol, deferred, input, .. } = self;
        if matches!(input, ClientInput::Nothing) || subscriber.is_ending() {
            *bytes = &[];
            *deferred = None;
            return None;
        }
        let protocol = &mut **protocol;
        let mut inbound = Inbound::Handled;
        if let Some(mut rest) = deferred.take_if(|deferred| !deferred.records.is_empty()) {
            let (record, _) = first_record(protocol, &rest.records[rest.read..]);
            let read = rest.read + record.len();
            inbound = read_record(protocol, subscriber, Message::Text(record), event_bytes_max);
            rest.read = read;
            if read == rest.records.len() {
                (rest.records, rest.read) = Default::default();
                if let Some(request) = rest.request.take() {
                    // Its client may have gone.
                    let _ = request.send(Ok(()));
                }
            }
            *deferred =
                Some(rest).filter(|rest| !rest.records.is_empty() || !rest.bytes.is_empty());
        } else if let ClientInput::Messages(decoder) = input {
            let decoded = decoder.next(bytes, &mut |message| match message {
                websocket::Message::Text(text) => {
                    let (record, rest) = first_record(protocol, text);
                    if !rest.is_empty() {
                        deferred.get_or_insert_default().records.push_str(rest);
                    }
                    let record = Message::Text(record);
                    inbound = read_record(protocol, subscriber, record, event_bytes_max);
                }
                websocket::Message::Binary(bytes) => {
                    let record = Message::Binary(bytes);
                    inbound = read_record(protocol, subscriber, record, event_bytes_max);
                }
                websocket::Message::Ping(payload) => {
                    subscriber.send_control(|_, out| websocket::pong(payload, out));
                }
                websocket::Message::Pong(_) => {}
                websocket::Message::Close { .. } => inbound = Inbound::Close(close::DONE),
            });
            if let Err(error) = decoded {
                inbound = Inbound::Close(close::for_code(error.close_code()));
            }
            match decoder.is_unfinished() {
                false => self.unfinished_us = 0,
                true if self.unfinished_us == 0 => self.unfinished_us = now_us,
                true => {}
            }
        } else {
            *bytes = &[];
        }
        match inbound {
            Inbound::Request(request) => return Some(request),
            Inbound::Handled => {}
            Inbound::Close(close) => self.close(close),
        }
        None
    }

    /// Returns the memory of unprocessed data, in bytes.
    pub(crate) fn unfinished_bytes(&self) -> usize {
        let deferred =
            |deferred: &Deferred| deferred.bytes.capacity() + deferred.records.capacity();
        let decoded = match &self.input {
            ClientInput::Messages(decoder) => decoder.held_bytes(),
            ClientInput::Requests | ClientInput::Nothing => 0,
        };
        decoded + self.deferred.as_deref().map_or(0, deferred)
    }

    /// Sends a close. Later data of the client is dropped.
    pub(crate) fn close(&mut self, close: Close) {
        let Self { subscriber, protocol, .. } = self;
        let input = std::mem::replace(&mut self.input, ClientInput::Nothing);
        if !matches!(input, ClientInput::Nothing) && !subscriber.is_ending() {
            subscriber.send_control(|format, out| {
                protocol.close(close, &mut Messages::new(format, out));
            });
        }
        subscriber.close(close);
        self.deferred = None;
        self.unfinished_us = 0;
    }

    /// Appends the reply to a command. Returns whether there is one.
    pub(crate) fn reply(&mut self, id: Option<&RawValue>, reply: Result<&Reply, &Refusal>) -> bool {
        let Self { subscriber, protocol, .. } = self;
        let before = subscriber.control_bytes();
        if !subscriber.is_ending() {
            subscriber.send_control(|format, out| {
                protocol.reply(id, reply, &mut Messages::new(format, out));
            });
        }
        subscriber.control_bytes() > before
    }

    /// Appends a heartbeat, if one is due. Returns whether one is.
    pub(crate) fn heartbeat(&mut self) -> bool {
        match self.protocol.heartbeat() {
            // Each poll shows that both ends are alive.
            _ if self.is_polled() => false,
            Heartbeat::NotYet => false,
            Heartbeat::OfFormat => self.subscriber.heartbeat(),
            Heartbeat::Always(_) if self.subscriber.is_ending() => false,
            Heartbeat::Always(message) => {
                self.subscriber.send_control(|format, out| {
                    Messages::new(format, out).text(message.as_bytes());
                });
                true
            }
        }
    }

    /// Returns whether heartbeats are due even if other data was sent.
    pub(crate) fn always_wants_heartbeats(&self) -> bool {
        matches!(self.protocol.heartbeat(), Heartbeat::Always(_))
    }
}

/// Splits the first record off a text. The record has at least one character, so that parsing ends.
fn first_record<'t>(protocol: &dyn Protocol, text: &'t str) -> (&'t str, &'t str) {
    let records = text.split_at_checked(protocol.record_len(text));
    records.filter(|(record, _)| !record.is_empty()).unwrap_or((text, ""))
}

fn read_record(
    protocol: &mut dyn Protocol,
    subscriber: &mut Subscriber,
    record: Message<'_>,
    event_bytes_max: Option<usize>,
) -> Inbound {
    let mut inbound = Inbound::Handled;
    subscriber.send_control(|format, out| {
        inbound = protocol.read(record, event_bytes_max, &mut Messages::new(format, out));
    });
    inbound
}
