//! The suite that any broker must pass.

use std::time::Duration;

use thalweg_broker_tests::{Node, Rig, conformance};
use thalweg_core::stream::FeedKind;
use thalweg_nats::{Nats, Settings, StreamSettings};
use tokio::runtime::Builder;

use crate::harness::{Operator, Servers, settings, stream};

struct Jetstream {
    servers: Servers,
    settings: Settings,
}

impl Jetstream {
    fn start() -> Option<Self> {
        let servers = Servers::start(1)?;
        let pattern = |pattern: &str| pattern.parse().expect("a pattern");
        let log = StreamSettings { pattern: pattern("log/**"), ..stream() };
        let values = StreamSettings {
            name: "values".to_owned(),
            pattern: pattern("values/**"),
            kind: FeedKind::Value,
            age: Duration::ZERO,
            ..stream()
        };
        let keys = StreamSettings {
            name: "keys".to_owned(),
            pattern: pattern("keys/**"),
            kind: FeedKind::Keyed,
            age: Duration::ZERO,
            ..stream()
        };
        let settings = Settings { streams: vec![log, values, keys], ..settings(&servers) };
        Some(Self { servers, settings })
    }
}

impl Rig for Jetstream {
    type Broker = Nats;

    fn open(&self) -> impl Future<Output = Result<Nats, String>> + Send + 'static {
        let settings = self.settings.clone();
        async move { thalweg_nats::open(&settings).await }
    }

    fn restart(&mut self) {
        self.servers.kill(0);
        self.servers.run(0);
    }

    fn trim(&mut self) {
        Operator::new(&self.servers).purge_stream();
        let opened = self.open();
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let stored = runtime.block_on(async { opened.await?.compact_all().await });
        stored.expect("the states are stored");
    }

    fn renew(&mut self) {
        let operator = Operator::new(&self.servers);
        let config = operator.info()["config"].clone();
        operator.delete_stream();
        operator.create_stream(&config);
    }

    fn cut(&mut self, is_cut: bool) {
        self.servers.freeze(0, is_cut);
    }
}

conformance!(Jetstream::start);

#[test]
fn publishes_with_keys_to_a_value_topic_are_stored_one_by_one() {
    let Some(rig) = Jetstream::start() else { return };
    let node = Node::start(rig.open()).expect("a broker");
    let in_flight_max: Vec<_> = node.streams.iter().map(|stream| stream.in_flight_max).collect();
    assert!(in_flight_max[0] > 1 && in_flight_max[1] == 1, "{in_flight_max:?}");
}
