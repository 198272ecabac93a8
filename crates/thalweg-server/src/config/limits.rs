use std::time::Duration;

use thalweg_wire::limits::{COMMAND_ROOM_BYTES, EVENT_BYTES, SUBSCRIPTIONS};

use super::{Rate, Rates};

/// Longer words get no "did you mean". No known name is longer, and comparing long words costs time before the client is known.
pub(crate) const SUGGESTED_BYTES_MAX: usize = 32;

/// Maximum bytes of a file of a benchmark run, which the server reads while the client reads. The lab's reports
/// have a tenth of this.
pub(crate) const RUN_FILE_BYTES: u64 = 32 << 20;

/// A client must read its pending bytes divided by this within `write_timeout`, so that a client that reads a few
/// bytes now and then does not keep an answer, or a frame, in memory forever. With the default, an answer of 4 MiB
/// requires 35 kB per second.
const MIN_READ_DIVISOR: usize = 4;

/// Returns whether a client that has read `taken` of `owed` bytes has read enough.
pub(crate) fn has_read_enough(taken: usize, owed: usize) -> bool {
    taken >= owed.div_ceil(MIN_READ_DIVISOR)
}

/// Maximum number of expired keys, and of absent members, that are removed at once.
pub(crate) const EXPIRIES_PER_TURN: usize = 1000;

/// How often a request for a page of a keyed topic has its state read, if other topics need the memory meanwhile.
pub(crate) const KEY_LOADS_MAX: usize = 3;

/// Maximum number of members of one topic. Further members count as refused.
pub(crate) const MEMBERS_MAX: usize = 100_000;

/// Members that servers share are published by records of about this many bytes, which are batches for subscribers.
pub(crate) const MEMBER_EVENTS_BYTES: usize = 48 << 10;

/// Maximum number of members that one record changes. Each broker stores so many events together.
pub(crate) const MEMBER_EVENTS_MAX: usize = 256;

/// Maximum number of members that have left a topic and whose events wait for a broker, besides those that are here. If there are
/// more, the server forgets which ones, and compares all members of the topic when the broker is available.
pub(crate) const LEFT_MEMBERS_MAX: usize = 8192;

/// Maximum number of members of all topics that a shard compares with the servers that run, once a second. It takes a few ms.
pub(crate) const MEMBERS_COMPARED_MAX: usize = 8192;

/// The members of all topics may use `history_bytes` divided by this.
pub(crate) const MEMBERS_SHARE: usize = 8;

/// The rows of groups without windows may use `history_bytes` divided by this, those of ad hoc queries and those of the settings'
/// queries each: clients must take neither the memory of publishers' keys nor that of the settings' queries.
pub(crate) const GROUP_ROWS_SHARE: usize = 16;

/// A head over HTTP/2 may have `head_bytes` divided by this.
pub(crate) const H2_HEAD_PART: usize = 4;

/// The connection window of HTTP/2 (RFC 9113 §5.2): bytes that a client may send ahead on all streams together.
pub(crate) const H2_CONNECTION_WINDOW_BYTES: u32 = 4 * H2_STREAM_WINDOW_BYTES;

/// The window of one of its streams: bytes of a body that a client may send before they are read. The largest event takes eight
/// windows. With a round trip of 50 ms that is 2.5 MB a second.
pub(crate) const H2_STREAM_WINDOW_BYTES: u32 = 128 << 10;

/// The least time between two sends of a topic to Chromium over HTTP/2, in µs. Chromium delays data of a
/// stream, up to 64 KiB, while more data arrives within a millisecond (`SpdyHttpStream`, `kBufferTimeMs`;
/// `lab/runs` has `h2-pace`).
pub(crate) const H2_INTERVAL_US: u64 = 2_000;

/// The shortest time after which an EventSource reconnects, in ms: a server that restarts is back by then.
pub(crate) const SSE_RETRY_MS_MIN: u64 = 1_000;

/// The spread of these times, in ms: the clients of a server that was cut off reconnect over a second.
pub(crate) const SSE_RETRY_SPREAD_MS: u64 = 1_000;

/// Maximum number of listed runs, the newest. A page shows no more.
pub(crate) const RUNS_LISTED: usize = 1_000;

/// Maximum number of entries of the folder of runs that are read for the list, because each requires reading a file.
pub(crate) const RUNS_LOOKED_AT: usize = 10_000;

/// CPU time for patches in a turn of a shard, in µs. Further versions go out whole. A document of 165 kB takes half a ms.
pub(crate) const PATCH_US_MAX: u64 = 4_000;

/// Demands of shards that wait for the fetcher: above this they wait on their shard.
pub(crate) const DEMANDS_MAX: usize = 1024;

/// Fetched documents that wait for a shard. Above this fetches wait, within their limits.
pub(crate) const FETCHED_MAX: usize = 64;

/// Records that wait for a broker: above this they wait on their shard.
pub(crate) const STORES_MAX: usize = 1024;

/// Records and restarts that brokers deliver and a shard has not taken. Above this the brokers wait.
pub(crate) const FROM_BROKER_MAX: usize = 256;

/// Backfill pages that a shard reads from each broker at a time for its subscribers, and as many for queries; others wait.
pub(crate) const READS_PER_SHARD: usize = 4;

/// Offsets of one topic that readers wait for at a time. Above this, further readers wait for one of these offsets.
pub(crate) const BACKFILL_OFFSETS_MAX: usize = 256;

/// Reads that wait for a broker: above this they wait on their shard.
pub(crate) const READS_MAX: usize = 256;

/// Records that a broker is storing at a time, of all topics. Many more would make it slower, not faster.
pub(crate) const STORES_IN_FLIGHT_MAX: usize = 4096;

/// Pages that a broker is reading at a time, of all topics: each is up to a megabyte on its way here.
pub(crate) const READS_IN_FLIGHT_MAX: usize = 16;

/// Lists of stored topics that a broker makes at a time, because one list may read the whole index.
pub(crate) const LISTS_IN_FLIGHT_MAX: usize = 1;

/// Lists of stored topics that wait for a broker. Above this their requests wait.
pub(crate) const LISTS_MAX: usize = 16;

/// The time for which a command may search where its subscription begins, while the connection's next commands wait.
pub(crate) const COMMAND_SEARCH: Duration = Duration::from_secs(5);

/// The time for which a command waits for a topic of another shard. After that the subscription begins when the topic comes.
pub(crate) const ARRIVAL_WAIT: Duration = Duration::from_secs(2);

/// Memory of a shard's backfilled pages, in bytes. Above this the shard drops the oldest, and reads them again if needed.
pub(crate) const BACKFILL_BYTES_MAX: usize = 64 << 20;

/// Memory in bytes up to which a topic keeps its backfilled pages, however many topics have some: a few pages.
pub(crate) const BACKFILL_FEED_BYTES: usize = 4 << 20;

/// The shortest pause that is written to a stream, and the minimum time between two pauses of a topic, in ms.
/// A limit is needed, because clients choose the timeout of their queries.
pub(crate) const PAUSE_MS_MIN: u64 = 200;

/// The time that all queries of a shard together may take in a turn, in µs, before other work.
pub(crate) const QUERIES_US: u64 = 2_000;

/// The part of [`QUERIES_US`] in which groups of ended queries are dropped, in µs. Running queries have the rest, and create fewer groups.
pub(crate) const QUERY_DROPS_US: u64 = QUERIES_US / 2;

/// The minimum time that a query runs at once, in µs, because starting has a cost that does not depend on this time.
pub(crate) const QUERY_US_MIN: u64 = 250;

/// Steps of a query between two readings of the clock. Few steps take more than 10 ns.
pub(crate) const QUERY_STEPS_PER_LOOK: u64 = 4_000;

/// Steps of an event besides its evaluation, for reading the event and finding its window.
pub(crate) const QUERY_EVENT_STEPS: u64 = 50;

/// A shard spends at most one of this many seconds on parsing and planning queries of clients. A client that
/// sends many queries waits; other clients do not. The longest query takes a few milliseconds.
pub(crate) const PLANNING_PART: u64 = 4;

/// The time that a shard may plan at once after a pause, in µs, so that a page with twenty queries waits for none of them.
pub(crate) const PLANNING_BURST_US: u64 = 50_000;

/// The planning time between two turns, in µs. A short query takes a tenth of this, and is planned in the turn in which it comes.
pub(crate) const PLANNING_UNBROKEN_US: u64 = 1_000;

/// Queries that wait for planning on a shard, a few kB each, because many clients may reconnect at once. Others are refused (`busy`).
pub(crate) const PLANNINGS_WAITING_MAX: usize = 1_024;

/// The same for the clients of one address, which leaves room for other clients. Loopback is not counted.
pub(crate) const PLANNINGS_WAITING_PER_ADDRESS: usize = 128;

/// Bytes of events that a query reads in a turn, and of its unsealed rows. The rest waits for the next turn.
pub(crate) const QUERY_BYTES: usize = 1 << 19;

/// Memory that a query may use before it counts against the limit of its client's address, in bytes.
pub(crate) const QUERY_GRAIN_BYTES: usize = 32 << 10;

/// Maximum number of offsets that a query goes back in a stream when it begins: 262,144 messages. Earlier windows are omitted.
pub(crate) const REPLAY_OFFSETS_MAX: u64 = 1 << 26;

/// Bytes of a shard's events and their keys that wait to be stored. Further events are refused (`busy`).
/// Storing takes seconds while NATS has no leader.
pub(crate) const UNSTORED_BYTES_MAX: usize = 64 << 20;

/// Bytes of the different filters of keys that the subscriptions of a shard have: about 400,000 filters of one short key. Further filters are
/// refused (`busy`).
pub(crate) const FILTERS_BYTES_MAX: usize = 32 << 20;

/// The filters that came first from one address may use `FILTERS_BYTES_MAX` divided by this.
pub(crate) const FILTERS_SHARE: usize = 8;

/// Number of missing upstream documents that the server remembers. Above this it forgets the oldest, and
/// fetches it again when a client asks for it.
pub(crate) const GONE_MAX: usize = 10_000;

/// Remembered signed tokens, each as large as its text. Above this, the least recently used are verified again.
pub(crate) const SEEN_TOKENS_MAX: usize = 20_000;

/// An invalid token counts as this many additional verifications for its client's address.
pub(crate) const WRONG_TOKEN_REQUESTS: u64 = 100;

/// The least time between two requests for the keys of signed tokens, however many tokens name unknown keys.
pub(crate) const KEYS_GAP: Duration = Duration::from_secs(10);

/// The timeout of a request for the keys of signed tokens.
pub(crate) const KEYS_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a client that presents a token of an unknown key waits for the key.
pub(crate) const KEYS_WAIT: Duration = Duration::from_secs(6);

/// Requests that wait for an unknown key at a time.
pub(crate) const KEYS_WAITING_MAX: usize = 256;

/// Maximum bytes of a set of keys. A key has a few hundred bytes.
pub(crate) const KEYS_BYTES_MAX: usize = 256 << 10;

/// Maximum number of unused keys of a set that the log names, with the reasons.
pub(crate) const KEYS_NAMED_MAX: usize = 8;

/// Subjects, and as many addresses, with counted rates. Others are not counted, so that they neither use memory nor lock out others.
pub(crate) const RATED_MAX: usize = 200_000;

/// Topics whose figures a shard returns, or that an answer of the overview searches, at once: less than a millisecond of its time.
pub(crate) const FIGURES_PER_LOOKUP: usize = 1024;

/// Maximum number of subscribers of a topic that a shard and an answer show: less than a millisecond of a shard's time.
pub(crate) const SHOWN_SUBSCRIBERS_MAX: usize = 1000;

/// Maximum number of subjects that are traced at a time. Each action of a client is compared with all of them.
pub(crate) const TRACES_MAX: usize = 16;

/// Lines of a trace that wait for its viewer: a second of the commands that one connection may send. They take a third of a megabyte.
/// Further ones are dropped.
pub(crate) const TRACE_LINES_MAX: usize = 1000;

/// Bytes of a trace passed to HTTP at a time.
pub(crate) const TRACE_PIECE_BYTES: usize = 16 << 10;

/// A trace ends after this time: a forgotten one must not slow the actions of clients for ever.
pub(crate) const TRACE_LIFE: Duration = Duration::from_secs(600);

/// Maximum number of topics of each shard that the overview covers. It holds about 300 bytes of each while a client shows it.
pub(crate) const SAMPLED_TOPICS_MAX: usize = 100_000;

/// The minimum time between two samples of all topics, in µs, however many clients show them.
pub(crate) const SAMPLE_US: u64 = 950_000;

/// A sample takes at most one of this many parts of the time: with very many topics the overview changes less often.
pub(crate) const SAMPLE_PART: u64 = 20;

/// The samples are forgotten after this time without a request, in µs.
pub(crate) const SAMPLES_KEPT_US: u64 = 10_000_000;

/// Topics in one answer of the overview: more than a page shows.
pub(crate) const RANKED_MAX: usize = 1_000;

/// Maximum bytes of an administrator's request body.
pub(crate) const ADMIN_BODY_BYTES: usize = 4096;

/// Redirects that a fetch follows, all on the host that was configured.
pub(crate) const REDIRECTS_MAX: usize = 3;

/// Maximum bytes of the head of a response, and of a piece of its body.
pub(crate) const UPSTREAM_BUFFER_BYTES: usize = 64 << 10;

/// How long a connection to an upstream is kept without a request.
pub(crate) const UPSTREAM_IDLE: Duration = Duration::from_secs(30);

/// Memory of a topic without events, in bytes, including one subscription and the entries in all indexes. A
/// test measures it: 1,064 to 1,093, because the allocator rounds up, and up to 1,159 on a busy machine,
/// because sockets are read late.
pub const EMPTY_TOPIC_BYTES: usize = 1_200;

/// Bytes of a body that are discarded when the request is answered without it, because curl 7.88 loses an answer over HTTP/2
/// that comes before the body is sent. A request whose body is known to be larger is answered at once.
pub(crate) const DISCARDED_BODY_BYTES: usize = 64 << 10;

/// The time to discard a body of known length: its sender is about to send it.
pub(crate) const DISCARDED_BODY_WAIT: Duration = Duration::from_secs(2);

/// The time to discard a body of unknown length: it may belong to a publisher that has no event to publish now.
pub(crate) const DISCARDED_STREAM_WAIT: Duration = Duration::from_millis(200);

/// Bodies that a shard discards at a time. Each holds its answer until then. Above this, requests are answered at once.
pub(crate) const DISCARDED_BODIES: usize = 256;

/// Largest message that is sent back on `echo_path`: the conformance cases send this much.
pub(crate) const ECHO_BYTES: usize = 16 << 20;

/// A body of at most this many bytes is read however much memory all bodies hold. If every request has such a
/// body, together they use a quarter of the limit. Most events are smaller.
pub(crate) const SMALL_BODY_BYTES: usize = 16 << 10;

/// Bytes of lines that are gathered before they are appended: about what one read of a socket gives.
pub(crate) const GATHERED_BYTES: usize = 64 << 10;

/// Polls of a connection of HTTP/1.1 in a row, to read chunks that have arrived, before other connections get their turn. Each
/// takes less than a microsecond besides the chunk itself; a read of 64 KiB has this many chunks of 60 bytes.
pub(crate) const REPOLLS_MAX: u32 = 1024;

/// The time between two connections that a shard tells to reconnect, in µs, if time allows. Other servers can
/// handle this rate.
pub(crate) const RECONNECT_SPACING_US: u64 = 2_000;

/// The time without data from its streams, in µs, after which a server tells subscribers to reconnect: most outages are shorter.
pub(crate) const CUT_OFF_AFTER_US: u64 = 5_000_000;

/// The time within which these subscribers are told to reconnect, in µs.
pub(crate) const CUT_OFF_SPREAD_US: u64 = 5_000_000;

/// After this many appended bytes, a shard sends at once, because a batch of this size is large enough.
pub(crate) const SETTLED_BYTES: usize = GATHERED_BYTES;

/// How many times a shard runs ready tasks before it sends, while events come in. Each round takes up to 16
/// pipelined requests of a connection.
pub(crate) const SETTLING_ROUNDS_MAX: u32 = 16;

/// Time after which such a round is the last one: as long as a slice of a walk. If reading takes longer,
/// waiting for the rest delays subscribers more than it saves sends.
pub(crate) const SETTLING_TIME: Duration = Duration::from_millis(1);

/// Rejected connections that are told the reason at a time. Above this, connections are closed without a reason.
pub(crate) const REJECTIONS_MAX: usize = 64;

/// The time that a rejected connection may take to show its protocol, and to read the reason.
pub(crate) const REJECTION_WAIT: Duration = Duration::from_secs(1);

/// Connections of the admin listener: a handful of scrapers and health checks.
pub(crate) const ADMIN_CONNECTIONS: usize = 64;

/// Returns how many of the `places` for bodies one client (an address together with an identity) may use: half, so
/// that others find some while it sends slowly. Loopback is not counted.
pub(crate) fn share_of_requests(places: usize) -> usize {
    (places / 2).max(1)
}

/// Maximum number of unused tickets of one identity. They take a megabyte; fewer clients
/// connect within a ticket's life. Above this the oldest becomes invalid, or, if the broker keeps them, no
/// more are issued (`busy`). Subscribers cannot use up the tickets that publishers need.
pub(crate) const TICKETS_MAX: usize = 10_000;

/// Unused tickets of one subject, who may open several tabs. Each is valid for half a minute.
pub(crate) const SUBJECT_TICKETS_MAX: usize = 100;

/// Unused tickets of all identities. Above this, no more are issued (`busy`).
pub(crate) const ALL_TICKETS_MAX: usize = 100_000;

/// Requests to the broker in flight to keep tickets, and as many to redeem tickets; others wait. Anybody may present an invented
/// ticket, which costs the broker a request. At a millisecond each, this allows tens of thousands per second.
pub(crate) const TICKETS_UNDER_WAY_MAX: usize = 64;

/// Requests of each kind that wait for the broker: many clients may reconnect at once. Others are refused (`busy`).
pub(crate) const TICKETS_WAITING_MAX: usize = 1024;

/// The time that such a request waits for its turn and for the broker's answer: longer than the broker itself tries.
pub(crate) const TICKET_WAIT: Duration = Duration::from_secs(5);

/// The longest time from a negotiation to its first request, in µs: official clients connect at once, and
/// `TransportProtocols.md` of SignalR sets no time.
pub(crate) const NEGOTIATION_LIFE_US: u64 = 30_000_000;

/// Ended sessions, remembered while their negotiation could still open another. They take six megabytes; the oldest are forgotten.
pub(crate) const ENDED_SESSIONS_MAX: usize = 50_000;

/// Connections of SignalR get a heartbeat after this time without data, or earlier ("Ping" in
/// `HubProtocol.md`: only if no other message was sent). Their clients wait twice as long.
pub(crate) const SIGNALR_KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A connection of SignalR whose client sends nothing for this time, in µs, is closed (close 4007; "Ping" in
/// `HubProtocol.md`): official clients send a ping every 15 s. A long-polling connection without a waiting
/// poll counts as silent, too. It holds a permit, control messages and the records of one request.
pub(crate) const SIGNALR_TIMEOUT_US: u64 = 30_000_000;

/// How long a poll of SignalR waits for messages before it gets an empty answer ("Long Polling" in
/// `TransportProtocols.md`): less than the 30 s after which proxies time out.
pub(crate) const SIGNALR_POLL_WAIT: Duration = Duration::from_secs(25);

/// Minimum duration of a numbered poll of SignalR. Its client uses the time in ms as the number, so
/// the next poll then has another number.
pub(crate) const SIGNALR_POLL_LEAST: Duration = Duration::from_millis(1);

/// Maximum number of publishes of one WebSocket that wait for other shards at a time. Above this the server
/// does not read its further commands.
pub(crate) const UNANSWERED_MAX: u32 = 128;

/// Approximate bytes of events in the answer to one read of a history: it may have one more batch. The client continues from its end.
pub(crate) const HISTORY_PAGE_BYTES: usize = 4 << 20;

/// Memory of a history's answer, which the server reads while its client reads: the bytes that HTTP/1.1 buffers (HTTP/2 fewer).
const HISTORY_QUERY_BYTES: usize = 64 << 10;

/// How long a client may read nothing of a history before a waiting client gets its place.
pub(crate) const IDLE_HISTORY_QUERY: Duration = Duration::from_secs(1);

/// Bytes read from one socket at a time, into memory that a shard's sockets share. No socket has more unprocessed bytes.
pub(crate) const SOCKET_READ_BYTES: usize = 64 << 10;

/// Limits of what peers may use. A refusal has a code of `docs/reference/errors.md`, and counts in `/metrics` under it.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections, and subscribers and publishers of lines that share one over HTTP/2 (`too_many_connections`). Each costs a
    /// descriptor or a stream, and about a kilobyte (a publisher a few). The system may grant fewer descriptors.
    pub connections: usize,
    /// Connections, and requests and subscriptions through trusted proxies, of one address
    /// (`too_many_from_address`); of IPv6, of one /64. Loopback is not counted. If it is not set, the limit
    /// is a tenth of all connections, but at least 100: no single address takes every place, and clients that
    /// share an address (an office, a mobile network) have enough.
    pub connections_per_address: Option<usize>,
    /// Bytes of a request's head (`head_too_large`): cookies and tokens fit, and an incomplete request may
    /// use this much memory. Over HTTP/2 a quarter, unpacked (RFC 9113 §6.5.2): each stream may have one, and
    /// a few compressed bytes make a large one.
    pub head_bytes: usize,
    /// Time for a request's head (`slow_request`), a TLS handshake, and HTTP/2's preface: a slower peer is not a usual client.
    pub header_timeout: Duration,
    /// How long a connection of HTTP/1.1 is kept between two requests, and one of HTTP/2 without a stream:
    /// longer than the usual 60 s of load balancers. The side that sends requests should have the shorter
    /// timeout: otherwise the server may close the connection while a request is on its way, and the request
    /// is lost.
    pub keep_alive: Duration,
    /// Time for a body of one event, for one line of a body of lines, and for a WebSocket message, from its first byte
    /// (`slow_request`, close 1008): enough for a largest event over a slow line.
    pub body_timeout: Duration,
    /// Bytes of an event as published (`event_too_large`, close 1009): the server must receive a whole event
    /// before it can publish it.
    pub event_bytes: usize,
    /// Topics at a time that have events or sources, on their owner shard (`too_many_topics`). Another shard with subscribers to
    /// a topic has a copy of it. Each topic, here and in the next limit, costs at most [`EMPTY_TOPIC_BYTES`] besides its history.
    pub topics: usize,
    /// Topics at a time that have only subscribers, on each shard (`too_many_topics`, close 1013): a separate limit, so that
    /// subscribers cannot prevent publishing to a new topic. A topic with events counts in `topics` until they are gone.
    pub subscribed_topics: usize,
    /// How many of them clients of one address may create (`too_many_topics`); of IPv6, of one /64. Loopback is not counted. The
    /// default, a hundredth, takes a megabyte. An office with more users who each wait for their own topic is rare.
    pub subscribed_topics_per_address: usize,
    /// Topics of upstreams that clients of one address may request per second and that their shard does not have yet
    /// (`too_many_from_address`): each may cause a fetch, of any key that a client invents. Loopback is not counted.
    pub new_fetched_per_address: usize,
    /// Queries of clients that run at a time, until a second or two after their last reader has gone
    /// (`too_many_queries`): each reads all events of a topic, at about a quarter of a microsecond per event. As many
    /// queries that do not run are remembered for ten seconds; they use memory but no time.
    pub queries: usize,
    /// Queries that clients of one address run at a time. Loopback is not counted.
    pub queries_per_address: usize,
    /// Memory of the queries of one address: plans, groups and unsealed rows. A query that would exceed it ends (`query_memory`);
    /// remembered ones are forgotten first. Loopback is one address, and so is an untrusted proxy. The default is enough for two
    /// queries with the most groups, or for a hundred with some hundred groups.
    pub query_bytes_per_address: usize,
    /// Fetches at a time, from all upstreams.
    pub fetches: usize,
    /// Rates of one connection whose client counts for its address or has a signed token. Like the two below, they
    /// are more than any honest client needs. Tokens of the configuration are not counted.
    pub rates_of_connection: Rates,
    /// Rates of one subject of signed tokens. A page that polls a fast topic makes hundreds of requests per second.
    pub rates_of_subject: Rates,
    /// Rates of one address; of IPv6, of one /64. Loopback is not counted.
    pub rates_of_address: Rates,
    /// Subscriptions of one connection (`too_many_topics`): one visit checks all of them.
    pub subscriptions: usize,
    /// Memory of all topics' histories, divided among the shards. Above this a topic that grows loses its oldest batches before
    /// it reaches its own bounds. When only its newest batch is left, the other topics lose batches in turn.
    pub history_bytes: usize,
    /// Requests whose bodies are being read (`busy`): each may hold a largest event. If publishing needs a token, all these
    /// places are for publishers, and clients without the token have a quarter as many (at least 1) of their own. One client may
    /// use half of either. A publish connection of lines has a place while one of its lines is unfinished or being appended.
    pub requests: usize,
    /// Memory of unfinished WebSocket messages on each shard (close 1013), and the same for bodies that are being read (503).
    pub unfinished_bytes: usize,
    /// Streams of one HTTP/2 connection at a time (`REFUSED_STREAM`): RFC 9113 §5.1.2 recommends at least a hundred.
    pub h2_streams: u32,
    /// Unprocessed streams that one HTTP/2 connection may reset. One more ends the connection (CVE-2023-44487).
    pub h2_resets: usize,
    /// Idempotency keys remembered at a time, on each shard.
    pub idempotency_keys: usize,
    /// How long an idempotency key is remembered.
    pub idempotency_window: Duration,
    /// Unsent bytes that the kernel holds for one subscriber: few, so that a stopped reader holds little (`TCP_NOTSENT_LOWAT`).
    pub unsent_bytes: usize,
    /// All bytes that the kernel may hold, including sent bytes without acknowledgement: the bytes in flight to
    /// one subscriber on a long line (`SO_SNDBUF`, which the kernel doubles for its bookkeeping, socket(7)).
    /// If it is not set, the kernel decides by the line's needs, up to `net.ipv4.tcp_wmem`.
    pub send_buffer_bytes: Option<usize>,
    /// Size of the pipe between a subscriber and its HTTP/2 stream, or its long poll's answer, in bytes.
    pub stream_buffer_bytes: usize,
    /// Bytes of text that compressed messages refer to, for each topic and format with compressed subscribers: a power of two from 512
    /// to 32 KiB. 0: each message is compressed alone.
    pub compression_context_bytes: usize,
    /// Bytes of a subscriber's waiting control messages. Above this its commands wait unread.
    pub control_bytes: usize,
    /// Memory on each shard for answers that clients have not read: over HTTP, and over WebSocket the part
    /// above `control_bytes`. Above this, the server closes connections (4002) whose clients have read
    /// nothing: first those of the address with the most unread data, and of these the one with the most.
    /// Many commands' answers and lists fit, and one largest answer always does. History and files are not
    /// held as a whole.
    pub answer_bytes: usize,
    /// Memory on each shard for old batches that are kept only because a frame is partly sent. Old batches
    /// that are kept only for answers to reads may use as much again. Above this the connection that stalls
    /// longest, or that keeps the most, is closed (4002).
    pub pinned_bytes: usize,
    /// A partly sent frame, or any answer, must make progress within this time (close 4002).
    pub write_timeout: Duration,
    /// A peer must acknowledge bytes, and open a window that it has closed, within this time (`TCP_USER_TIMEOUT`); an idle peer
    /// is probed (`SO_KEEPALIVE`). The server notices a peer that vanished within this time and a heartbeat.
    pub peer_timeout: Duration,
    /// Bytes to one socket in one visit of a walk.
    pub visit_bytes: usize,
    /// Time of one slice of a walk, after which other work continues.
    pub delivery_slice: Duration,
    /// Time in one turn for reading what clients send. The rest waits for the next turn, even in the middle of one client's data.
    pub read_slice: Duration,
    /// Messages that wait for a shard, from all others: batches and sockets.
    pub messages: usize,
    /// Publishes that wait for a shard, each with the events of one read: separate, so that a flood delays only publishers.
    pub publishes: usize,
}

impl Limits {
    /// Returns these limits with the changeable ones of `others`: those of connections, of rates, and of new topics per address.
    pub(crate) fn reloaded(&self, others: &Self) -> Self {
        Self {
            connections: others.connections,
            connections_per_address: others.connections_per_address,
            subscribed_topics_per_address: others.subscribed_topics_per_address,
            new_fetched_per_address: others.new_fetched_per_address,
            rates_of_connection: others.rates_of_connection,
            rates_of_subject: others.rates_of_subject,
            rates_of_address: others.rates_of_address,
            ..*self
        }
    }

    /// Returns the limit of connections from one address.
    pub fn connections_of_one_address(&self) -> usize {
        self.connections_per_address.unwrap_or_else(|| (self.connections / 10).max(100))
    }

    /// Returns the maximum bytes of a command of a client that may publish.
    pub(crate) fn command_bytes(&self) -> usize {
        self.event_bytes + COMMAND_ROOM_BYTES
    }

    /// Returns a client's share of `pinned_bytes` for its reads: a quarter, so that others find room. Further reads are refused (`busy`).
    pub(crate) fn pinned_share_bytes(&self) -> usize {
        self.pinned_bytes / 4
    }

    /// Returns how many histories a shard sends at a time; more wait. They leave a quarter of `answer_bytes` to other answers.
    pub(crate) fn history_queries(&self) -> usize {
        (self.answer_bytes / 4 * 3 / HISTORY_QUERY_BYTES).max(1)
    }

    /// Returns the limit for one client: half of those.
    pub(crate) fn history_queries_of_one(&self) -> usize {
        self.history_queries().div_ceil(2)
    }

    /// Returns the places for clients without the token, if publishing needs a token.
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
            header_timeout: Duration::from_secs(10),
            keep_alive: Duration::from_secs(75),
            body_timeout: Duration::from_secs(30),
            event_bytes: EVENT_BYTES,
            topics: 100_000,
            subscribed_topics: 100_000,
            subscribed_topics_per_address: 1_000,
            new_fetched_per_address: 50,
            queries: 256,
            queries_per_address: 16,
            query_bytes_per_address: 16 << 20,
            fetches: 256,
            rates_of_connection: Rates {
                // Not limited per connection (`Act::IN_CONNECTIONS`).
                handshakes: Rate::new(1),
                commands: Rate::new(1_000),
                publishes: Rate::new(10_000),
                bytes: Rate::new(16 << 20),
            },
            rates_of_subject: Rates {
                handshakes: Rate::new(2_000),
                commands: Rate::new(2_000),
                publishes: Rate::new(20_000),
                bytes: Rate::new(32 << 20),
            },
            rates_of_address: Rates {
                handshakes: Rate::new(10_000),
                commands: Rate::new(20_000),
                publishes: Rate::new(200_000),
                bytes: Rate::new(256 << 20),
            },
            subscriptions: SUBSCRIPTIONS,
            history_bytes: 1 << 30,
            requests: 1024,
            unfinished_bytes: 64 << 20,
            h2_streams: 256,
            h2_resets: 20,
            idempotency_keys: 100_000,
            idempotency_window: Duration::from_secs(300),
            unsent_bytes: 16 << 10,
            send_buffer_bytes: None,
            stream_buffer_bytes: 32 << 10,
            compression_context_bytes: 4 << 10,
            control_bytes: 64 << 10,
            answer_bytes: 8 << 20,
            pinned_bytes: 8 << 20,
            write_timeout: Duration::from_secs(30),
            peer_timeout: Duration::from_secs(45),
            visit_bytes: 1 << 20,
            delivery_slice: Duration::from_millis(1),
            read_slice: Duration::from_millis(1),
            messages: 1024,
            publishes: 64,
        }
    }
}
