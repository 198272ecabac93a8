//! Stored messages, and answers.

use thalweg_broker::AppendError;
use thalweg_nats::sequence_of;

use crate::harness::{Call, Node, Operator, Servers, settings};

#[test]
fn all_nodes_get_stored_messages_in_order() {
    let Some(servers) = Servers::start(1) else { return };
    let (mut a, mut b) = (Node::start(&settings(&servers)), Node::start(&settings(&servers)));
    assert_eq!(a.stream.epoch, b.stream.epoch);
    assert_eq!((a.stream.from, b.stream.from), (256, 256));
    let mut stored = Vec::new();
    for n in 0..20 {
        let node = if n % 2 == 0 { &a } else { &b };
        let it = node.store("cars/v1.2", &n.to_string(), None).unwrap();
        assert_eq!((it.epoch, it.is_repetition), (a.stream.epoch, false));
        stored.push(Call::batch(it.sequence, "cars/v1.2", &n.to_string()));
    }
    let several =
        a.writer().start_store("x", &["1", "{\"a\":[]}", "\"c\""], None).recv().unwrap().unwrap();
    stored.push(Call::batch(sequence_of(several.first), "x", "1,{\"a\":[]},\"c\""));
    for node in [&mut a, &mut b] {
        let calls: Vec<_> = stored.iter().map(|_| node.next()).collect();
        assert_eq!(calls, stored);
    }
}

#[test]
fn a_repetition_is_known_by_its_key_on_every_server() {
    let Some(servers) = Servers::start(1) else { return };
    let (a, b) = (Node::start(&settings(&servers)), Node::start(&settings(&servers)));
    let first = a.store("t", "1", Some("k")).unwrap();
    assert!(!first.is_repetition);
    for node in [&a, &b] {
        let again = node.store("t", "1", Some("k")).unwrap();
        assert_eq!((again.sequence, again.is_repetition), (first.sequence, true));
        assert_eq!(node.store("t", "2", Some("k")), Err(AppendError::KeyReused));
    }
    assert!(!a.store("u", "1", Some("k")).unwrap().is_repetition, "another topic");
    assert!(!a.store("t", "1", Some("l")).unwrap().is_repetition, "another key");
    assert!(!a.store("t", "1", None).unwrap().is_repetition, "no key");
}

#[test]
fn a_repetition_of_a_removed_message_is_recognised() {
    let Some(servers) = Servers::start(1) else { return };
    let node = Node::start(&settings(&servers));
    let first = node.store("t", "1", Some("k")).unwrap();
    Operator::new(&servers).purge_stream();
    let again = node.store("t", "1", Some("k")).unwrap();
    assert_eq!((again.sequence, again.is_repetition), (first.sequence, true));
}

#[test]
fn a_message_that_is_too_large_is_refused() {
    let Some(servers) = Servers::start(1) else { return };
    let node = Node::start(&settings(&servers));
    let fits = format!("\"{}\"", "x".repeat(node.stream.bytes_max - 2));
    node.store("t", &fits, Some(&"k".repeat(1000))).unwrap();
    let too_large = format!("\"{}\"", "x".repeat(1 << 20));
    let Err(AppendError::Refused(why)) = node.store("t", &too_large, None) else {
        panic!("not refused")
    };
    assert!(why.contains("max_payload"), "{why}");
}

#[test]
fn a_stream_without_a_server_is_unavailable_and_comes_back() {
    let Some(mut servers) = Servers::start(1) else { return };
    let mut node = Node::start(&settings(&servers));
    node.store("t", "1", None).unwrap();
    servers.kill(0);
    let first = node.writer().start_store("t", &["2"], None);
    // The client may or may not have noticed the loss of the connection when it sent.
    let error = first.recv().unwrap().unwrap_err();
    assert!(matches!(error, AppendError::Unknown | AppendError::Unavailable), "{error:?}");
    let keyed = node.writer().start_store("u", &["3"], Some("k"));
    servers.run(0);
    keyed.recv().unwrap().unwrap();
    assert_eq!(node.next(), Call::batch(1, "t", "1"));
    assert_eq!(node.next(), Call::batch(2, "u", "3"));
}
