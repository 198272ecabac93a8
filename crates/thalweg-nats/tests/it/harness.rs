//! What the tests stand on.
//!
//! - `servers`: NATS servers on this machine, alone or as a cluster
//! - `node`: the crate as a server of Thalweg has it
//! - `operator`: somebody else's client

mod node;
mod operator;
mod servers;

use std::time::Duration;

use thalweg_nats::{Settings, StreamSettings, TicketSettings};
use thalweg_server::backend::TICKET_LIFE;

pub(crate) use node::{Heard, Node, Writer};
pub(crate) use operator::Operator;
pub(crate) use servers::Servers;
pub(crate) use thalweg_testing::{skipped, wait_for};

/// A stream `s` of all topics, with an hour of history.
pub(crate) fn stream() -> StreamSettings {
    StreamSettings {
        name: "s".to_owned(),
        pattern: "**".parse().expect("a pattern"),
        has_values: false,
        replicas: 1,
        age: Duration::from_secs(3600),
        bytes: None,
        warm: Duration::from_secs(3600),
    }
}

/// That stream, at these servers.
pub(crate) fn settings(servers: &Servers) -> Settings {
    let replicas = servers.count();
    let streams = vec![StreamSettings { replicas, ..stream() }];
    Settings {
        servers: servers.urls(),
        credentials: None,
        ca_file: None,
        streams,
        tickets: Some(TicketSettings { replicas, life: TICKET_LIFE }),
    }
}
