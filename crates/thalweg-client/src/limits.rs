//! Every limit of the client, with why.

use std::time::Duration;

/// A message, a line, an answer: what a server can make the client hold. An
/// envelope may be larger than the largest event, so there is room for many.
pub(crate) const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// A refusal's body: one sentence, or some proxy's page of which only the beginning
/// is of use.
pub(crate) const REFUSAL_BYTES_MAX: usize = 64 << 10;

/// TCP and TLS together: longer than several retransmissions of a first packet.
pub(crate) const CONNECT_WAIT: Duration = Duration::from_secs(10);

/// From a request to its whole answer, where nothing keeps the server from
/// answering at once.
pub(crate) const ANSWER_WAIT: Duration = Duration::from_secs(15);

/// How long a publish is tried again: servers remember an idempotency key for five
/// minutes, so that one repeated later than that could be appended twice.
pub(crate) const PUBLISH_WAIT: Duration = Duration::from_secs(240);

/// How long a long poll asks the server to wait.
pub(crate) const POLL_WAIT: Duration = Duration::from_secs(25);

/// Connections kept for the next request.
pub(crate) const IDLE_LINKS_MAX: usize = 8;

/// The heartbeats that may be missing before a connection counts as dead.
pub(crate) const HEARTBEATS_MISSED_MAX: u32 = 3;

/// A connection that worked for less was of no use: the next one is made later each time. The same
/// as in the SDK, as are the delays below (`docs/wire.md`, "Reconnecting").
pub(crate) const SHORT_LIFE: Duration = Duration::from_secs(5);

/// The bound of the delay after a connection that worked: the client hardly misses anything.
pub(crate) const BACKOFF_SOON: Duration = Duration::from_millis(500);

/// The first bound of the delay after a connection that did not: at least a second passes.
pub(crate) const BACKOFF_FIRST: Duration = Duration::from_secs(2);

/// The largest bound of a delay, unless the server asks for more.
pub(crate) const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// The longest wait that a `Retry-After` may ask for: a wrong number must not end a subscription.
pub(crate) const RETRY_AFTER_MAX: Duration = Duration::from_secs(86_400);

/// Added to a `Retry-After` at random, since many clients were told the same.
pub(crate) const RETRY_AFTER_JITTER: Duration = Duration::from_secs(1);

/// Topics that one page of the list asks for.
pub(crate) const TOPICS_PER_PAGE: usize = 1000;

/// Elements that a patch may have arrays move: some 50 ms of work. The same as in the SDK.
pub(crate) const PATCH_MOVES_MAX: usize = 1 << 24;

/// How deep a pointer of a patch may reach: as deep as JSON is read (`serde_json`).
pub(crate) const POINTER_DEPTH_MAX: usize = 128;

/// How deep a document may be: what is as deep as JSON is read, at the end of such a pointer. It is written and
/// dropped by recursion.
pub(crate) const DOCUMENT_DEPTH_MAX: usize = 256;
