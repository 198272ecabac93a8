//! The Python example in `examples/python`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{Program, Proxy, Server};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn python(script: &str, arguments: &[&str]) -> Program {
    let script = repository().join("examples/python").join(script);
    Program::start(interpreter().arg(script).args(arguments))
}

pub(crate) fn code(lines: &str, arguments: &[&str]) -> Program {
    Program::start(interpreter().args(["-c", lines]).args(arguments))
}

/// Python with the packages that `make setup` installs.
fn interpreter() -> Command {
    let packages = repository().join("target/python");
    assert!(
        packages.join("installed").exists(),
        "Python needs the packages of examples/python/requirements.txt: run make setup"
    );
    let mut command = Command::new("python3");
    // Examples that import each other leave no files beside them.
    command.arg("-u").env("PYTHONPATH", packages).env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

#[test]
fn it_follows_and_resumes_over_each_transport() {
    let check = |transport: &str| {
        let server = Server::start(&[]);
        let proxy = Proxy::start(server.address);
        let url = format!("http://{}/v1/topics/numbers", proxy.address);
        server.publish("numbers", 0..10);
        let mut follower = python("tail.py", &[&url, transport, "earliest"]);
        let mut seen = follower.lines(10);
        proxy.cut();
        server.publish("numbers", 10..20);
        seen.extend(follower.lines(10));
        let expected: Vec<String> = (0..20).map(|number| number.to_string()).collect();
        assert_eq!(seen, expected, "{transport}");
        assert!(!follower.said().contains("missed"), "{}", follower.said());
    };
    std::thread::scope(|scope| {
        for transport in ["websocket", "sse", "http-streaming"] {
            scope.spawn(move || check(transport));
        }
    });
}

/// Returns the lines of the README that read a live topic as columns, with another address.
fn columns_from_readme(url: &str) -> String {
    let readme = std::fs::read_to_string(repository().join("README.md")).expect("the README");
    let (_, from) = readme.split_once("```python\n").expect("lines of Python");
    let (lines, _) = from.split_once("```").expect("their end");
    let example = "http://127.0.0.1:8080/v1/topics/car_live_data";
    assert!(lines.contains(example), "{lines}");
    lines.replace(example, url)
}

/// Each batch arrives as soon as it is published, and the loop ends with the topic.
#[test]
fn three_lines_read_a_live_topic_as_columns() {
    let server = Server::start(&[]);
    let url = format!("http://{}/v1/topics/cars?cursor=earliest", server.address);
    let publish = |rows| server.post("cars", "application/x-ndjson", rows).published();
    publish("{\"n\":1,\"car\":\"c1\"}\n");
    let mut reader = code(&columns_from_readme(&url), &[]);
    let first = "[{'_offset': 1, 'n': 1, 'car': 'c1'}]";
    assert_eq!(reader.lines(2), ["[]", first]);
    publish("{\"n\":2,\"car\":\"c2\"}\n{\"n\":3}\n");
    let second = "[{'_offset': 2, 'n': 2, 'car': 'c2'}, {'_offset': 3, 'n': 3, 'car': None}]";
    assert_eq!(reader.lines(1), [second]);
    server.ask("DELETE", "/v1/topics/cars", &[], "");
    assert_eq!(reader.lines(1), ["[]"], "the last words have no rows");
    let (status, said) = reader.end();
    assert!(status.success(), "{said}");
}

/// Reads each stream of the golden vectors with pyarrow, and compares.
const VECTORS: &str = r#"
import json, sys, pyarrow
def cell(name, kind, value):
    if value is None: return None
    if kind == "time": return {"ms": value.value}
    return json.loads(value) if kind == "json" else value
for stream in json.load(open(sys.argv[1]))["streams"]:
    messages = [*stream["begin"], *(m for f in stream["frames"] for m in f["messages"]), *stream["no_rows"], *stream["end"]]
    reader = pyarrow.ipc.open_stream(bytes.fromhex("".join(messages)))
    columns = [column.rpartition(":") for column in stream["columns"]]
    offsets, values, said = [], [], None
    while True:
        try: batch, metadata = reader.read_next_batch_with_custom_metadata()
        except StopIteration: break
        batch.validate(full=True)
        said = json.loads(metadata[b"thalweg.close"]) if metadata and b"thalweg.close" in metadata else None
        offsets += batch["_offset"].to_pylist()
        for row in range(batch.num_rows):
            cells = [batch.column(1 + at)[row] for at in range(len(columns))]
            values.append([cell(n, k, c if k == "time" and c.is_valid else c.as_py()) for (n, _, k), c in zip(columns, cells)])
    frames = stream["frames"]
    assert values == [row for f in frames for row in f["values"]], (stream["what"], values)
    assert offsets == [f["first"] + at for f in frames for at in range(len(f["rows"]))], offsets
    assert said == stream["close"], said
    print(stream["what"])
"#;

#[test]
fn pyarrow_reads_the_golden_vectors() {
    let vectors = repository().join("vectors/arrow.json");
    let mut reader = code(VECTORS, &[vectors.to_str().expect("a path")]);
    let mut read = 0;
    while reader.line().is_some() {
        read += 1;
    }
    let (status, said) = reader.end();
    assert!(status.success() && read > 5, "{read} and {said}");
}

/// The messages of a subscriber that is cut off within a snapshot, and later has a gap.
const KEYED: &str = r#"
import json, sys
sys.path.insert(0, sys.argv[1])
from keyed import states
def messages():
    for line in sys.argv[2].splitlines(): yield json.loads(line)
for state in states(messages()): print(json.dumps(state))
"#;

#[test]
fn it_prints_only_states_that_a_keyed_topic_had() {
    let messages = [
        r#"{"topic":"t","position":"9f.0","first":1,"until":4,"keys":[],"events":[]}"#,
        r#"{"topic":"t","position":"9f.2","first":1,"until":4,"keys":["a","b"],"events":[1,2]}"#,
        r#"{"topic":"t","position":"9f.2","first":3,"until":4,"keys":[],"events":[]}"#,
        r#"{"topic":"t","position":"9f.4","first":4,"after":2,"keys":["c"],"events":[4]}"#,
        r#"{"heartbeat":{}}"#,
        r#"{"topic":"t","position":"9f.5","first":5,"keys":["a"],"events":[null]}"#,
        r#"{"topic":"t","position":"9f.0","gap":{"missed":null,"reason":"trimmed"}}"#,
        r#"{"topic":"t","position":"9f.0","first":1,"until":9,"keys":[],"events":[]}"#,
        r#"{"topic":"t","position":"9f.8","first":8,"after":0,"until":9,"keys":["d"],"events":[8]}"#,
        r#"{"topic":"t","position":"9f.9","first":9,"keys":["b"],"events":[9]}"#,
    ];
    let folder = repository().join("examples/python");
    let folder = folder.to_str().expect("a path");
    let mut reader = code(KEYED, &[folder, &messages.join("\n")]);
    let expected = [r#"{"a": 1, "b": 2, "c": 4}"#, r#"{"b": 2, "c": 4}"#, r#"{"d": 8, "b": 9}"#];
    assert_eq!(reader.lines(3), expected);
    let (status, said) = reader.end();
    assert!(status.success(), "{said}");
}

#[test]
fn it_publishes_once_and_sends_a_command() {
    let server = Server::start(&[]);
    let url = format!("http://{}/v1/topics/numbers", server.address);
    let mut publisher = python("publish.py", &[&url]);
    publisher.give("1\n\n{\"a\": \"é\"}\n");
    let positions = publisher.lines(2);
    let (status, said) = publisher.end();
    assert!(status.success() && said.contains("echo: {'id': 1, 'data': 'hello'}"), "{said}");
    let history = server.get("/v1/topics/numbers?limit=10").json();
    assert_eq!(history["events"], serde_json::json!([1, {"a": "é"}]));
    assert_eq!(history["position"], positions[1].as_str());
    let mut refused = python("publish.py", &[&url]);
    refused.give("{\n");
    let (status, said) = refused.end();
    assert!(!status.success() && said.contains("not a JSON value"), "{said}");
}
