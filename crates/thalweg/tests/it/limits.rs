//! Each limit from outside: how whoever goes beyond it is refused, where that is
//! counted, and that a bystander notices nothing.
//!
//! - `connections`: connections in all and from one address
//! - `heads`: requests' heads that are too slow, too large, or none
//! - `bodies`: what is published, too slow, too large, broken, or too much at a time
//! - `messages`: what a WebSocket is told
//! - `inflating`: the same, compressed
//! - `keeping`: subscriptions, histories, idempotency keys
//! - `topics`: those that have events, and those that have only subscribers
//! - `words`: what is said back, how deep it nests, what was meant by it
//! - `queries`: what queries of clients cost
//! - `readers`: those who do not read what they asked for

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
