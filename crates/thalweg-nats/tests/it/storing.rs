//! What is stored, and what is answered.

use thalweg_server::backend::StoreError;

use crate::harness::{Heard, Node, Operator, Servers, settings};

#[test]
fn what_is_stored_is_read_back_in_order_by_all() {
    let Some(servers) = Servers::start(1) else { return };
    let (mut a, mut b) = (Node::start(&settings(&servers)), Node::start(&settings(&servers)));
    assert_eq!(a.stream.epoch, b.stream.epoch);
    assert_eq!((a.stream.from_sequence, b.stream.from_sequence), (1, 1));
    let mut stored = Vec::new();
    for n in 0..20 {
        let node = if n % 2 == 0 { &a } else { &b };
        let it = node.store("cars/v1.2", &n.to_string(), None).unwrap();
        assert_eq!((it.epoch, it.is_repetition), (a.stream.epoch, false));
        stored.push(Heard::batch(it.sequence, "cars/v1.2", &n.to_string()));
    }
    let several = a.writer().ask("x", &["1", "{\"a\":[]}", "\"c\""], None).recv().unwrap().unwrap();
    stored.push(Heard::batch(several.sequence, "x", "1,{\"a\":[]},\"c\""));
    for node in [&mut a, &mut b] {
        let heard: Vec<_> = stored.iter().map(|_| node.next()).collect();
        assert_eq!(heard, stored);
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
        assert_eq!(node.store("t", "2", Some("k")), Err(StoreError::KeyReused));
    }
    assert!(!a.store("u", "1", Some("k")).unwrap().is_repetition, "another topic");
    assert!(!a.store("t", "1", Some("l")).unwrap().is_repetition, "another key");
    assert!(!a.store("t", "1", None).unwrap().is_repetition, "no key");
}

#[test]
fn a_repetition_of_what_was_removed_is_one_all_the_same() {
    let Some(servers) = Servers::start(1) else { return };
    let node = Node::start(&settings(&servers));
    let first = node.store("t", "1", Some("k")).unwrap();
    Operator::new(&servers).purge_stream();
    let again = node.store("t", "1", Some("k")).unwrap();
    assert_eq!((again.sequence, again.is_repetition), (first.sequence, true));
}

#[test]
fn what_is_too_large_is_refused() {
    let Some(servers) = Servers::start(1) else { return };
    let node = Node::start(&settings(&servers));
    let fits = format!("\"{}\"", "x".repeat(node.stream.message_bytes_max - 2));
    node.store("t", &fits, Some(&"k".repeat(1000))).unwrap();
    let too_large = format!("\"{}\"", "x".repeat(1 << 20));
    let Err(StoreError::Refused(why)) = node.store("t", &too_large, None) else {
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
    let first = node.writer().ask("t", &["2"], None);
    // Whether the connection was known to be lost when it was sent is a matter of luck.
    let error = first.recv().unwrap().unwrap_err();
    assert!(matches!(error, StoreError::Unknown | StoreError::Unavailable), "{error:?}");
    let keyed = node.writer().ask("u", &["3"], Some("k"));
    servers.run(0);
    keyed.recv().unwrap().unwrap();
    assert_eq!(node.next(), Heard::batch(1, "t", "1"));
    assert_eq!(node.next(), Heard::batch(2, "u", "3"));
}
