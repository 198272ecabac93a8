use std::time::Duration;

use thalweg_wire::limits::{COMMAND_ROOM_BYTES, EVENT_BYTES, SUBSCRIPTIONS};

/// Bytes of a word that the nearest known one is looked for: all known ones are shorter,
/// and comparing costs time with both lengths, before anybody knows whose word it is.
pub(crate) const SUGGESTED_BYTES_MAX: usize = 32;

/// Bytes of a file of a run: it is read as it is taken. The lab's reports have a tenth of
/// it.
pub(crate) const RUN_FILE_BYTES: u64 = 32 << 20;

/// The part of what a client is owed that it takes at least within `stall`: a quarter.
/// Whoever reads a few bytes now and then would otherwise hold an answer, or a frame, for
/// as long as it likes. Of an answer of 4 MiB it is 35 kB a second with the default.
const MIN_READ_DIVISOR: usize = 4;

/// Whether `taken` is that part of `owed`, in bytes.
pub(crate) fn has_read_enough(taken: usize, owed: usize) -> bool {
    taken >= owed.div_ceil(MIN_READ_DIVISOR)
}

/// The part of `head_bytes` that a head over HTTP/2 may have.
pub(crate) const H2_HEAD_PART: usize = 4;

/// The connection window of HTTP/2 (RFC 9113 §5.2): what clients may send ahead on all
/// streams of a connection. Four times the stream's.
pub(crate) const H2_CONNECTION_WINDOW_BYTES: u32 = 4 * H2_STREAM_WINDOW_BYTES;

/// The window of one of its streams: what a client may send of a body before it is read.
/// A largest event takes eight of them; over 50 ms that is 2.5 MB a second.
pub(crate) const H2_STREAM_WINDOW_BYTES: u32 = 128 << 10;

/// Runs that are listed, the newest: a page shows no more.
pub(crate) const RUNS_LISTED: usize = 1_000;

/// Entries of the folder of runs that are looked at for it: each is a file to be read.
pub(crate) const RUNS_LOOKED_AT: usize = 10_000;

/// Memory of a topic without events, in bytes, its one subscription and its places in
/// all indexes included; a test measures it.
pub const EMPTY_TOPIC_BYTES: usize = 1 << 10;

/// Bytes of a body that are read away when its request is answered without it: curl 7.88
/// loses an answer over HTTP/2 that comes before its body is sent. What is known to be
/// larger is answered at once.
pub(crate) const DISCARDED_BODY_BYTES: usize = 64 << 10;

/// How long that may take of a body whose length is known: its sender is about to send it.
pub(crate) const DISCARDED_BODY_WAIT: Duration = Duration::from_secs(2);

/// How long of one whose length is not: it may be a publisher's that has nothing to say.
pub(crate) const DISCARDED_STREAM_WAIT: Duration = Duration::from_millis(200);

/// Requests on each shard whose bodies are read away at a time: each holds its answer
/// meanwhile. Others of a flood are answered at once.
pub(crate) const DISCARDED_BODIES: usize = 256;

/// Largest message that is said back on `echo_path`: what the conformance cases send.
pub(crate) const ECHO_BYTES: usize = 16 << 20;

/// A body with so much memory is read however much all hold: as many as there are places for
/// requests take a quarter of what they may then. Most events are smaller.
pub(crate) const SMALL_BODY_BYTES: usize = 16 << 10;

/// Connections that are told why they are not served, at a time; others of a flood are
/// just closed.
pub(crate) const REJECTIONS_MAX: usize = 64;

/// How long one of them may take to say how it speaks, and to read why.
pub(crate) const REJECTION_WAIT: Duration = Duration::from_secs(1);

/// Connections of the listener for whoever looks after a server: a handful of scrapers and
/// health checks.
pub(crate) const ADMIN_CONNECTIONS: usize = 64;

/// How many of so many places of bodies one client may have, an address with an identity: half
/// of them, so that others find some while it sends slowly. Loopback is not counted.
pub(crate) fn share_of_requests(places: usize) -> usize {
    (places / 2).max(1)
}

/// Tickets of one identity given and not yet used: a megabyte, and more clients than
/// connect within a ticket's life. Beyond it the oldest is void. Those of another identity
/// have room of their own, or whoever may subscribe could take all that publishers need.
pub(crate) const TICKETS_MAX: usize = 10_000;

/// Publishes of one WebSocket that wait for other shards: enough that it need not wait for
/// each. What it says next waits unread.
pub(crate) const UNANSWERED_MAX: u32 = 128;

/// Bytes of events that one read of a history is answered with, about: one batch more may
/// be among them. Its client reads on from there.
pub(crate) const HISTORY_PAGE_BYTES: usize = 4 << 20;

/// What an answer holds that is read as it is taken: what HTTP/1.1 buffers of it. Over HTTP/2
/// it is less.
const HISTORY_QUERY_BYTES: usize = 64 << 10;

/// How long a client may take nothing of a history before its place is given to one who
/// waits for it.
pub(crate) const IDLE_HISTORY_QUERY: Duration = Duration::from_secs(1);

/// Bytes read from one socket at a time, into memory that all sockets of a shard share: what
/// one has said and is not processed yet is no more.
pub(crate) const SOCKET_READ_BYTES: usize = 64 << 10;

/// What peers may use, in one place. Whoever goes beyond is refused with a code
/// of `docs/wire.md`, and counted in `/metrics` under it.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections in all, and subscribers and publishers of lines that share one over
    /// HTTP/2 (`too_many_connections`): each costs a descriptor or a stream, and about a
    /// kilobyte, a publisher a few. The descriptors that the system grants may be fewer.
    pub connections: usize,
    /// Connections, and requests and subscriptions through trusted proxies, of one
    /// address (`too_many_from_address`); of IPv6, of one /64. Loopback is not counted.
    /// Without it a tenth of those in all and at least 100, so that nobody alone takes
    /// every place, and those who share an address (an office, a mobile network) have
    /// enough.
    pub connections_per_address: Option<usize>,
    /// Bytes of a request's head (`head_too_large`): cookies and tokens fit, and
    /// it is what an unfinished request may hold. Over HTTP/2 a quarter, unpacked
    /// (RFC 9113 §6.5.2): each stream may have one, and a few bytes of the compression
    /// make a large one.
    pub head_bytes: usize,
    /// Time for a request's head to arrive (`slow_request`), for a TLS handshake,
    /// and for HTTP/2's preface: who is slower is not one of ours.
    pub head_wait: Duration,
    /// Time for a body of one event, for a line of a longer one, and for a
    /// WebSocket message, from its first byte (`slow_request`, close 1008): a
    /// largest event over a slow line.
    pub body_wait: Duration,
    /// Bytes of an event as published (`event_too_large`, close 1009): one event
    /// is the least that a connection must finish once it has begun it.
    pub event_bytes: usize,
    /// Topics at a time that have events or sources, on the shard that is their home
    /// (`too_many_topics`). Another shard with subscribers to one has a copy of it. Each,
    /// and each of those below, costs at most [`EMPTY_TOPIC_BYTES`] besides its history.
    pub topics: usize,
    /// Topics at a time that have only subscribers, on each shard (`too_many_topics`, close
    /// 1013): as many as the others, and apart from them, so that no subscriber keeps
    /// anybody from publishing to a new topic. One that is published to is one of the
    /// others, until its events are gone.
    pub subscribed_topics: usize,
    /// How many of them those at one address have made (`too_many_topics`); of IPv6, at
    /// one /64. Loopback is not counted. A hundredth, which is a megabyte; an office with
    /// as many users who wait for events of their own is rare.
    pub subscribed_topics_per_address: usize,
    /// Subscriptions of one connection (`too_many_topics`): one visit looks at
    /// them all.
    pub subscriptions: usize,
    /// Memory of all topics' histories, divided among the shards. Beyond it a topic
    /// that grows loses its oldest batches before its own bounds say so, and when it has
    /// no more than its newest, the others do in turn.
    pub history_bytes: usize,
    /// Requests whose bodies are being read (`busy`): each may hold a largest event.
    /// Where publishing needs a token, those without it have a quarter as many (at
    /// least 1) besides, and publishers all of these. One client has half of either. A publish connection of
    /// lines has a place while a line of it is begun or appended.
    pub requests: usize,
    /// Memory of unfinished WebSocket messages on each shard (close 1013), and as much of
    /// requests' bodies that are being read (503).
    pub unfinished_bytes: usize,
    /// Streams of one HTTP/2 connection at a time (RFC 9113 §5.1.2): beyond it they
    /// are refused (`REFUSED_STREAM`). A hundred is what the RFC recommends at least.
    pub h2_streams: u32,
    /// Streams of one HTTP/2 connection that were reset before they were looked
    /// at; one more ends the connection (CVE-2023-44487).
    pub h2_resets: usize,
    /// Idempotency keys remembered at a time, on each shard.
    pub retry_keys: usize,
    /// How long an idempotency key is remembered.
    pub retry_time: Duration,
    /// Bytes that the kernel may hold for one subscriber and has not sent: small,
    /// so that a stopped reader holds little (`TCP_NOTSENT_LOWAT`).
    pub unsent_bytes: usize,
    /// Bytes that it may hold in all, sent ones that wait to be acknowledged
    /// included: what one subscriber on a long line may have under way (`SO_SNDBUF`,
    /// which the kernel doubles for its bookkeeping, socket(7)). Without it, what the
    /// kernel finds that the line needs, up to `net.ipv4.tcp_wmem`.
    pub send_buffer_bytes: Option<usize>,
    /// Bytes between a subscriber and its HTTP/2 stream, or its long poll's answer.
    pub stream_buffer_bytes: usize,
    /// A subscriber's control messages waiting; beyond it its commands wait unread.
    pub control_bytes: usize,
    /// Memory on each shard for answers that clients have asked for and not taken, over
    /// HTTP and over WebSocket beyond `control_bytes`. Beyond it connections are ended (close
    /// 4002): those whose clients have taken nothing before others, of these those of the
    /// address that holds most, and of this first the one that does. Many commands' answers
    /// and lists fit; what is large, history and files, is not held as a whole. One largest command's answer always fits.
    pub answer_bytes: usize,
    /// Memory per shard for batches that only partly sent frames still need, and as much
    /// for those that only answers to reads still need. Beyond it the connection that
    /// stalls longest, or that keeps most, is ended (close 4002).
    pub pinned_bytes: usize,
    /// A frame partly sent, or any answer, must move on within this time (close 4002);
    /// and so long may a connection of HTTP/2 have no stream.
    pub stall: Duration,
    /// Bytes to one socket in one visit of a walk.
    pub visit_bytes: usize,
    /// Time of one slice of a walk, after which others get their turn.
    pub walk_slice: Duration,
    /// Time of reading what clients send in one turn: the rest of it waits for the next, also
    /// within what one of them said.
    pub read_slice: Duration,
    /// Messages on their way to a shard, from all others: batches and sockets.
    pub mail: usize,
    /// Publishes on their way to a shard, each of one read or one event. Apart
    /// from the other mail, so that a flood of them delays only publishers.
    pub publishes: usize,
}

impl Limits {
    /// How many connections may come from one address.
    pub fn of_one_address(&self) -> usize {
        self.connections_per_address.unwrap_or_else(|| (self.connections / 10).max(100))
    }

    /// Longest command of a client who may publish.
    pub(crate) fn command_bytes(&self) -> usize {
        self.event_bytes + COMMAND_ROOM_BYTES
    }

    /// What one client, an address with an identity, may keep of `pinned_bytes` for its
    /// reads before it reads more (`busy`): a quarter, so that others find room.
    pub(crate) fn pinned_share_bytes(&self) -> usize {
        self.pinned_bytes / 4
    }

    /// Histories that each shard sends at a time, so that those who take them stay within
    /// `answer_bytes` and leave a quarter to other answers. The others wait.
    pub(crate) fn history_queries(&self) -> usize {
        (self.answer_bytes / 4 * 3 / HISTORY_QUERY_BYTES).max(1)
    }

    /// Those of one client: half of them.
    pub(crate) fn history_queries_of_one(&self) -> usize {
        self.history_queries().div_ceil(2)
    }

    /// Places of those without the token, where publishing needs one.
    pub(crate) fn requests_of_others(&self) -> usize {
        (self.requests / 4).max(1)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 100_000,
            connections_per_address: None,
            head_bytes: 64 << 10,
            head_wait: Duration::from_secs(10),
            body_wait: Duration::from_secs(30),
            event_bytes: EVENT_BYTES,
            topics: 100_000,
            subscribed_topics: 100_000,
            subscribed_topics_per_address: 1_000,
            subscriptions: SUBSCRIPTIONS,
            history_bytes: 1 << 30,
            requests: 1024,
            unfinished_bytes: 64 << 20,
            h2_streams: 256,
            h2_resets: 20,
            retry_keys: 100_000,
            retry_time: Duration::from_secs(300),
            unsent_bytes: 16 << 10,
            send_buffer_bytes: None,
            stream_buffer_bytes: 32 << 10,
            control_bytes: 64 << 10,
            answer_bytes: 8 << 20,
            pinned_bytes: 8 << 20,
            stall: Duration::from_secs(30),
            visit_bytes: 1 << 20,
            walk_slice: Duration::from_millis(1),
            read_slice: Duration::from_millis(1),
            mail: 1024,
            publishes: 64,
        }
    }
}
