//! Presence: the subscribers of a topic are the keys of `presence/TOPIC`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::harness::{Server, Subscriber, Transport, wait_for};

/// A topic's members as a subscriber of its presence knows them.
pub(crate) struct Watch {
    subscriber: Subscriber,
    pub(crate) members: BTreeMap<String, Value>,
    /// Each change in order: the key, and the event.
    pub(crate) changes: Vec<(String, Value)>,
}

impl Watch {
    pub(crate) fn new(server: &Server, topic: &str) -> Self {
        let target = format!("/presence/{topic}");
        let mut subscriber = server.subscribe(Transport::WebSocket, &target);
        let confirmed: Value = serde_json::from_str(&subscriber.envelope().text).expect("JSON");
        assert_eq!(confirmed["keys"], json!([]), "{confirmed}");
        Self { subscriber, members: BTreeMap::new(), changes: Vec::new() }
    }

    pub(crate) fn until(&mut self, is_it: impl Fn(&BTreeMap<String, Value>) -> bool) {
        while !is_it(&self.members) {
            let message: Value =
                serde_json::from_str(&self.subscriber.envelope().text).expect("JSON");
            let (keys, events) = (&message["keys"], &message["events"]);
            let all =
                keys.as_array().into_iter().flatten().zip(events.as_array().into_iter().flatten());
            for (key, event) in all {
                let key = key.as_str().expect("a key").to_owned();
                self.changes.push((key.clone(), event.clone()));
                match event {
                    Value::Null => drop(self.members.remove(&key)),
                    event => drop(self.members.insert(key, event.clone())),
                }
            }
        }
    }

    pub(crate) fn until_there(&mut self, keys: &[&str]) {
        self.until(|members| members.keys().eq(keys));
    }
}

pub(crate) fn member(
    server: &Server,
    transport: Transport,
    topic: &str,
    query: &str,
) -> Subscriber {
    let mut subscriber = server.subscribe(transport, &format!("/{topic}?{query}"));
    subscriber.envelope();
    subscriber
}

#[test]
fn members_come_and_go_over_each_transport() {
    let server = Server::start(&["--topic", "room/**,presence=users,presence-grace=0"]);
    for transport in Transport::ALL.into_iter().filter(|it| *it != Transport::LongPolling) {
        let topic = format!("room/{transport:?}");
        let mut watch = Watch::new(&server, &topic);
        let bob = member(&server, transport, &topic, "member=bob&info=%7B%22age%22%3A%207%7D");
        watch.until_there(&["~bob"]);
        let event = &watch.members["~bob"];
        assert_eq!(event["info"], json!({"age": 7}), "{transport:?}");
        assert!(event["since"].as_i64().is_some_and(|since_ms| since_ms > 1_700_000_000_000));
        let ann = member(&server, transport, &topic, "member=ann");
        watch.until_there(&["~ann", "~bob"]);
        drop(bob);
        watch.until_there(&["~ann"]);
        drop(ann);
        watch.until_there(&[]);
    }
}

#[test]
fn a_short_absence_is_neither_a_leave_nor_a_join() {
    let server =
        Server::start(&["--topic", "room,presence=users,presence-grace=10m", "--shards", "2"]);
    let mut watch = Watch::new(&server, "room");
    let bob = || member(&server, Transport::WebSocket, "room", "member=bob");
    let first = bob();
    watch.until_there(&["~bob"]);
    let second = bob();
    drop((first, second));
    let others: Vec<_> = (0..8).map(|_| bob()).collect();
    drop(others);
    let _again = bob();
    let _ann = member(&server, Transport::WebSocket, "room", "member=ann");
    watch.until_there(&["~ann", "~bob"]);
    assert_eq!(watch.changes.len(), 2, "{:?}", watch.changes);
}

#[test]
fn members_of_all_shards_are_listed_and_leave_with_their_last_connection() {
    let server =
        Server::start(&["--topic", "room,presence=connections,presence-grace=0", "--shards", "2"]);
    let mut watches = [Watch::new(&server, "room"), Watch::new(&server, "room")];
    let join = |nth: usize| {
        // Two connections of each member.
        member(&server, Transport::WebSocket, "room", &format!("member={}", nth % 20))
    };
    let mut members: Vec<Subscriber> = (0..40).map(join).collect();
    watches.iter_mut().for_each(|watch| watch.until(|members| members.len() == 20));
    members.truncate(20);
    // A newcomer shows that the others' second connections have been noticed or need not be.
    let _newcomer = member(&server, Transport::WebSocket, "room", "member=new");
    watches.iter_mut().for_each(|watch| watch.until(|members| members.len() == 21));
    members.clear();
    watches.iter_mut().for_each(|watch| watch.until_there(&["~new"]));
    for watch in &watches {
        let removals = watch.changes.iter().filter(|(_, event)| event.is_null()).count();
        assert_eq!((watch.changes.len(), removals), (41, 20), "{:?}", watch.changes);
    }
}

#[test]
fn a_connection_without_an_id_is_a_member_of_its_own() {
    let server =
        Server::start(&["--topic", "room,presence=users,presence-grace=0", "--shards", "2"]);
    let mut watch = Watch::new(&server, "room");
    let members: Vec<_> =
        (0..12).map(|_| member(&server, Transport::Sse, "room", "cursor=latest")).collect();
    watch.until(|members| members.len() == 12);
    drop(members);
    watch.until_there(&[]);
}

#[test]
fn only_the_count_is_published_if_the_setting_says_so() {
    let server = Server::start(&["--topic", "hall,presence=count,presence-grace=0"]);
    let mut watch = Watch::new(&server, "hall");
    let members: Vec<_> =
        (0..5).map(|_| member(&server, Transport::Sse, "hall", "cursor=latest")).collect();
    watch.until(|members| members.get("count") == Some(&json!(5)));
    drop(members);
    watch.until(BTreeMap::is_empty);
    drop(watch);
    // Neither topic has a key or a reader, so both go.
    let has_none = || (server.get("/v1/topics").json()["topics"] == json!([])).then_some(());
    wait_for("the topics to go", has_none);
}

#[test]
fn a_member_that_comes_back_may_say_something_else_of_itself() {
    let server = Server::start(&["--topic", "room,presence=users,presence-grace=10m"]);
    let mut watch = Watch::new(&server, "room");
    let bob = |info: u8| {
        member(&server, Transport::WebSocket, "room", &format!("member=bob&info={info}"))
    };
    let first = bob(1);
    watch.until(|members| members.get("~bob").is_some_and(|bob| bob["info"] == 1));
    // Another connection of a member that is there changes nothing.
    let second = bob(2);
    drop(second);
    drop(first);
    let _third = bob(3);
    watch.until(|members| members.get("~bob").is_some_and(|bob| bob["info"] == 3));
    assert_eq!(watch.changes.len(), 2, "{:?}", watch.changes);
}

#[test]
fn presence_has_rights_of_its_own_and_only_the_server_publishes_it() {
    let server = Server::start(&[
        "--topic",
        "room,presence=users",
        "--token",
        "guest=guest-secret-1234567890,subscribe=room,publish=presence/room",
    ]);
    let authorization = [("Authorization", "Bearer guest-secret-1234567890")];
    let ask = |method: &str, target: &str| server.ask(method, target, &authorization, "1");
    ask("GET", "/v1/topics/presence/room?wait=0").refused(403, "forbidden");
    ask("POST", "/v1/topics/presence/room").refused(409, "in_use");
    ask("DELETE", "/v1/topics/presence/room").refused(409, "in_use");
    ask("DELETE", "/v1/topics/presence/room?key=a").refused(409, "in_use");
}

#[test]
fn a_pattern_has_no_presence_although_all_others_have() {
    let server = Server::start(&[
        "--topic",
        "**,presence=true,presence-grace=0",
        "--topic",
        "private/*,presence=none",
    ]);
    let _watched = member(&server, Transport::WebSocket, "private/1", "member=ann");
    let _listed = member(&server, Transport::WebSocket, "room", "member=ann");
    let keys = || server.get("/v1/topics/presence/room?limit=10").json()["keys"].clone();
    wait_for("the member of room", || (keys() == json!(["~ann"])).then_some(()));
    let topics = server.get("/v1/topics?prefix=presence").json();
    assert!(topics["topics"].as_array().is_some_and(|topics| topics.len() == 1), "{topics}");
    // The name is free for anything else.
    server.post("presence/private/1", "application/json", "1").published();
    server.post("presence/room?key=a", "application/json", "1").refused(409, "in_use");
}

#[test]
fn the_words_of_a_member_about_itself_are_checked() {
    let server = Server::start(&["--topic", "room,presence=users"]);
    let large = format!("%22{}%22", "x".repeat(1100));
    for query in ["info=oops", &format!("info={large}"), "member=", "member=a%0Ab"] {
        let response = server.get(&format!("/v1/topics/room?wait=0&{query}"));
        assert_eq!(response.status, 400, "{query}: {}", response.text());
    }
}
