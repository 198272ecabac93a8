//! Creation and checks of streams.

use std::time::Duration;

use serde_json::json;
use thalweg_nats::{Settings, StreamSettings, sequence_of};
use thalweg_testing::TemporaryPath;

use crate::harness::{Node, Operator, Servers, open, settings, stream, wait_for};

fn with(servers: &Servers, stream: StreamSettings) -> Settings {
    Settings { streams: vec![stream], ..settings(servers) }
}

#[test]
fn a_stream_is_created_as_the_settings_say() {
    let Some(servers) = Servers::start(1) else { return };
    let pattern = "cars/*/v1.2/**".parse().unwrap();
    let settings = with(&servers, StreamSettings { pattern, bytes: Some(1 << 30), ..stream() });
    drop(open(&settings).unwrap());
    let info = Operator::new(&servers).info();
    let config = &info["config"];
    assert_eq!(config["subjects"], json!(["thalweg.cars.*.v1/2.>"]));
    assert_eq!(config["storage"], "file");
    assert_eq!(config["discard"], "old");
    assert_eq!(config["max_bytes"], 1 << 30);
    assert_eq!(config["max_age"], 3_600_000_000_000i64);
    assert_eq!(config["duplicate_window"], 300_000_000_000i64);
    assert_eq!(config["allow_direct"], true);
    assert_eq!(config["metadata"]["thalweg"], "1");
    assert_eq!(config["metadata"]["generation"], "1");
}

#[test]
fn many_may_open_it_at_once() {
    let Some(servers) = Servers::start(1) else { return };
    let settings = settings(&servers);
    let nodes: Vec<_> = std::thread::scope(|scope| {
        let starts: Vec<_> = (0..6).map(|_| scope.spawn(|| Node::start(&settings))).collect();
        starts.into_iter().map(|start| start.join().unwrap()).collect()
    });
    for node in &nodes {
        assert_eq!(node.stream.epoch, nodes[0].stream.epoch);
        node.store("t", "1", None).unwrap();
    }
}

#[test]
fn settings_that_do_not_fit_are_reported() {
    let Some(servers) = Servers::start(1) else { return };
    drop(open(&settings(&servers)).unwrap());
    let error = |stream: StreamSettings| open(&with(&servers, stream)).unwrap_err();
    let other = StreamSettings { pattern: "cars".parse().unwrap(), ..stream() };
    let says = error(other.clone());
    assert!(says.contains("--subjects 'thalweg.cars'"), "{says}");
    let says = error(StreamSettings { name: "other".to_owned(), ..other });
    assert!(says.contains("another stream stores some of them"), "{says}");
    let says = error(StreamSettings { replicas: 3, ..stream() });
    assert!(says.contains("--replicas 3"), "{says}");
    let says = error(StreamSettings { age: Duration::from_secs(1), ..stream() });
    assert!(says.contains("set at least 5m"), "{says}");

    let operator = Operator::new(&servers);
    operator.delete_stream();
    let says = error(StreamSettings { replicas: 3, ..stream() });
    assert!(says.contains("3 servers for replicas"), "{says}");
    operator.create_stream(&json!({ "name": "thalweg-s", "subjects": ["thalweg.>"] }));
    let says = error(stream());
    assert!(says.contains("was not made by Thalweg"), "{says}");
}

#[test]
fn rejected_credentials_are_reported() {
    let Some(servers) = Servers::start_with(1, &["--user", "me", "--pass", "p@ss"]) else { return };
    let mut settings = settings(&servers);
    let address = settings.servers[0].replace("nats://", "");
    for wrong in [format!("nats://{address}"), format!("nats://me:wrong@{address}")] {
        settings.servers = vec![wrong];
        let says = open(&settings).unwrap_err();
        assert!(says.contains("check its credentials") && !says.contains("wrong"), "{says}");
    }
    settings.servers = vec![format!("nats://me:p%40ss@{address}")];
    Node::start(&settings).store("t", "1", None).unwrap();
}

#[test]
fn tls_is_checked_by_the_authorities_that_are_named() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let folder = TemporaryPath::folder("nats-tls");
    let file = |name: &str, text: String| {
        let path = folder.join(name);
        std::fs::write(&path, text).expect("write a file");
        path
    };
    let certificate = file("cert.pem", made.cert.pem());
    let key = file("key.pem", made.signing_key.serialize_pem());
    let (cert, key) = (certificate.to_str().unwrap(), key.to_str().unwrap());
    let arguments = ["--tls", "--tlscert", cert, "--tlskey", key];
    if let Some(servers) = Servers::start_with(1, &arguments) {
        let address = servers.urls()[0].replace("nats://127.0.0.1", "tls://localhost");
        let mut settings = Settings { servers: vec![address], ..settings(&servers) };
        for (ca_file, expected) in
            [(None, "file of authorities"), (Some(folder.join("none.pem")), "none.pem")]
        {
            let says = open(&Settings { ca_file, ..settings.clone() }).unwrap_err();
            assert!(says.contains(expected), "{says}");
        }
        settings.ca_file = Some(certificate.clone());
        Node::start(&settings).store("t", "1", None).unwrap();
        settings.credentials = Some(folder.join("none.creds"));
        let says = open(&settings).unwrap_err();
        assert!(says.contains("none.creds"), "{says}");
    }
}

#[test]
fn reading_begins_as_far_back_as_it_is_to() {
    let Some(servers) = Servers::start(1) else { return };
    let mut first = Node::start(&settings(&servers));
    let store = || first.store("t", "1", None).unwrap().sequence;
    for n in 1..=3 {
        assert_eq!(store(), n);
    }
    let from = |warm_ms: u64| {
        let warm = Duration::from_millis(warm_ms);
        let node = Node::start(&with(&servers, StreamSettings { warm, ..stream() }));
        sequence_of(node.stream.from)
    };
    // On a busy machine, the last message may become too old, too, before the check.
    let last = wait_for("one that is newer than the others", || {
        wait_for("old ones", || (from(1000) == from(0)).then_some(()));
        let last = store();
        (from(1000) == last).then_some(last)
    });
    assert_eq!(from(3_600_000), 1);
    assert_eq!(from(0), last + 1);
    first.end();
}
