//! Crashes, gaps, renewed streams and faults.

use std::collections::BTreeMap;

use thalweg_broker::AppendError;
use thalweg_testing::wait_for;
use thalweg_wire::Offset;

use super::{Rig, node};
use crate::{
    Call, Node,
    node::{answer, event_content},
};

/// Stored records survive a crash of a server and of the broker; followers miss no record and get none twice.
pub fn restarts<R: Rig>(rig: &mut R) {
    let (mut first, writer) = (node(rig), node(rig));
    let mut stored = Vec::new();
    let append = |event: String| {
        // A publisher without an answer tries again with the key.
        let append = || writer.append("log/a", &[&event], Some(&event)).ok();
        (wait_for("stored", append).first, event)
    };
    stored.extend((0..20).map(|nth| append(nth.to_string())));
    first.stop();
    stored.extend((20..40).map(|nth| append(nth.to_string())));
    let mut second = node(rig);
    rig.restart();
    stored.extend((40..60).map(|nth| append(nth.to_string())));
    // A server reads records from before the offset that it follows from.
    let from = second.streams[0].from;
    let mut all = second.read_all("log/a", 0, from);
    let newest = stored[59].0;
    while all.last().is_none_or(|(first, _)| *first < newest) {
        all.extend(second.records(1).into_iter().map(|(first, _, event)| (first, event)));
    }
    assert_eq!(all, stored);
    second.await_ready(true);
    let (last, _) = append("last".to_owned());
    assert_eq!(second.records(1)[0].0, last, "each once");
    assert_eq!(second.read_all("log/a", 0, newest + 1), stored);
}

/// A second crash finds what a crash, and the appends after it, have left: the records of each stream.
pub fn second_restarts<R: Rig>(rig: &mut R) {
    let topics = ["log/a", "values/a"];
    let append = |node: &Node<R::Broker>, nth: usize| {
        topics.map(|topic| {
            let key = format!("{topic} {nth}");
            let append = || node.append(topic, &[&nth.to_string()], Some(&key)).ok();
            (wait_for("stored", append).first, nth.to_string())
        })
    };
    let writer = node(rig);
    let mut stored = vec![append(&writer, 0)];
    for nth in 1..3 {
        rig.restart();
        let after = node(rig);
        for (index, topic) in topics.into_iter().enumerate() {
            let (newest, event) = &stored[nth - 1][index];
            let all: Vec<_> = stored.iter().map(|both| both[index].clone()).collect();
            match after.streams[index].kind.has_versions() {
                false => assert_eq!(after.read_all(topic, 0, newest + 1), all, "restart {nth}"),
                true => {
                    let page = after.newest(topic);
                    let found: Vec<_> = page
                        .records
                        .iter()
                        .map(|(first, events)| (*first, events.joined().to_vec()))
                        .collect();
                    assert_eq!(found, [(*newest, event.clone().into_bytes())], "restart {nth}");
                }
            }
        }
        stored.push(append(&after, nth));
    }
}

/// Records that are trimmed before they are delivered are a gap, which is announced before anything else.
pub fn gaps<R: Rig>(rig: &mut R) {
    let (mut slow, writer) = (node(rig), node(rig));
    let first = writer.append("log/a", &["0"], None).expect("stored").first;
    slow.records(1);
    slow.take_records(false);
    let append = |nth: usize| writer.append("log/a", &[&nth.to_string()], None).expect("stored");
    let mut lost: Vec<Offset> = vec![append(1).first];
    wait_for("a delivery", || (slow.delivering() == 1).then_some(()));
    lost.extend((2..40).map(|nth| append(nth).first));
    rig.trim();
    let last = append(40).first;
    slow.take_records(true);
    // Records that were read ahead may still come.
    let mut next = first + 1;
    loop {
        match slow.next_call() {
            Call::Record { first, .. } => {
                let missing = lost.iter().find(|lost| (next..first).contains(lost));
                assert_eq!(missing, None, "not delivered, and no gap before {first}");
                next = first + 1;
                if first == last {
                    break;
                }
            }
            Call::Restarted { stream: 0, epoch, from } => {
                assert_eq!(epoch, slow.streams[0].epoch);
                next = from;
            }
            Call::Restarted { .. } => {}
        }
    }
    let page = writer.read("log/a", 0, last + 1);
    assert_eq!(page.records.len(), 1, "{page:?}");
    assert!(page.stored_from > lost[38] && page.stored_from <= last, "{page:?}");
}

/// A stream that is made again has another epoch, which followers learn before they get its records.
pub fn renewal<R: Rig>(rig: &mut R) {
    let mut node = node(rig);
    for event in ["1", "2"] {
        node.append("log/a", &[event], None).expect("stored");
    }
    node.records(2);
    rig.renew();
    let stored = wait_for("stored", || node.append("log/a", &["3"], Some("k")).ok());
    let (mut renewed, mut seen) = (None, Vec::new());
    let first = loop {
        match node.next_call() {
            Call::Restarted { stream, epoch, from } => {
                seen.push((stream, epoch));
                renewed = Some((epoch, from)).filter(|_| stream == 0).or(renewed);
            }
            Call::Record { first, content, .. } => {
                assert_eq!(content, "3");
                break first;
            }
        }
    };
    let (epoch, from) = renewed.expect("the new epoch is announced before the record");
    assert_ne!(epoch, node.streams[0].epoch);
    assert_eq!((stored.epoch, stored.first), (epoch, first));
    assert!(first >= from, "{first} from {from}");
    node.await_ready(true);
    // The other stream may have the epoch of its own, or that of the broker.
    let value = node.append("values/a", &["4"], None).expect("stored");
    let announced = seen.into_iter().rev().find(|(stream, _)| *stream == 1);
    let known = announced.map_or(node.streams[1].epoch, |(_, epoch)| epoch);
    assert_eq!(value.epoch, known, "the epoch of the other stream is announced");
}

/// While the broker does not answer, publishers get errors, and the errors stay true.
pub fn faults<R: Rig>(rig: &mut R) {
    let mut node = node(rig);
    node.append("log/a", &["0"], None).expect("stored");
    node.records(1);
    node.await_ready(true);
    rig.cut(true);
    node.await_ready(false);
    let pending: Vec<_> = (1..4)
        .map(|nth| {
            let event = nth.to_string();
            let record = node.record(&format!("log/{nth}"), event_content(&[&event]), None);
            (event, node.caller().start_append(record, None))
        })
        .collect();
    let mut unknown = BTreeMap::new();
    let mut refused = Vec::new();
    for (event, pending) in pending {
        match answer(&pending) {
            Err(AppendError::Unknown) => _ = unknown.insert(event, 0),
            Err(AppendError::Unavailable) => refused.push(event),
            other => panic!("{other:?} of a broker that does not answer"),
        }
    }
    rig.cut(false);
    node.await_ready(true);
    let last = wait_for("stored", || node.append("log/last", &["9"], Some("k")).ok());
    loop {
        let (first, _, event) = node.records(1).remove(0);
        assert!(!refused.contains(&event), "{event} was answered \"not stored\"");
        if first == last.first {
            break;
        }
        let times = unknown.get_mut(&event).expect("a record that was not published");
        *times += 1;
        assert_eq!(*times, 1, "{event} twice");
    }
}
