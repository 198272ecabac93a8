//! A ticket is valid once, for a limited time, at any node.

use std::{
    sync::{atomic::Ordering::Relaxed, mpsc::channel},
    time::Duration,
};

use serde_json::{Value, json};
use thalweg_broker::{TicketDigest, TicketError};
use thalweg_nats::{Settings, TicketSettings};
use thalweg_testing::Patience;

use crate::harness::{Node, Operator, Servers, TICKET_LIFE, open, settings, wait_for};

const BUCKET: &str = "KV_thalweg-tickets";

fn ticket(number: u32) -> TicketDigest {
    let mut bytes = [0x5a; 32];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    TicketDigest::new(bytes)
}

fn bucket(operator: &Operator) -> Value {
    operator.api(&format!("STREAM.INFO.{BUCKET}"), &Value::Null)
}

fn redeemed() -> Result<Option<String>, TicketError> {
    Ok(Some("subscriber".to_owned()))
}

#[test]
fn a_ticket_is_redeemed_once_at_any_node() {
    let Some(servers) = Servers::start(1) else { return };
    let nodes = [Node::start(&settings(&servers)), Node::start(&settings(&servers))];
    nodes[0].tickets.keep(ticket(1), "subscriber").unwrap();
    assert_eq!(nodes[1].tickets.redeem(ticket(2)), Ok(None), "nobody has issued it");
    assert_eq!(nodes[1].tickets.redeem(ticket(1)), redeemed());
    for node in &nodes {
        assert_eq!(node.tickets.redeem(ticket(1)), Ok(None));
    }
    let count =
        |of: fn(&thalweg_nats::Counts) -> u64| nodes.each_ref().map(|node| of(&node.counts));
    assert_eq!(count(|counts| counts.tickets_kept.load(Relaxed)), [1, 0]);
    assert_eq!(count(|counts| counts.tickets_redeemed.load(Relaxed)), [0, 1]);
    assert_eq!(count(|counts| counts.tickets_void.load(Relaxed)), [1, 2]);
    assert_eq!(count(|counts| counts.tickets_failed.load(Relaxed)), [0, 0]);
    // The bucket has no ticket, only its digest and its holder.
    let operator = Operator::new(&servers);
    nodes[0].tickets.keep(ticket(3), "subscriber").unwrap();
    let subject = format!("$KV.thalweg-tickets.{}", ticket(3));
    let kept = operator.api(&format!("STREAM.MSG.GET.{BUCKET}"), &json!({"last_by_subj": subject}));
    assert_eq!(kept["message"]["data"], "c3Vic2NyaWJlcg==", "{kept}");
}

#[test]
fn one_of_many_that_redeem_a_ticket_at_the_same_time_gets_it() {
    let Some(servers) = Servers::start(3) else { return };
    let all = settings(&servers);
    // Each node uses a server of its own, one of which leads.
    let nodes = [0, 1, 2].map(|nth| {
        Node::start(&Settings { servers: vec![all.servers[nth].clone()], ..all.clone() })
    });
    for number in 0..100 {
        let nth = number as usize % 3;
        nodes[nth].tickets.keep(ticket(number), "subscriber").unwrap();
        // All nodes know a ticket as soon as it is issued, also if their server lacks it.
        let answers: Vec<_> = std::thread::scope(|scope| {
            let redeem = |nth: usize| {
                let tickets = nodes[nth % 3].tickets.clone();
                scope.spawn(move || tickets.redeem(ticket(number)))
            };
            let redeeming: Vec<_> = (nth + 1..nth + 7).map(redeem).collect();
            redeeming.into_iter().map(|answer| answer.join().unwrap()).collect()
        });
        let count = answers.iter().filter(|answer| **answer == redeemed()).count();
        assert_eq!(count, 1, "{number}: {answers:?}");
    }
}

#[test]
fn no_ticket_is_redeemed_twice_while_a_leader_is_killed() {
    let Some(mut servers) = Servers::start(3) else { return };
    let nodes = [Node::start(&settings(&servers)), Node::start(&settings(&servers))];
    let leader = servers.leader(BUCKET);
    let mut twice = 0;
    std::thread::scope(|scope| {
        let (kept, keeps) = channel();
        let servers = &mut servers;
        let killing = scope.spawn(move || {
            keeps.recv().expect("tickets");
            servers.kill(leader);
        });
        let (mut number, mut after, mut patience) = (0, 0, Patience::new());
        // Until there is another leader, and after that.
        while after < 100 {
            patience.check("tickets of another leader");
            number += 1;
            if number == 50 {
                kept.send(()).expect("somebody who kills");
            }
            if nodes[0].tickets.keep(ticket(number), "subscriber").is_err() {
                continue;
            }
            after += u32::from(killing.is_finished());
            let redeeming = nodes.each_ref().map(|node| {
                let tickets = node.tickets.clone();
                scope.spawn(move || tickets.redeem(ticket(number)))
            });
            let both = redeeming.map(|thread| thread.join().unwrap());
            twice += usize::from(both.iter().all(|answer| *answer == redeemed()));
        }
        eprintln!("{number} tickets");
        killing.join().unwrap();
    });
    assert_eq!(twice, 0);
    wait_for("tickets again", || nodes[0].tickets.keep(ticket(0), "subscriber").ok());
    assert_eq!(nodes[1].tickets.redeem(ticket(0)), redeemed());
}

#[test]
fn a_ticket_expires() {
    let Some(servers) = Servers::start(1) else { return };
    let life = Duration::from_secs(1);
    let tickets = Some(TicketSettings { replicas: 1, life });
    let node = Node::start(&Settings { tickets, ..settings(&servers) });
    let operator = Operator::new(&servers);
    node.tickets.keep(ticket(1), "subscriber").unwrap();
    node.tickets.keep(ticket(2), "subscriber").unwrap();
    assert_eq!(node.tickets.redeem(ticket(1)), redeemed());
    // Redeemed tickets are removed, too.
    wait_for("gone", || (bucket(&operator)["state"]["messages"] == 0).then_some(()));
    assert_eq!(node.tickets.redeem(ticket(2)), Ok(None));
    assert_eq!(node.tickets.redeem(ticket(1)), Ok(None));
}

#[test]
fn a_ticket_that_cannot_be_checked_gives_no_rights() {
    let Some(servers) = Servers::start(1) else { return };
    let node = Node::start(&settings(&servers));
    node.tickets.keep(ticket(1), "subscriber").unwrap();
    servers.freeze(0, true);
    wait_for("no answer", || node.tickets.redeem(ticket(3)).err());
    // The bucket was only read.
    assert_eq!(node.tickets.redeem(ticket(1)), Err(TicketError::Unavailable));
    node.tickets.keep(ticket(2), "subscriber").unwrap_err();
    servers.freeze(0, false);
    let holder = wait_for("an answer", || node.tickets.redeem(ticket(1)).ok());
    assert_eq!(holder.as_deref(), Some("subscriber"));
}

#[test]
fn a_bucket_that_does_not_fit_is_said() {
    let Some(servers) = Servers::start(1) else { return };
    drop(open(&settings(&servers)).unwrap());
    let operator = Operator::new(&servers);
    let config = bucket(&operator)["config"].clone();
    assert_eq!(config["max_age"], 30_000_000_000i64);
    assert_eq!(config["max_msgs_per_subject"], 1);
    let life = 2 * TICKET_LIFE;
    let tickets = Some(TicketSettings { replicas: 1, life });
    let says = open(&Settings { tickets, ..settings(&servers) }).unwrap_err();
    assert!(says.contains("max_age") && says.contains(BUCKET), "{says}");
    // A server without tokens has no bucket.
    operator.api(&format!("STREAM.DELETE.{BUCKET}"), &Value::Null);
    let node = Node::start(&Settings { tickets: None, ..settings(&servers) });
    assert_eq!(bucket(&operator)["error"]["err_code"], 10059);
    assert_eq!(node.tickets.redeem(ticket(1)), Err(TicketError::Unavailable));
}

#[test]
fn a_bucket_that_is_deleted_is_made_again() {
    let Some(servers) = Servers::start(1) else { return };
    let nodes = [Node::start(&settings(&servers)), Node::start(&settings(&servers))];
    let operator = Operator::new(&servers);
    let before = bucket(&operator);
    nodes[0].tickets.keep(ticket(1), "subscriber").unwrap();
    for nth in 0..2 {
        let (node, other) = (&nodes[nth], &nodes[1 - nth]);
        operator.api(&format!("STREAM.DELETE.{BUCKET}"), &Value::Null);
        // A ticket that is kept, or redeemed, shows it.
        if nth == 0 {
            assert_eq!(node.tickets.keep(ticket(2), "subscriber"), Err(TicketError::Unavailable));
        } else {
            assert_eq!(node.tickets.redeem(ticket(2)), Err(TicketError::Unavailable));
        }
        wait_for("a bucket", || node.tickets.keep(ticket(3), "subscriber").ok());
        assert_eq!(node.tickets.redeem(ticket(1)), Ok(None), "it was issued before");
        assert_eq!(other.tickets.redeem(ticket(3)), redeemed());
        assert_eq!(other.tickets.redeem(ticket(3)), Ok(None));
        wait_for("a count", || {
            let made = nodes.each_ref().map(|node| node.counts.buckets_recreated.load(Relaxed));
            (made.iter().sum::<u64>() > nth as u64).then_some(())
        });
    }
    let after = bucket(&operator);
    assert_eq!(after["config"], before["config"]);
    assert_ne!(after["created"], before["created"]);
}
