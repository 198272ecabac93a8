//! The columns of topics, as requested by a client that will show their rows.

use serde_json::{Value, json};

use crate::harness::{Server, Transport};

const COLUMNS: &str = "cars,columns=speed:double car:string time:time";
const MAX: &str =
    "max=SELECT window_start, max(speed) AS speed FROM tumble(cars, 1s) GROUP BY window_start";
const SLOW: &str = "slow=SELECT car, speed * 2 AS twice FROM objects WHERE speed < 10";

fn columns(server: &Server, topic: &str) -> Value {
    let mut described = server.get(&format!("/v1/columns/{topic}")).json();
    assert_eq!(described["topic"], topic);
    described["columns"].take()
}

fn named(columns: &[(&str, &str)]) -> Value {
    columns.iter().map(|(name, kind)| json!({ "name": name, "type": kind })).collect()
}

#[test]
fn columns_are_told_as_they_are_declared_or_follow_from_a_query_or_from_events() {
    for shards in ["1", "3"] {
        let server = Server::start(&[
            "--shards",
            shards,
            "--topic",
            COLUMNS,
            "--query",
            MAX,
            "--query",
            SLOW,
            "--source",
            "figures=constant",
            "--topic",
            "value,kind=value",
        ]);
        // The columns are declared, with and without events.
        let cars = named(&[("speed", "double"), ("car", "string"), ("time", "time")]);
        assert_eq!(columns(&server, "cars"), cars);
        let max = named(&[("window_start", "time"), ("speed", "double")]);
        assert_eq!(columns(&server, "max"), max);
        let figures = columns(&server, "figures");
        assert_eq!(figures[1], json!({ "name": "due_us", "type": "int" }));
        let asked = server.get("/v1/topics?query=SELECT+car,+speed+/+2+AS+half+FROM+cars").json();
        let topic = asked["topic"].as_str().expect("a topic");
        assert_eq!(columns(&server, topic), asked["columns"]);
        assert_eq!(asked["columns"], named(&[("car", "string"), ("half", "double")]));
        // The columns come from existing events.
        assert_eq!(columns(&server, "slow"), json!([]), "its source has no events");
        for (topic, event) in [
            ("objects", r#"{"car":"a","speed":7}"#),
            ("a/columns", r#"[7,"a",null]"#),
            ("numbers", "7"),
            ("value", r#"{"score":1}"#),
        ] {
            server.post(topic, "application/json", event).published();
        }
        assert_eq!(columns(&server, "objects"), named(&[("car", "string"), ("speed", "int")]));
        assert_eq!(columns(&server, "slow"), named(&[("car", "string"), ("twice", "int")]));
        let places = named(&[("column0", "int"), ("column1", "string"), ("column2", "null")]);
        assert_eq!(columns(&server, "a/columns"), places);
        assert_eq!(columns(&server, "numbers"), json!([]));
        assert_eq!(columns(&server, "value"), json!([]));
        let _subscriber = server.subscribe(Transport::WebSocket, "/quiet").confirmed();
        assert_eq!(columns(&server, "quiet"), json!([]));
    }
}

#[test]
fn columns_that_cannot_be_told_are_refused() {
    let server = Server::start(&[
        "--token",
        "subscriber=s,subscribe=**",
        "--token",
        "publisher=p,subscribe=**,publish=**,inspect=**,admin=true",
    ]);
    let ask = |method: &str, path: &str, token: &str| {
        let token = format!("Bearer {token}");
        server.ask(method, &format!("/v1/columns/{path}"), &[("Authorization", &token)], "")
    };
    ask("GET", "cars", "x").refused(401, "unauthorized");
    assert!(
        ask("GET", "cars", "s").refused(404, "no_such_topic").contains("topic cars does not exist")
    );
    ask("GET", "a//b", "s").refused(400, "bad_topic");
    ask("GET", "cars?limit=1", "s").refused(400, "bad_parameter");
    ask("DELETE", "cars", "p").refused(405, "method_not_allowed");
}
