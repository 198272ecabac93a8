//! The JSON hub protocol of SignalR, versions 1 and 2, server side, sans I/O. Quoted sections are those of
//! `HubProtocol.md` and `TransportProtocols.md` (github.com/dotnet/aspnetcore, `src/SignalR/docs/specs`).
//!
//! ```text
//! record       text between record separators
//! handshake    the first record of a client, and its answer
//! hub_message  the other records of a client
//! stream_id    the invocation id of a stream, which each of its items repeats
//! outgoing     records for one client: completions, pings, closes
//! delivery     events, gaps and ends of topics, which subscribers share
//! negotiation  the answer to `negotiate`
//! ```

pub(crate) mod delivery;
mod handshake;
mod hub_message;
mod negotiation;
mod outgoing;
mod record;
mod stream_id;

pub use delivery::complete as complete_stream;
pub use handshake::{HANDSHAKE_ACCEPTED, HandshakeError, accept_handshake, handshake_refused};
pub use hub_message::{HubError, HubMessage, Invocation};
pub use negotiation::{NegotiateVersion, Negotiation};
pub use outgoing::{Outcome, PING, close, completion};
pub use record::record_len;
pub use stream_id::StreamId;
