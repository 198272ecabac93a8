//! A shard: one thread with its own runtime, sockets and topics. `thalweg-core` has the feeds and the fan-out,
//! `transport` the sockets.
//!
//! Each field of a shard has one owner. `topics` does not know subscribers, `broker` does not know topics, and
//! `subscribers` and `ingest` know topics but not each other. Work that needs several owners is in `handle`. Modules in an owner's
//! folder are private to it: its file re-exports what others may use.
//!
//! ```text
//! handle            work that the tasks on a shard's thread call
//!   turn              the loop: read sockets, run sources, seal, post, walk, sleep
//!   wake              wakes the loop, and lets ready tasks run first
//!   peers             processes messages of other shards
//!   commands          executes commands of clients
//!   inbound           processes the data of connections in order
//!   subscribe         turns a request into a subscriber
//!   sessions          requests of clients that do not send on their connection
//!   reconnecting      tells subscribers to reconnect
//!   stream_health     the health of the connection to streams             (pure)
//!   disconnecting     ends connections for an administrator
//!   publishers        publishers of lines
//!   reads             histories, and the list of topics
//!   overview          the activity of all topics
//!   newest_search     finds the newest events in a stream                   (pure)
//!   time_search       finds the first event since a time                    (pure)
//!   ad_hoc_queries    queries of clients
//!   planning          the schedule for parsing and planning them
//!   fair_turns        runs work one after the other, clients in turn
//!
//! subscribers       connections
//!   connection        a writer, a subscriber, and the data of its client
//!   walk              visits to dirty connections, within budgets
//!   upkeep            heartbeats, stalls, reconnects
//!   reading           reads connections and splits their data into messages
//!   requests          takes the requests of sessions
//!   tunnels           wakes the shard for HTTP/2 streams in both directions
//!   read_budget       the time that a turn may spend on reading
//!   answering         bounds unread answers
//!   history_query     a query for a topic's history, while its answer is sent
//!   poll              the shard's own epoll
//!
//! ingest            the entry point for events
//!   queries           the queries that run here
//!   running_query     one of them
//!   query_start       where a shared query begins                         (pure)
//!   query_pace        the time and memory that a query may use
//!   query_log         logs the losses of a query
//!   sources           running sources
//!   fetching          tells the fetcher about demand
//!   idempotency       results of publishes with an idempotency key
//!
//! topics            order, batches, history
//!   feeds             the table of topics
//!   local_topic       one topic
//!   origin            the origin of a topic's events
//!   limits            the limits on the number of topics
//!   demand            the demand for a topic                              (pure)
//!   ending            ends and removes topics
//!   memory            the memory of topics
//!   replication       copies on other shards
//!   broker_topics     topics that a broker orders and stores
//!   fetched           topics that are fetched
//!   lookups           answers to other shards' questions
//!   keyed             keys, conditions and limits of keyed topics
//!   expiring          publishes the removals of keys that expire
//!   expiries          the times at which keys expire
//!   presence          publishes the members of topics
//!   members           the members of topics with presence
//!   shared_presence   members that several servers share
//!   shared_members    their changes and comparisons                        (pure)
//!
//! presence_nodes    the servers that share members
//!
//! broker            a shard's part of broker topics
//!   order             the order of a broker topic, and the brokers' streams
//!   stores            publishes, on their way to the broker
//!   backfills         older events for subscribers
//!   history_backfill  older events for one history query
//!   pauses            pauses of a topic                                   (pure)
//!
//! common            the parts that all shards share
//! open_sockets      counts sockets over which requests may arrive
//! message           messages between shards
//! session_input     ids of subscribers, and the requests of their sessions
//! page              a page of a topic's history as JSON                   (pure)
//! publish_result    the result of a publish
//! topic_ranking     the answer of the overview                            (pure)
//! topic_samples     the activity of all topics, sampled                   (pure)
//! topic_subscribers the subscribers of a topic, as the overview shows them (pure)
//! timers            keys with due times
//! alarm             the shard's timer
//! ```

mod alarm;
mod broker;
mod common;
mod handle;
mod ingest;
mod message;
mod open_sockets;
mod page;
mod presence_nodes;
mod publish_result;
mod session_input;
mod subscribers;
mod timers;
mod topic_ranking;
mod topic_samples;
mod topic_subscribers;
mod topics;

pub(crate) use common::{Common, Peer, ShardQueues};
pub(crate) use handle::{
    AdHocQuery, Context, Handle, HistoryPage, NewSubscriber, Polled, Subscription, run,
};
pub(crate) use ingest::IdempotencyHasher;
pub(crate) use message::{Arrival, Disconnect, ShardMessage, TopicListing};
pub(crate) use publish_result::PublishResult;
pub(crate) use session_input::SubscriberId;
pub(crate) use topic_ranking::{OverviewLimits, Ranking, TopicOrder};
