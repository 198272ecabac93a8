//! Members that nodes share.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Nodes, Servers};
use crate::{
    harness::{Subscriber, Transport, wait_for},
    keyed::mirror::Mirror,
    presence::{Watch, member},
};

/// The members of a node that is killed. Each test may have about a thousand sockets.
const PEOPLE: usize = 300;

fn start(servers: &Servers, count: usize, grace: &str) -> Nodes {
    let topic = format!("room/**,presence=users,presence-grace={grace}");
    let people = "people=presence/**,kind=keyed";
    Nodes::start_with(servers, count, people, &["--topic", &topic])
}

/// Returns whether a member is connected to this number of nodes.
fn is_on(members: &BTreeMap<String, Value>, key: &str, count: usize) -> bool {
    let on = members.get(key).and_then(|event| event["on"].as_array());
    on.is_some_and(|on| on.len() == count)
}

#[test]
fn each_node_lists_the_members_of_all_and_the_last_connection_counts() {
    let Some(servers) = Servers::start(1) else { return };
    let nodes = start(&servers, 3, "0");
    let mut watches = [0, 1, 2].map(|nth| Watch::new(nodes.at(nth), "room/a"));
    let join = |nth: usize, id: &str| {
        member(nodes.at(nth), Transport::WebSocket, "room/a", &format!("member={id}"))
    };
    let ann = join(0, "ann");
    watches.iter_mut().for_each(|watch| watch.until_there(&["~ann"]));
    let since = watches[1].members["~ann"]["since"].clone();
    let (bob, other_bob) = (join(1, "bob"), join(2, "bob"));
    let again = join(1, "ann");
    for watch in &mut watches {
        watch.until(|members| is_on(members, "~ann", 2) && is_on(members, "~bob", 2));
        assert_eq!(watch.members["~ann"]["since"], since);
    }
    drop((ann, bob));
    let _eve = join(0, "eve");
    for watch in &mut watches {
        watch.until(|members| ["~ann", "~bob", "~eve"].iter().all(|key| is_on(members, key, 1)));
        assert!(watch.changes.iter().all(|(_, event)| !event.is_null()), "{:?}", watch.changes);
    }
    drop((again, other_bob));
    watches.iter_mut().for_each(|watch| watch.until_there(&["~eve"]));
    // Connections without an id are different members, also at different nodes.
    let _nameless = [0, 1, 2].map(|nth| member(nodes.at(nth), Transport::Sse, "room/a", ""));
    watches.iter_mut().for_each(|watch| watch.until(|members| members.len() == 4));
    let refused = nodes.at(0).post("presence/room/a?key=x", "application/json", "1");
    refused.refused(409, "in_use");
    let refused = nodes.at(0).post("presence/presence/nodes?key=x", "application/json", "1");
    refused.refused(409, "in_use");
}

#[test]
fn the_people_of_a_killed_node_leave_and_nobody_else_flickers() {
    let Some(servers) = Servers::start(1) else { return };
    let mut nodes = start(&servers, 3, "0");
    let mut watches = [1, 2].map(|nth| Watch::new(nodes.at(nth), "room/a"));
    let join = |nodes: &Nodes, nth: usize, id: String| {
        member(nodes.at(nth), Transport::Sse, "room/a", &format!("member={id}"))
    };
    let stay: Vec<Subscriber> =
        (0..20).map(|nth| join(&nodes, 1 + nth % 2, format!("stay{nth}"))).collect();
    let leave: Vec<Subscriber> =
        (0..PEOPLE).map(|nth| join(&nodes, 0, format!("leave{nth}"))).collect();
    // They are connected to the node that is killed, and to another one.
    let both: Vec<Subscriber> =
        (0..20).map(|nth| join(&nodes, nth % 2, format!("both{}", nth / 2))).collect();
    for watch in &mut watches {
        watch.until(|members| {
            let is_both = |nth: usize| is_on(members, &format!("~both{nth}"), 2);
            members.len() == PEOPLE + 30 && (0..10).all(is_both)
        });
        watch.changes.clear();
    }
    nodes.kill(0);
    for watch in &mut watches {
        watch.until(|members| members.len() == 30);
        let removed = watch.changes.iter().filter(|(_, event)| event.is_null());
        let removed: Vec<&String> = removed.map(|(key, _)| key).collect();
        assert_eq!(removed.len(), PEOPLE);
        assert!(removed.iter().all(|key| key.starts_with("~leave")), "{removed:?}");
        assert!(!watch.changes.iter().any(|(key, _)| key.starts_with("~stay")));
    }
    // A node that starts later lists them, too.
    nodes.run(0);
    wait_for("the list", || {
        (Mirror::read(nodes.at(0), "presence/room/a", 100).map.len() == 30).then_some(())
    });
    drop((stay, leave, both));
    watches.iter_mut().for_each(|watch| watch.until_there(&[]));
    assert_eq!(json!(watches[0].members), json!({}));
}
