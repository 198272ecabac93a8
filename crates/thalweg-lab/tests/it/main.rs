//! The lab against subjects that live in the test: a small server of the wire that can be told to misbehave.

mod browser;
mod ceiling;
mod cheating;
mod conversation;
mod external;
mod fake;
mod fossil;
mod generated;
mod http2;
mod listen;
mod publishing;
mod report;
mod resources;
mod stored;
mod swarm;
