//! Every limit of the client, with its reason.

use std::time::Duration;

/// Text of a message, a line, an answer. It is larger than the largest event, because an envelope may have many: at most
/// `MESSAGE_EVENTS_MAX` (thalweg-wire), which bounds the memory besides the text.
pub(crate) const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// Inflated bytes of a compressed body that are held besides the message: a piece of this size is searched for messages before the
/// next one.
pub(crate) const INFLATED_BYTES: usize = 64 << 10;

/// A refusal's body: one sentence, or a proxy's page, whose beginning suffices.
pub(crate) const REFUSAL_BYTES_MAX: usize = 64 << 10;

/// Body of the answer to a probe: the metrics of a server fit.
pub(crate) const PROBE_BYTES_MAX: usize = 1 << 20;

/// TCP and TLS together: longer than several retransmissions of a first packet.
pub(crate) const CONNECT_WAIT: Duration = Duration::from_secs(10);

/// From a request to its whole answer, if the server can answer at once.
pub(crate) const ANSWER_WAIT: Duration = Duration::from_secs(15);

/// Duration of retrying a publish: servers keep an idempotency key for five minutes, and a later retry could append the
/// event twice.
pub(crate) const PUBLISH_WAIT: Duration = Duration::from_secs(240);

/// Wait of a long poll, which the client requests.
pub(crate) const POLL_WAIT: Duration = Duration::from_secs(25);

/// Connections kept for the next request.
pub(crate) const IDLE_LINKS_MAX: usize = 8;

/// Missing heartbeats after which a connection counts as dead.
pub(crate) const HEARTBEATS_MISSED_MAX: u32 = 3;

/// A connection that worked for less time increases the backoff. This limit and the delays below are as in the SDK
/// (`docs/reference/errors.md`, "Reconnecting").
pub(crate) const SHORT_LIFE: Duration = Duration::from_secs(5);

/// The bound of the delay after a connection that worked, so that the client misses almost nothing.
pub(crate) const BACKOFF_SOON: Duration = Duration::from_millis(500);

/// The first bound of the delay after a failed connection: at least a second passes.
pub(crate) const BACKOFF_FIRST: Duration = Duration::from_secs(2);

/// The largest bound of a delay, unless the server asks for more.
pub(crate) const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// The longest wait of a `Retry-After`: a wrong number must not end a subscription.
pub(crate) const RETRY_AFTER_MAX: Duration = Duration::from_secs(86_400);

/// Random addition to a `Retry-After`, which many clients receive at once.
pub(crate) const RETRY_AFTER_JITTER: Duration = Duration::from_secs(1);

/// Topics per page of the list.
pub(crate) const TOPICS_PER_PAGE: usize = 1000;

/// Array elements that a patch may move: about 50 ms of work. The same as in the SDK.
pub(crate) const PATCH_MOVES_MAX: usize = 1 << 24;

/// Depth of a patch's pointer: the depth of parsed JSON (`serde_json`).
pub(crate) const POINTER_DEPTH_MAX: usize = 128;

/// Depth of a document: the depth of such a pointer, and of a value of parsed JSON at its end. Writing and dropping a
/// document recurse.
pub(crate) const DOCUMENT_DEPTH_MAX: usize = 256;
