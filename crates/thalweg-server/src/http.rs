//! Connections served by HTTP. hyper reads requests. After a request to subscribe over HTTP/1.1 it releases the socket,
//! which becomes a slab entry of the shard: hyper's own streaming bodies would cost a wake-up, a task and chunked
//! encoding for each subscriber. Over HTTP/2 subscribers share a socket, and hyper sends: the bytes for a subscriber
//! go through a pipe into its response. A WebSocket uses its stream as a tunnel instead.
//!
//! ```text
//! arrival          a new socket, and its HTTP version
//!   preface        the first bytes of HTTP/2
//! http1            a connection with one request at a time
//! http2            a connection with many streams
//! takeover         turns a request into a subscriber with a socket, a pipe, a tunnel or polls
//! context          HTTP on a shard, and a connection, as requests see them
//! routes           a request → its answer
//!   identify       the token's holder, and its rates
//!   paths          the topic in a path
//! sessions         requests that name a session: records and polls of its client
//! post             bodies: events, commands, tickets
//! tickets          issues and redeems tickets, which this server or a broker keeps
//! columns          the columns of topics
//! administer       disconnects clients for administrators
//! inspect          the state of the server: health, metrics, the list of topics
//! pages            the pages for browsers
//! runs             the lab's runs: list and files
//! trace_body       the lines of a trace, as a body
//! traced_request   the line of a request in the trace of its subject
//! body             the body of a request, as it arrives
//! body_permits     limits how many bodies are read at a time
//! respond          heads of answers
//! content          bodies of answers
//! timeouts         time limits of peers
//! line_body        bodies of lines, published as they arrive
//! repolls          reads all received bytes of a body
//! rejection        connections that are rejected with a reason
//! discard          discards the rest of a body that the answer does not need
//! coalescing       one send for several writes of HTTP/2
//! refused_streams  counts the streams that HTTP/2 refuses
//! ```

mod administer;
mod arrival;
mod body;
mod body_permits;
mod coalescing;
mod columns;
mod content;
mod context;
mod discard;
mod http1;
mod http2;
mod identify;
mod inspect;
mod line_body;
mod overview;
mod pages;
mod paths;
mod post;
mod preface;
mod refused_streams;
mod rejection;
mod repolls;
mod respond;
mod routes;
mod runs;
mod sessions;
mod takeover;
mod tickets;
mod timeouts;
mod trace_body;
mod traced_request;

pub(crate) use arrival::serve_connection;
pub(crate) use body_permits::BodyPermits;
pub(crate) use context::{Http, Shared, ShutdownState};
pub(crate) use rejection::reject;
pub(crate) use tickets::TicketStore;
