//! Each limit from outside: the refusal, its metric, and a bystander that does not notice.
//!
//! - `connections`: connections in total and per address
//! - `heads`: request heads that are too slow, too large or incomplete
//! - `bodies`: published bodies that are too slow, too large, broken or too many
//! - `messages`: messages on a WebSocket
//! - `inflating`: compressed messages
//! - `keeping`: subscriptions, histories, idempotency keys
//! - `topics`: topics with events, and topics with subscribers only
//! - `words`: error texts, nesting depth, unknown names
//! - `queries`: the cost of queries
//! - `readers`: clients that do not read

mod bodies;
mod connections;
mod heads;
mod inflating;
mod keeping;
mod messages;
mod queries;
mod readers;
mod topics;
mod words;
