//! Two releases beside each other: nodes of both share a stream, and clients of one read from a server of the
//! other. `THALWEG_OLD` names the older binary. Without it these tests are skipped.

use std::{
    ffi::OsString,
    fs,
    path::Path,
    process::{Command, Stdio},
};

use thalweg_testing::skipped;

use crate::{
    cluster::Servers,
    harness::{Program, Server, Transport},
};

const NAMES: [&str; 5] = ["websocket", "sse", "http-streaming", "forever-frame", "long-polling"];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Release {
    Old,
    New,
}

const BOTH: [(Release, Release); 2] = [(Release::Old, Release::New), (Release::New, Release::Old)];

struct Releases {
    old: OsString,
}

impl Releases {
    fn find() -> Option<Self> {
        let old = std::env::var_os("THALWEG_OLD");
        if old.is_none() {
            skipped("no older release: name its binary with THALWEG_OLD");
        }
        Some(Self { old: old? })
    }

    fn command(&self, release: Release) -> Command {
        match release {
            Release::Old => Command::new(&self.old),
            Release::New => Command::new(env!("CARGO_BIN_EXE_thalweg")),
        }
    }

    fn serve(&self, release: Release, arguments: &[&str]) -> Server {
        let mut command = self.command(release);
        Server::start_by(command.arg("serve"), arguments, Stdio::piped())
    }
}

#[test]
fn nodes_of_both_have_the_same_events_at_the_same_positions() {
    let Some(releases) = Releases::find() else { return };
    let Some(servers) = Servers::start(1) else { return };
    let urls = servers.urls().join(",");
    let arguments = ["--nats", &urls, "--stream", "all=**,replicas=1"];
    let nodes = [Release::Old, Release::New].map(|release| releases.serve(release, &arguments));
    for node in &nodes {
        crate::harness::wait_for("ready", || (node.get("/readyz").status == 200).then_some(()));
    }
    for transport in Transport::ALL {
        let topic = format!("cars/{transport:?}");
        let first = nodes[0].publish(&topic, 0..3).position;
        let target = format!("/{topic}?cursor={first}");
        let mut subscribers = nodes.each_ref().map(|node| node.subscribe(transport, &target));
        for subscriber in &mut subscribers {
            assert_eq!(subscriber.confirmed(), first);
        }
        let mut last = String::new();
        for number in 3..9 {
            last = nodes[number as usize % 2].publish(&topic, number..number + 1).position;
        }
        for subscriber in &mut subscribers {
            let mut numbers = Vec::new();
            let mut position = String::new();
            while numbers.len() < 6 {
                let envelope = subscriber.envelope();
                numbers.extend(envelope.events.iter().filter_map(serde_json::Value::as_u64));
                position = envelope.position;
            }
            assert_eq!((numbers, &position), ((3..9).collect(), &last), "{transport:?}");
        }
    }
}

#[test]
fn tail_of_either_reads_from_either_server() {
    let Some(releases) = Releases::find() else { return };
    for (of_client, of_server) in BOTH {
        let server = releases.serve(of_server, &[]);
        server.publish("t", 0..3);
        for transport in NAMES {
            let url = format!("http://{}/v1/topics/t", server.address);
            let mut command = releases.command(of_client);
            command.args(["tail", &url, "--from", "earliest", "--transport", transport]);
            let mut tail = Program::start(&mut command);
            let lines = tail.lines(3);
            assert_eq!(lines, ["0", "1", "2"], "{of_client:?} over {transport}: {}", tail.said());
        }
    }
}

/// Each server delivers the SDK of its release. The SDK is loaded from one server and reads from the other.
#[test]
fn the_sdk_of_either_reads_from_either_server() {
    const READ: &str = r#"
        const [sdk, url] = process.argv.slice(2);
        const { connect } = await import(sdk);
        const session = connect(url, { transports: ["http-streaming"] });
        const seen = [];
        for await (const { events } of session.subscribe("t", { from: "earliest" })) {
            seen.push(...events);
            if (seen.length >= 3) break;
        }
        console.log(JSON.stringify(seen));
        process.exit();
    "#;
    let Some(releases) = Releases::find() else { return };
    for (of_sdk, of_server) in BOTH {
        let (with_sdk, server) = (releases.serve(of_sdk, &[]), releases.serve(of_server, &[]));
        let sdk = with_sdk.get("/sdk/thalweg.js");
        if sdk.status != 200 {
            return skipped("a binary without its pages has no SDK");
        }
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("sdk-{of_sdk:?}"));
        fs::create_dir_all(&folder).expect("make a folder");
        let [module, script] = ["thalweg.mjs", "read.mjs"].map(|name| folder.join(name));
        fs::write(&module, sdk.text()).expect("write the SDK");
        fs::write(&script, READ).expect("write a script");
        server.publish("t", 0..3);
        let mut command = Command::new("node");
        command.arg(script).arg(&module).arg(format!("http://{}/", server.address));
        let Ok(output) = command.output() else { return skipped("there is no Node") };
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "[0,1,2]\n", "{of_sdk:?}: {said}");
    }
}
