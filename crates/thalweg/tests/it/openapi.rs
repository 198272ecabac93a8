//! `docs/reference/openapi.json` describes the API as the server has it: golden vectors and real answers fit its schemas.

use serde_json::{Value, json};

use crate::harness::{Answer, Raw, Server};

fn spec() -> Value {
    serde_json::from_str(include_str!("../../../../docs/reference/openapi.json")).expect("JSON")
}

fn vectors(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

/// Checks a value against a schema, with the keywords that the description uses. `pattern` is for
/// readers: the golden vectors of positions hold that grammar.
fn check(spec: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    let wrong = |why: &str| Err(format!("{why}: {value} is not {schema}"));
    for (keyword, expected) in schema.as_object().expect("a schema") {
        match keyword.as_str() {
            "$ref" => {
                let path = expected.as_str().and_then(|path| path.strip_prefix('#'));
                let schema = spec.pointer(path.expect("a path")).expect("a schema");
                check(spec, schema, value)?;
            }
            "anyOf" => {
                let mut schemas = expected.as_array().expect("schemas").iter();
                if !schemas.any(|schema| check(spec, schema, value).is_ok()) {
                    return wrong("anyOf");
                }
            }
            "type" => {
                let is = |name: &Value| match name.as_str().expect("a name") {
                    "object" => value.is_object(),
                    "array" => value.is_array(),
                    "string" => value.is_string(),
                    "boolean" => value.is_boolean(),
                    "integer" => value.is_u64() || value.is_i64(),
                    "null" => value.is_null(),
                    name => panic!("the type {name}"),
                };
                let names = expected.as_array().cloned().unwrap_or_else(|| vec![expected.clone()]);
                if !names.iter().any(is) {
                    return wrong("type");
                }
            }
            "const" if value != expected => return wrong("const"),
            "enum" if !expected.as_array().expect("values").contains(value) => {
                return wrong("enum");
            }
            "minimum" if value.as_i64() < expected.as_i64() && !value.is_null() => {
                return wrong("minimum");
            }
            "maximum" if value.as_i64() > expected.as_i64() => return wrong("maximum"),
            "minLength" | "maxLength" => {
                let length = value.as_str().map(str::len).and_then(|length| length.try_into().ok());
                let limit = expected.as_i64();
                if (keyword == "minLength" && length < limit)
                    || (keyword == "maxLength" && length > limit)
                {
                    return wrong(keyword);
                }
            }
            "minItems" | "maxItems" => {
                let count = value.as_array().map(|items| items.len() as u64);
                let is_within = |count| match keyword.as_str() {
                    "minItems" => Some(count) >= expected.as_u64(),
                    _ => Some(count) <= expected.as_u64(),
                };
                if !count.is_none_or(is_within) {
                    return wrong(keyword);
                }
            }
            "required" => {
                let mut names = expected.as_array().expect("names").iter();
                if !names.all(|name| value.get(name.as_str().expect("a name")).is_some()) {
                    return wrong("required");
                }
            }
            "items" => value
                .as_array()
                .into_iter()
                .flatten()
                .try_for_each(|item| check(spec, expected, item))?,
            "properties" => {
                for (name, value) in value.as_object().into_iter().flatten() {
                    match &expected[name] {
                        Value::Null if schema["additionalProperties"] == false => {
                            return wrong(&format!("a member {name}"));
                        }
                        Value::Null => {}
                        schema => check(spec, schema, value)?,
                    }
                }
            }
            "const"
            | "enum"
            | "minimum"
            | "maximum"
            | "additionalProperties"
            | "description"
            | "pattern" => {}
            keyword => panic!("the keyword {keyword} is not checked"),
        }
    }
    Ok(())
}

fn fits(name: &str, value: &Value) -> Result<(), String> {
    let spec = spec();
    check(&spec, &spec["components"]["schemas"][name], value)
}

#[test]
fn the_checker_finds_what_does_not_fit() {
    let envelope = json!({ "topic": "a", "position": "1.2", "first": 2, "events": [1] });
    assert_eq!(fits("Message", &envelope), Ok(()));
    for wrong in [
        json!({ "topic": "a", "position": "1.2", "first": 2 }),
        json!({ "topic": "a", "position": "1.2", "first": "2", "events": [1] }),
        json!({ "topic": "a", "position": "1.2", "first": -1, "events": [1] }),
        json!({ "topic": "a", "position": "1.2", "first": 2, "events": [1], "more": true }),
        json!({ "topic": "a", "position": "1.2", "gap": { "missed": 1, "reason": "lost" } }),
        json!({ "topic": "", "position": "1.2", "first": 2, "events": [1] }),
    ] {
        assert!(fits("Message", &wrong).is_err(), "{wrong}");
    }
}

#[test]
fn the_golden_vectors_fit_the_description() {
    let messages = vectors(include_str!("../../../../vectors/messages.json"));
    let texts: Vec<&str> = ["messages", "patches"]
        .iter()
        .flat_map(|list| messages[*list].as_array().into_iter().flatten())
        .filter_map(|message| message["json"].as_str())
        .collect();
    assert!(texts.len() > 10, "{texts:?}");
    for text in texts {
        let message = serde_json::from_str(text).expect("JSON");
        // Answers and errors of commands are messages of a WebSocket, too.
        let name = ["answer", "error"].into_iter().find(|name| message_has(&message, name));
        let schema = match name {
            Some("answer") => "Answer",
            Some(_) => "Error",
            None => "Message",
        };
        fits(schema, &message).unwrap_or_else(|why| panic!("{why}"));
    }
    let commands = vectors(include_str!("../../../../vectors/commands.json"));
    for command in commands["commands"].as_array().expect("commands") {
        let command =
            serde_json::from_str(command["text"].as_str().expect("a text")).expect("JSON");
        fits("Command", &command).unwrap_or_else(|why| panic!("{why}"));
    }
    let errors = vectors(include_str!("../../../../vectors/errors.json"));
    let codes: Vec<&Value> =
        errors["errors"].as_array().expect("errors").iter().map(|error| &error["code"]).collect();
    let spec = spec();
    let described = &spec["components"]["schemas"]["Error"]["properties"]["error"]["properties"];
    assert_eq!(
        described["code"]["enum"].as_array().expect("codes").iter().collect::<Vec<_>>(),
        codes
    );
}

fn message_has(message: &Value, name: &str) -> bool {
    message.get(name).is_some()
}

/// Method, path of the description, target, headers, body, status.
type Exchange<'a> = (&'a str, &'a str, &'a str, &'a [(&'a str, &'a str)], &'a str, u16);

const ND: (&str, &str) = ("Content-Type", "application/x-ndjson");
const EXCHANGES: &[Exchange<'_>] = &[
    ("POST", "/v1/topics/{topic}", "/v1/topics/cars", &[], r#"{"speed":39}"#, 200),
    ("POST", "/v1/topics/{topic}", "/v1/topics/cars", &[ND], "{\"speed\":1}\n{\"speed\":2}\n", 200),
    ("POST", "/v1/topics/{topic}", "/v1/topics/cars", &[ND], "{\"speed\":1}\nno\n", 400),
    ("POST", "/v1/topics/{topic}", "/v1/topics/cars", &[("Content-Encoding", "gzip")], "1", 415),
    ("POST", "/v1/topics/{topic}", "/v1/topics/scores/1", &[], r#"{"score":[0,1]}"#, 200),
    ("GET", "/v1/topics/{topic}", "/v1/topics/cars?limit=10", &[], "", 200),
    ("GET", "/v1/topics/{topic}", "/v1/topics/cars?newest=1", &[], "", 200),
    ("GET", "/v1/topics/{topic}", "/v1/topics/scores/1?limit=1", &[], "", 200),
    ("GET", "/v1/topics/{topic}", "/v1/topics/none?limit=10", &[], "", 404),
    ("GET", "/v1/topics/{topic}", "/v1/topics/cars?curser=x", &[], "", 400),
    ("GET", "/v1/topics/{topic}", "/v1/topics/cars", &[], "", 406),
    ("GET", "/v1/topics", "/v1/topics", &[], "", 200),
    ("GET", "/v1/topics", "/v1/topics?limit=1", &[], "", 200),
    ("GET", "/v1/topics", "/v1/topics?query=SELECT+speed+FROM+cars", &[], "", 200),
    ("GET", "/v1/topics", "/v1/topics?query=SELECT+nothing", &[], "", 400),
    ("GET", "/v1/columns/{topic}", "/v1/columns/cars", &[], "", 200),
    ("GET", "/v1/columns/{topic}", "/v1/columns/none", &[], "", 404),
    ("POST", "/v1/commands", "/v1/commands", &[], r#"{"command":"echo","id":1,"data":[1]}"#, 200),
    (
        "POST",
        "/v1/commands",
        "/v1/commands",
        &[],
        r#"{"command":"publish","topic":"cars","event":{"speed":3}}"#,
        200,
    ),
    ("POST", "/v1/commands", "/v1/commands", &[], r#"{"command":"dance"}"#, 400),
    ("POST", "/v1/topics/{topic}", "/v1/topics/keyed/1?key=k&if=new", &[], "1", 200),
    ("POST", "/v1/topics/{topic}", "/v1/topics/keyed/1?key=k&if=new", &[], "1", 412),
    ("POST", "/v1/topics/{topic}", "/v1/topics/keyed/1?key=l&if=exists", &[], "1", 412),
    ("POST", "/v1/topics/{topic}", "/v1/topics/keyed/1?key=l", &[], "1", 200),
    ("POST", "/v1/topics/{topic}", "/v1/topics/keyed/1?key=m", &[], "1", 409),
    ("POST", "/v1/topics/{topic}", "/v1/topics/keyed/1", &[], "1", 400),
    (
        "POST",
        "/v1/commands",
        "/v1/commands",
        &[],
        r#"{"command":"publish","topic":"keyed/1","key":"k","if":"new","event":1}"#,
        412,
    ),
    ("GET", "/v1/topics/{topic}", "/v1/topics/keyed/1?limit=1", &[], "", 200),
    ("DELETE", "/v1/topics/{topic}", "/v1/topics/keyed/1?key=k&if=1.1", &[], "", 412),
    ("DELETE", "/v1/topics/{topic}", "/v1/topics/keyed/1?key=k", &[], "", 204),
    ("DELETE", "/v1/topics/{topic}", "/v1/topics/keyed/1?key=k", &[], "", 404),
    ("DELETE", "/v1/topics/{topic}", "/v1/topics/scores/1", &[], "", 204),
    ("DELETE", "/v1/topics/{topic}", "/v1/topics/none", &[], "", 404),
    ("GET", "/healthz", "/healthz", &[], "", 200),
    ("GET", "/readyz", "/readyz", &[], "", 200),
    ("GET", "/metrics", "/metrics", &[], "", 200),
];

#[test]
fn real_answers_fit_the_description() {
    let topics = ["scores/*,kind=value", "keyed/*,kind=keyed,keys=2", "cars,columns=speed:int"];
    let server = Server::start(&topics.map(|topic| ["--topic", topic]).concat());
    let spec = spec();
    for (method, path, target, headers, body, status) in EXCHANGES {
        let answer = server.ask(method, target, headers, body);
        let told = format!("{method} {target}: {}: {}", answer.status, answer.text());
        assert_eq!(answer.status, *status, "{told}");
        let operation = &spec["paths"][path][method.to_lowercase()];
        let mut described = &operation["responses"][answer.status.to_string()];
        if let Some(reference) = described["$ref"].as_str() {
            described = spec.pointer(reference.trim_start_matches('#')).expect("a response");
        }
        assert!(described.is_object(), "{told}: this status is not described");
        if answer.header("content-type").is_some_and(|kind| kind.starts_with("application/json")) {
            let schema = &described["content"]["application/json"]["schema"];
            check(&spec, schema, &answer.json()).unwrap_or_else(|why| panic!("{told}: {why}"));
        }
    }
    // An operation without an exchange could say anything; those that need tokens are in `signed`.
    for (path, operations) in spec["paths"].as_object().expect("paths") {
        let with_tokens = ["/v1/tickets", "/v1/admin/disconnect"].contains(&path.as_str());
        for method in ["get", "post", "delete"] {
            let is_tried = EXCHANGES
                .iter()
                .any(|exchange| exchange.1 == path && exchange.0.to_lowercase() == method);
            assert!(operations[method].is_null() || is_tried || with_tokens, "{method} {path}");
        }
    }
}

/// Refusals that concern no single operation: the server checks these before it looks at the path, or by the path alone.
#[test]
fn refusals_of_all_operations_fit_the_description() {
    let rights = "everybody,subscribe=**,publish=**,inspect=**,admin=true";
    let server = Server::start(&["--token", rights, "--set", "limits.header-bytes=16KiB"]);
    let spec = spec();
    for (path, operations) in spec["paths"].as_object().expect("paths") {
        let target = path.replace("{topic}", "cars");
        let methods = operations.as_object().expect("operations").keys();
        for method in methods.filter(|method| ["get", "post", "delete"].contains(&method.as_str()))
        {
            let known = method.to_uppercase();
            for (method, headers, status) in [
                ("PUT", &[][..], 405),
                (&*known, &[("Host", "other.example")], 421),
                (&*known, &[("Host", "a b")], 421),
                (&*known, &[("Origin", "https://other.example")], 403),
                (&*known, &[], 431),
            ] {
                if status == 431 {
                    let answer = oversized(&server, method, &target);
                    let described = &operations[known.to_lowercase()]["responses"]["431"]["$ref"];
                    assert_eq!(described, "#/components/responses/HeadTooLarge");
                    assert!(answer.status == 431 && answer.body.is_empty(), "{}", answer.head);
                    continue;
                }
                let answer = server.ask(method, &target, headers, "");
                let told = format!("{method} {target}: {}: {}", answer.status, answer.text());
                assert_eq!(answer.status, status, "{told}");
                let described = &operations[known.to_lowercase()]["responses"][status.to_string()];
                let reference = described["$ref"].as_str().map(|path| path.trim_start_matches('#'));
                let described = spec.pointer(reference.expect("a reference")).expect("a response");
                let allows = described["headers"]["Allow"].is_object();
                assert_eq!(answer.header("allow").is_some(), allows, "{told}");
                let schema = &described["content"]["application/json"]["schema"];
                check(&spec, schema, &answer.json()).unwrap_or_else(|why| panic!("{told}: {why}"));
            }
        }
    }
}

/// Sends a header that ends just above the limit, because a reset may replace the answer to a longer one.
fn oversized(server: &Server, method: &str, target: &str) -> Answer {
    let mut raw = Raw::connect(server.address);
    let value = "x".repeat(16 << 10);
    raw.send(format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\nX-Large: {value}"));
    raw.answer()
}

/// Every parameter of a subscription that is described is one that the server knows.
#[test]
fn the_described_parameters_are_known() {
    let server = Server::start(&[]);
    server.post("cars", "application/json", "1");
    let spec = spec();
    let described = &spec["paths"]["/v1/topics/{topic}"]["get"]["parameters"];
    for parameter in described.as_array().expect("parameters") {
        let name = parameter["name"].as_str().expect("a name");
        let answer = server.get(&format!("/v1/topics/cars?{name}=!"));
        assert!(!answer.text().contains("unknown parameter"), "{name}: {}", answer.text());
    }
    let answer = server.get("/v1/topics/cars?dance=!").refused(400, "bad_parameter");
    assert!(answer.contains("unknown parameter"), "{answer}");
}
