//! The sections `[limits]` and `[tuning]` of the file.

use serde::Deserialize;
use thalweg_server::config::{Limits, Rate, Rates};

use super::{
    merge::{over, set},
    values::{Count, Size, Time, bytes_text},
};

/// The server rejects requests above these limits.
// A test compares each `[default: X]` with `Limits::default`.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct LimitTable {
    /// Maximum number of connections; each takes a file descriptor and about a kilobyte [default: 100000]
    connections: Option<Count>,
    /// Maximum number of connections of one address (IPv6: one /64); loopback is not counted [default: a
    /// tenth of all, at least 100]
    connections_per_address: Option<Count>,
    /// Maximum number of streams of one HTTP/2 connection at a time [default: 256]
    http2_streams: Option<Count<1, 65_536>>,
    /// Maximum size of a request header; a quarter of this over HTTP/2 [default: 64KiB]
    header_bytes: Option<Size<{ 8 << 10 }, { 1 << 20 }>>,
    /// Close a connection without a request after this long; choose more than the proxy in front does [default: 75s]
    keep_alive_timeout: Option<Time>,
    /// Close a connection whose peer acknowledges no TCP data for this long [default: 45s]
    peer_timeout: Option<Time<1_000_000>>,
    /// Maximum number of requests whose bodies the server reads at a time; clients without the right to
    /// publish have a quarter of this [default: 1024]
    requests: Option<Count>,
    /// Maximum size of an event as published [default: 1MiB]
    event_bytes: Option<Size<1, { 16 << 20 }>>,
    /// Maximum memory of incomplete WebSocket messages on each shard, and the same for request bodies
    /// [default: 64MiB]
    unfinished_bytes: Option<Size>,
    /// Maximum memory of responses that clients do not read, on each shard [default: 8MiB]
    ///
    /// Above it the server closes connections that read nothing, first those of the address with the most
    /// unread data. The limit is at least twice the largest response.
    unread_answer_bytes: Option<Size<{ 64 << 10 }, { 1 << 30 }>>,
    /// Maximum memory of the histories of all topics; above it the topic that grows loses its oldest events
    /// [default: 1GiB]
    history_bytes: Option<Size>,
    /// Maximum number of topics with events or a source, on each shard [default: 100000]
    topics: Option<Count>,
    /// Maximum number of topics that have only subscribers, on each shard [default: 100000]
    subscribed_topics: Option<Count>,
    /// Maximum number of topics that have only subscribers of one address (IPv6: one /64); loopback is not
    /// counted [default: 1000]
    subscribed_topics_per_address: Option<Count>,
    /// Maximum number of subscriptions of one connection [default: 256]
    subscriptions_per_connection: Option<Count<1, 10_000>>,
    /// Maximum number of queries of clients; each reads all events of a topic [default: 256]
    queries: Option<Count>,
    /// Maximum number of queries of the clients of one address; loopback is not counted [default: 16]
    queries_per_address: Option<Count>,
    /// Exclude an event from windows of queries if its time is this far ahead of its publication [default: 1h]
    ///
    /// Use the same value on all servers of a cluster.
    query_lead: Option<Time<0, { u64::MAX }>>,
    /// Maximum number of fetches from all upstreams at a time [default: 256]
    fetches: Option<Count<1, 10_000>>,
    /// Maximum number of new topics per second that the server fetches for clients of one address (IPv6: one
    /// /64); loopback is not counted [default: 50]
    new_fetched_topics_per_address: Option<Count>,
    /// Maximum number of idempotency keys that each shard remembers [default: 100000]
    idempotency_keys: Option<Count>,
    /// Remember an idempotency key for this long [default: 5m]
    idempotency_window: Option<Time>,
    /// Maximum rates of one connection, per second, with bursts of ten times as much. Clients on loopback
    /// count only with signed tokens; clients with other tokens never count
    connection_rates: RateTable,
    /// Maximum rates of all connections of one subject of signed tokens
    subject_rates: RateTable,
    /// Maximum rates of all connections of one address (IPv6: one /64)
    address_rates: RateTable,
}

/// Rates, each per second.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct RateTable {
    /// Requests other than publishes and commands; not for a connection
    handshakes: Option<Count>,
    /// Commands
    commands: Option<Count>,
    /// Published events
    publishes: Option<Count>,
    /// Bytes of commands and request bodies
    bytes: Option<Size>,
}

/// Buffers and time slices. The defaults suit all known loads.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct TuningTable {
    /// Size of a connection's send buffer in the kernel [default: chosen by the kernel]
    send_buffer_bytes: Option<Size<1, { 1 << 30 }>>,
    /// Maximum unsent bytes in the send buffer; a client that stops reading holds as much memory [default:
    /// 16KiB]
    unsent_bytes: Option<Size<1, { 1 << 30 }>>,
    /// Size of the buffer of an HTTP/2 stream or a long poll [default: 32KiB]
    stream_buffer_bytes: Option<Size<1024, { 1 << 30 }>>,
    /// Bytes of earlier messages that a compressed message refers to, per topic: a power of two, or 0 for none [default: 4KiB]
    compression_context_bytes: Option<Size<0, { 32 << 10 }>>,
    /// Maximum bytes of control messages that wait for one connection; above this the server stops reading
    /// its commands [default: 64KiB]
    control_buffer_bytes: Option<Size<1024, { 1 << 30 }>>,
    /// Maximum memory of old batches that are kept for partly sent frames, on each shard, and the same for
    /// responses [default: 8MiB]
    pinned_bytes: Option<Size<0>>,
    /// Maximum bytes to send to one connection before the next one gets its turn [default: 1MiB]
    visit_bytes: Option<Size<1024, { 1 << 30 }>>,
    /// Send for this long before other work gets its turn [default: 1ms]
    delivery_slice: Option<Time<1, 1_000_000>>,
    /// Read commands for this long before other work gets its turn [default: 1ms]
    read_slice: Option<Time<1, 1_000_000>>,
    /// Maximum number of messages that wait for a shard [default: 1024]
    messages_per_shard: Option<Count<1, 1_000_000>>,
    /// Maximum number of publishes that wait for a shard [default: 64]
    publishes_per_shard: Option<Count<1, 1_000_000>>,
}

over!(LimitTable:
    connections connections_per_address http2_streams header_bytes keep_alive_timeout peer_timeout requests
    event_bytes unfinished_bytes unread_answer_bytes history_bytes topics subscribed_topics
    subscribed_topics_per_address subscriptions_per_connection queries queries_per_address query_lead fetches
    new_fetched_topics_per_address idempotency_keys idempotency_window connection_rates subject_rates address_rates
);
over!(RateTable: handshakes commands publishes bytes);
over!(TuningTable:
    send_buffer_bytes unsent_bytes stream_buffer_bytes compression_context_bytes control_buffer_bytes pinned_bytes visit_bytes
    delivery_slice read_slice messages_per_shard publishes_per_shard
);

impl LimitTable {
    /// Returns how far the time of an event may be ahead of its publication.
    pub(super) fn query_lead(&self) -> Option<std::time::Duration> {
        self.query_lead.map(Into::into)
    }

    /// Sets the limits that the section names. The error is one sentence about limits that contradict each other.
    pub(super) fn set_limits(&self, limits: &mut Limits) -> Result<(), String> {
        set(&mut limits.connections, self.connections);
        limits.connections_per_address = self.connections_per_address.map(Into::into);
        set(&mut limits.h2_streams, self.http2_streams);
        set(&mut limits.head_bytes, self.header_bytes);
        set(&mut limits.keep_alive, self.keep_alive_timeout);
        set(&mut limits.peer_timeout, self.peer_timeout);
        set(&mut limits.requests, self.requests);
        set(&mut limits.event_bytes, self.event_bytes);
        set(&mut limits.unfinished_bytes, self.unfinished_bytes);
        set(&mut limits.answer_bytes, self.unread_answer_bytes);
        set(&mut limits.history_bytes, self.history_bytes);
        set(&mut limits.topics, self.topics);
        set(&mut limits.subscribed_topics, self.subscribed_topics);
        set(&mut limits.subscribed_topics_per_address, self.subscribed_topics_per_address);
        set(&mut limits.subscriptions, self.subscriptions_per_connection);
        set(&mut limits.queries, self.queries);
        set(&mut limits.queries_per_address, self.queries_per_address);
        set(&mut limits.fetches, self.fetches);
        set(&mut limits.new_fetched_per_address, self.new_fetched_topics_per_address);
        set(&mut limits.idempotency_keys, self.idempotency_keys);
        set(&mut limits.idempotency_window, self.idempotency_window);
        self.connection_rates.set_rates(&mut limits.rates_of_connection);
        self.subject_rates.set_rates(&mut limits.rates_of_subject);
        self.address_rates.set_rates(&mut limits.rates_of_address);
        if self.connection_rates.handshakes.is_some() {
            return Err(
                "limits.connection-rates.handshakes: handshakes are not limited per connection: set them \
                        in limits.subject-rates or limits.address-rates"
                    .into(),
            );
        }
        check(limits)
    }
}

/// Checks whether limits that are valid separately contradict each other.
fn check(limits: &Limits) -> Result<(), String> {
    let event_bytes = limits.event_bytes;
    let largest = bytes_text(event_bytes);
    if limits.history_bytes < event_bytes {
        return Err(format!(
            "limits.history-bytes is smaller than one event: write at least {largest}, or lower limits.event-bytes"
        ));
    }
    // A command is larger than its event.
    if limits.unfinished_bytes <= event_bytes {
        return Err(format!(
            "limits.unfinished-bytes has no room for one event: write more than {largest}, or lower limits.event-bytes"
        ));
    }
    Ok(())
}

impl RateTable {
    fn set_rates(&self, rates: &mut Rates) {
        let set = |rate: &mut Rate, per_s: Option<usize>| {
            if let Some(per_s) = per_s {
                *rate = Rate::new(per_s as u64);
            }
        };
        set(&mut rates.handshakes, self.handshakes.map(Into::into));
        set(&mut rates.commands, self.commands.map(Into::into));
        set(&mut rates.publishes, self.publishes.map(Into::into));
        set(&mut rates.bytes, self.bytes.map(Into::into));
    }
}

impl TuningTable {
    /// Sets the limits that the section names. The error is one sentence about an invalid value.
    pub(super) fn set_limits(&self, limits: &mut Limits) -> Result<(), String> {
        limits.send_buffer_bytes = self.send_buffer_bytes.map(Into::into);
        set(&mut limits.unsent_bytes, self.unsent_bytes);
        set(&mut limits.stream_buffer_bytes, self.stream_buffer_bytes);
        set(&mut limits.compression_context_bytes, self.compression_context_bytes);
        set(&mut limits.control_bytes, self.control_buffer_bytes);
        set(&mut limits.pinned_bytes, self.pinned_bytes);
        set(&mut limits.visit_bytes, self.visit_bytes);
        set(&mut limits.delivery_slice, self.delivery_slice);
        set(&mut limits.read_slice, self.read_slice);
        set(&mut limits.messages, self.messages_per_shard);
        set(&mut limits.publishes, self.publishes_per_shard);
        let context = limits.compression_context_bytes;
        if context != 0 && !(context >= 512 && context.is_power_of_two()) {
            return Err(
                "tuning.compression-context-bytes: write 0, or a power of two from 512 to 32KiB"
                    .into(),
            );
        }
        Ok(())
    }
}
