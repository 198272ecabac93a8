//! Reading continues after losses of messages, consumers and connections.

use std::sync::atomic::Ordering::Relaxed;

use thalweg_testing::undisturbed;

use crate::harness::{Call, Node, Operator, Page, Servers, settings, wait_for};

/// Asserts that the next batches have these sequence numbers, without another call between them.
fn expect(node: &mut Node, sequences: std::ops::RangeInclusive<u64>) {
    for expected in sequences {
        match node.next() {
            Call::Batch { sequence, .. } => assert_eq!(sequence, expected),
            other @ Call::Restarted { .. } => panic!("{other:?} before {expected}"),
        }
    }
}

#[test]
fn messages_of_others_are_checked() {
    let Some(servers) = Servers::start(1) else { return };
    let mut node = Node::start(&settings(&servers));
    let operator = Operator::new(&servers);
    operator.publish("thalweg.cars.v1/2", None, "{ \"a\": 1 }\r\n[2 , 3]\n");
    operator.publish("thalweg.cars", None, "nonsense");
    operator.publish("thalweg.cars", None, &"1\n".repeat(257));
    operator.publish("thalweg.no$topic", None, "1");
    operator.publish("thalweg.cars", None, "");
    operator.publish_marked("thalweg.cars", "not looked at\n2");
    operator.publish_marked("thalweg.cars", &["1"; 257].join("\n"));
    operator.publish("thalweg.cars", None, "7");
    assert_eq!(node.next(), Call::batch(1, "cars/v1.2", "{\"a\":1},[2,3]"));
    assert_eq!(node.next(), Call::batch(6, "cars", "not looked at,2"));
    assert_eq!(node.next(), Call::batch(8, "cars", "7"));
    assert_eq!(node.counts.skipped.load(Relaxed), 5);
    assert_eq!(node.counts.messages.load(Relaxed), 8);
}

#[test]
fn a_deleted_consumer_is_made_again() {
    let Some(servers) = Servers::start(1) else { return };
    let mut node = Node::start(&settings(&servers));
    let operator = Operator::new(&servers);
    node.await_ready();
    let consumers = operator.consumers();
    assert_eq!(consumers.len(), 1, "and none is left of the start: {consumers:?}");
    operator.publish_all("thalweg.t", (1..=10).map(|n| n.to_string()));
    operator.delete_consumer(consumers[0]["name"].as_str().unwrap());
    operator.publish_all("thalweg.t", (11..=20).map(|n| n.to_string()));
    expect(&mut node, 1..=20);
    assert_eq!(node.counts.recreations.load(Relaxed), 1);
    assert_eq!(operator.consumers().len(), 1);
}

#[test]
fn a_hole_has_the_consumer_made_again() {
    let Some(servers) = Servers::start(1) else { return };
    let mut node = Node::start(&settings(&servers));
    let operator = Operator::new(&servers);
    node.await_ready();
    operator.publish_all("thalweg.t", (1..=10).map(|n| n.to_string()));
    expect(&mut node, 1..=10);
    // As if deliveries after the tenth had been dropped.
    let consumer = operator.consumers().remove(0);
    let inbox = consumer["config"]["deliver_subject"].as_str().unwrap();
    operator.heartbeat(inbox, 12);
    operator.publish_all("thalweg.t", (11..=20).map(|n| n.to_string()));
    expect(&mut node, 11..=20);
    assert_eq!(node.counts.recreations.load(Relaxed), 1);
    // A message without a consumer's sequence numbers has no effect.
    let consumer = operator.consumers().remove(0);
    let inbox = consumer["config"]["deliver_subject"].as_str().unwrap();
    operator.publish(inbox, None, "1");
    operator.publish(inbox, Some("other"), "1");
    operator.publish("thalweg.t", None, "21");
    expect(&mut node, 21..=21);
    assert_eq!(node.counts.recreations.load(Relaxed), 1);
}

#[test]
fn a_node_that_takes_no_batches_for_a_while_loses_none() {
    let Some(servers) = Servers::start(1) else { return };
    let mut node = Node::start(&settings(&servers));
    let operator = Operator::new(&servers);
    node.await_ready();
    node.take_batches(false);
    // More than flow control allows at first, and longer than a consumer may be silent.
    let body = format!("\"{}\"", "x".repeat(1000));
    operator.publish_all("thalweg.t", (0..20_000).map(|_| body.clone()));
    thalweg_testing::let_pass(std::time::Duration::from_secs(4));
    assert_eq!(node.calls(), []);
    node.take_batches(true);
    expect(&mut node, 1..=20_000);
    assert_eq!(node.counts.recreations.load(Relaxed), 0);
}

#[test]
fn a_server_that_restarts_is_read_on() {
    // On a busy machine a consumer may be silent for too long.
    undisturbed(restart);
}

fn restart() {
    let Some(mut servers) = Servers::start(1) else { return };
    let mut node = Node::start(&settings(&servers));
    node.store("t", "1", None).expect("stored");
    node.await_ready();
    servers.kill(0);
    wait_for("not ready", || (!node.is_ready()).then_some(()));
    servers.run(0);
    node.await_ready();
    let recreations = node.counts.recreations.load(Relaxed);
    for _ in 0..500 {
        node.store("t", "2", None).expect("stored");
    }
    expect(&mut node, 1..=501);
    assert_eq!(node.counts.recreations.load(Relaxed), recreations, "it is over");
}

#[test]
fn older_messages_are_read_again_a_page_at_a_time() {
    let Some(servers) = Servers::start(1) else { return };
    let node = Node::start(&settings(&servers));
    let operator = Operator::new(&servers);
    operator.publish_all("thalweg.a", (1..=400).map(|n| n.to_string()));
    operator.publish_all("thalweg.b", ["1", "nonsense", "2"].map(str::to_owned));
    operator.publish_all("thalweg.a", (401..=410).map(|n| n.to_string()));
    let events = |page: &Page| -> Vec<(u64, String)> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
        page.messages
            .iter()
            .map(|(sequence, message)| (*sequence, text(message.joined())))
            .collect()
    };
    let (mut from, mut read) = (1, Vec::new());
    loop {
        let page = node.page("a", from, 414);
        read.extend(events(&page));
        assert_eq!(page.first_sequence, 1);
        if page.is_whole {
            break;
        }
        from = read.last().expect("some").0 + 1;
    }
    assert_eq!(read.len(), 410);
    assert_eq!((read[0].clone(), read[409].clone()), ((1, "1".into()), (413, "410".into())));
    // A page omits messages that no server can read, and those behind its end.
    let page = node.page("b", 1, 403);
    assert_eq!((events(&page), page.is_whole), (vec![(401, "1".into())], true));
    let page = node.page("b", 402, 414);
    assert_eq!((events(&page), page.is_whole), (vec![(403, "2".into())], true));
    let page = node.page("nothing", 1, 414);
    assert_eq!((events(&page), page.is_whole), (vec![], true));
    // Many messages that no server can read do not stop it.
    operator.publish_all("thalweg.b", (0..600).map(|_| "nonsense".to_owned()));
    operator.publish_all("thalweg.b", ["3".to_owned()]);
    let page = node.page("b", 404, 1015);
    assert_eq!((events(&page), page.is_whole), (vec![(1014, "3".into())], true));
}
