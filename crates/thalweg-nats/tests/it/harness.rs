//! The harness of the tests.
//!
//! - `servers`: NATS servers on this machine, alone or as a cluster
//! - `node`: a server of Thalweg that uses this crate
//! - `operator`: another client of NATS

mod node;
mod operator;
mod servers;

use std::time::Duration;

use thalweg_core::stream::FeedKind;
use thalweg_nats::{Settings, StreamSettings, TicketSettings};

pub(crate) use node::{Call, Node, Page, Writer, open};
pub(crate) use operator::Operator;
pub(crate) use servers::Servers;
pub(crate) use thalweg_testing::{skipped, wait_for};

pub(crate) const TICKET_LIFE: Duration = Duration::from_secs(30);

/// The settings of a stream `s` of all topics, with an hour of history.
pub(crate) fn stream() -> StreamSettings {
    StreamSettings {
        name: "s".to_owned(),
        pattern: "**".parse().expect("a pattern"),
        kind: FeedKind::Log,
        replicas: 1,
        age: Duration::from_secs(3600),
        bytes: None,
        warm: Duration::from_secs(3600),
    }
}

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
