//! Topics end, and value topics have one message.

use thalweg_broker::{AppendError, Content};
use thalweg_core::stream::{FeedKind, Payloads};
use thalweg_nats::{Settings, StreamSettings};
use thalweg_wire::EndCode;

use crate::harness::{Call, Node, Operator, Page, Servers, settings, wait_for};

fn events(page: &Page) -> Vec<(u64, String)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
    page.messages.iter().map(|(sequence, message)| (*sequence, text(message.joined()))).collect()
}

fn event(text: &str) -> Content {
    let mut payloads = Payloads::default();
    let write = |out: &mut Vec<u8>| {
        out.extend_from_slice(text.as_bytes());
        Ok::<_, ()>(())
    };
    payloads.push(write).expect("it is written");
    Content::Events(payloads)
}

fn values(servers: &Servers) -> Settings {
    let Settings { streams, .. } = settings(servers);
    let streams =
        streams.into_iter().map(|stream| StreamSettings { kind: FeedKind::Value, ..stream });
    Settings { streams: streams.collect(), ..settings(servers) }
}

#[test]
fn a_topic_that_ends_is_removed_and_others_are_not() {
    let Some(servers) = Servers::start(1) else { return };
    let mut node = Node::start(&settings(&servers));
    let operator = Operator::new(&servers);
    for (topic, text) in [("b", "1"), ("a", "2"), ("a", "3"), ("b", "4")] {
        node.store(topic, text, None).unwrap();
    }
    let end = Content::End(EndCode::Deleted);
    assert_eq!(node.writer().store_after("a", end, None).unwrap().sequence, 5);
    node.store("a", "6", None).unwrap();
    let delivered = ["1", "2", "3", "4", "ended: deleted", "6"];
    for (sequence, (text, topic)) in (1..).zip(delivered.into_iter().zip("baabaa".chars())) {
        assert_eq!(node.next(), Call::batch(sequence, &topic.to_string(), text));
    }
    let page = node.page("a", 1, 7);
    assert_eq!((events(&page), page.first_sequence), (vec![(6, "6".into())], 6));
    assert_eq!((page.is_whole, page.last_sequence), (true, 6));
    wait_for("removed", || (operator.info()["state"]["messages"] == 4).then_some(()));
    // A page before the end names the end.
    let page = node.page("a", 1, 4);
    assert_eq!((events(&page), page.newest, page.is_whole), (vec![], 5, true));
    let page = node.page("b", 1, 7);
    assert_eq!((events(&page), page.newest), (vec![(1, "1".into()), (4, "4".into())], 4));
    // A new node gets the other messages, without a gap.
    let mut late = Node::start(&settings(&servers));
    let delivered = [(1, "b", "1"), (4, "b", "4"), (5, "a", "ended: deleted"), (6, "a", "6")];
    for (sequence, topic, text) in delivered {
        assert_eq!(late.next(), Call::batch(sequence, topic, text));
    }
}

#[test]
fn a_pause_is_delivered_and_read_only_behind_the_newest_message() {
    let Some(servers) = Servers::start(1) else { return };
    let mut node = Node::start(&settings(&servers));
    node.store("a", "1", None).unwrap();
    let writer = node.writer();
    assert_eq!(writer.store_after("a", Content::Paused(300), Some(1)).unwrap().sequence, 2);
    node.store("a", "3", None).unwrap();
    let outdated = writer.store_after("a", Content::Paused(300), Some(2)).unwrap_err();
    assert_eq!(outdated, AppendError::Outdated(Some(3)));
    for (sequence, text) in (1..).zip(["1", "paused: 300", "3"]) {
        assert_eq!(node.next(), Call::batch(sequence, "a", text));
    }
    let page = node.page("a", 1, 4);
    assert_eq!((events(&page).len(), page.pauses, page.is_whole), (2, vec![(2, 300)], true));
}

#[test]
fn a_value_topic_has_one_message() {
    let Some(servers) = Servers::start(1) else { return };
    let node = Node::start(&values(&servers));
    let operator = Operator::new(&servers);
    for text in ["1", "2", "3"] {
        node.store("a", text, None).unwrap();
        node.store("b", text, None).unwrap();
    }
    assert_eq!(operator.info()["state"]["messages"], 2);
    // `until` has no meaning for the newest message.
    for until in [0, 3, 9] {
        let page = node.page("a", 0, until.min(7));
        assert_eq!((events(&page), page.is_whole), (vec![(5, "3".into())], true));
    }
    assert_eq!(events(&node.page("c", 0, 1)), []);
    // An empty range has no messages.
    let page = node.page("a", 99, 7);
    assert_eq!((events(&page), page.last_sequence), (vec![], 6));
    // One of two servers that have fetched stores.
    let writer = node.writer();
    let outdated = |newest| Err(AppendError::Outdated(Some(newest)));
    assert_eq!(writer.store_after("a", event("4"), Some(3)), outdated(5));
    assert_eq!(writer.store_after("a", event("4"), Some(0)), outdated(5));
    assert_eq!(writer.store_after("d", event("4"), Some(5)), outdated(0));
    assert_eq!(writer.store_after("a", event("4"), Some(5)).unwrap().sequence, 7);
    assert_eq!(writer.store_after("a", event("5"), Some(5)), outdated(7));
    assert_eq!(writer.store_after("c", event("1"), Some(0)).unwrap().sequence, 8);
    let end = || Content::End(EndCode::Gone);
    assert_eq!(writer.store_after("a", end(), Some(5)), outdated(7));
    assert_eq!(writer.store_after("a", end(), Some(7)).unwrap().sequence, 9);
    let page = node.page("a", 0, 7);
    assert_eq!((events(&page), page.newest), (vec![], 9));
    // A new node gets the newest messages, without a gap.
    let mut late = Node::start(&values(&servers));
    assert_eq!(late.next(), Call::batch(6, "b", "3"));
    assert_eq!(late.next(), Call::batch(8, "c", "1"));
    assert_eq!(late.next(), Call::batch(9, "a", "ended: gone"));
}
