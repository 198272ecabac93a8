//! `thalweg serve --check`, with flags, variables and a file.

use std::process::{Command, Output};

use thalweg_testing::TemporaryPath;

use crate::harness::Server;

fn check(arguments: &[&str], tokens: Option<&str>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    command.args(["serve", "--check"]).args(arguments);
    command.envs(tokens.map(|tokens| ("THALWEG_TOKENS", tokens)));
    command.output().expect("run the binary")
}

fn served(arguments: &[&str], token: Option<&str>) -> String {
    let output = check(arguments, token);
    let [said, complained] = [output.stdout, output.stderr].map(text);
    assert!(output.status.success(), "{arguments:?}: {complained}");
    said
}

fn refused(arguments: &[&str], token: Option<&str>) -> String {
    let output = check(arguments, token);
    let complained = text(output.stderr);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {complained}");
    assert_eq!(complained.lines().count(), 1, "{complained}");
    assert!(output.stdout.is_empty());
    complained
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("text")
}

#[test]
fn the_example_is_served() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/thalweg.toml");
    assert_eq!(served(&["--config", example], None), served(&[], None));
    let flag_wins = served(&["--config", example, "--heartbeat", "3s"], None);
    assert!(flag_wins.contains("heartbeat 3s"), "{flag_wins}");
}

#[test]
fn a_server_that_others_reach_needs_tokens_or_rights_of_everybody() {
    let anywhere = ["--listen", "0.0.0.0:8080"];
    let complained = refused(&anywhere, None);
    for remedy in ["--token", "--jwt-key", "--token everybody,subscribe=**,publish=**"] {
        assert!(complained.contains(remedy), "{complained}");
    }
    let said = served(&anywhere, Some("app=s3cret,publish=**"));
    assert!(said.contains("token app") && !said.contains("s3cret"), "{said}");
    assert!(said.contains("http://0.0.0.0:8080, "), "{said}");
    served(&[&anywhere[..], &["--token", "everybody,subscribe=**,publish=**"]].concat(), None);
    // An empty secret protects nothing, and an empty variable is no token.
    assert!(refused(&anywhere, Some("app=,publish=**")).contains("token app"));
    refused(&anywhere, Some(""));
}

/// Tokens of the file must not be ignored because a unit or a chart has some, too.
#[test]
fn tokens_are_in_one_place() {
    let table = "[[token]]\nname = \"a\"\nsecret = \"s3cret\"\npublish = [\"**\"]\n";
    let file = TemporaryPath::file("tokens", table);
    let config = ["--config", file.text()];
    let flags = [&config[..], &["--token", "everybody,subscribe=**"]].concat();
    let complained = [refused(&flags, None), refused(&config, Some("everybody,subscribe=**"))];
    assert!(complained.iter().all(|words| words.contains("in one place")), "{complained:?}");
}

#[test]
fn an_address_may_be_written_short() {
    let at = |address: &str| served(&["--listen", address], Some("app=s3cret,publish=**"));
    assert_eq!(at("localhost:8081"), at("127.0.0.1:8081"));
    assert_eq!(at(":8081"), at("0.0.0.0:8081"));
    let admin = |address: &str| served(&["--admin-listen", address], None);
    assert_eq!(admin("localhost:8081"), admin("127.0.0.1:8081"));
    // All addresses of the machine are reached by others.
    assert!(refused(&["--listen", ":8081"], None).contains("--token"));
}

/// A wrong port would otherwise be noticed when the server is needed, or never.
#[test]
fn ports_of_all_addresses_are_checked() {
    for port in ["65536", "http", "-1"] {
        let cluster = format!("nats://u:s3cret@h:{port}");
        for (arguments, remedy) in [
            (vec!["--nats", &cluster, "--stream", "live=**"], "write it as nats://host:4222"),
            (
                vec!["--upstream", &format!("a=http://h:{port}/")],
                "write it as http://host:8080/path",
            ),
            (
                vec!["--jwks-url", &format!("https://h:{port}/keys")],
                "write it as http://host:8080/path",
            ),
            (vec!["--listen", &format!("127.0.0.1:{port}")], "write it as 127.0.0.1:8080"),
            (vec!["--admin-listen", &format!("localhost:{port}")], "write it as 127.0.0.1:8080"),
            (
                vec!["--allow-origin", &format!("https://h:{port}")],
                "write it as https://app.example",
            ),
            (vec!["--allow-host", &format!("h:{port}")], "write only its name"),
            (vec!["--trusted-proxy", &format!("10.0.0.1:{port}")], "write it as 10.0.0.1"),
        ] {
            // The start refuses the same.
            for check in [&["serve", "--check"][..], &["serve", "--listen", "127.0.0.1:0"]] {
                if check.contains(&"--listen") && arguments[0] == "--listen" {
                    continue;
                }
                let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
                let output = command.args(check).args(&arguments).output().expect("run the binary");
                let complained = text(output.stderr);
                assert!(!output.status.success() && output.stdout.is_empty(), "{arguments:?}");
                assert!(complained.contains(remedy), "{arguments:?}: {complained}");
                assert!(!complained.contains("s3cret"), "{complained}");
            }
        }
    }
}

/// The settings of NATS are checked without a NATS server.
#[test]
fn settings_of_nats_are_checked_without_a_server() {
    for (arguments, words) in [
        (&["--nats", "nats://h", "--stream", "live=**,age=1m"][..], "set at least 5m"),
        (&["--nats", "nats://h", "--stream", "a.b=**"], "letters, digits"),
        (
            &["--nats", "nats://h", "--stream", "a=**", "--set", "nats-credentials=/no/file"],
            "cannot read the NATS credentials /no/file",
        ),
        (&["--nats", "nats://h", "--stream", "a=**", "--set", "nats-ca=/no/file"], "/no/file"),
    ] {
        assert!(refused(arguments, None).contains(words), "{arguments:?}");
    }
    served(&["--nats", "nats://a:4222,tls://b", "--stream", "live=**"], None);
}

#[test]
fn a_folder_of_runs_may_come_later() {
    let folder = TemporaryPath::new("later");
    let folder = folder.text();
    let said = served(&["--runs", folder], None);
    assert!(said.contains("does not exist yet"), "{said}");
    let server = Server::start(&["--runs", folder]);
    assert_eq!(server.get("/runs").text(), "{\"runs\":[]}\n");
    server.get("/runs/first/report.html").refused(404, "not_found");
    std::fs::create_dir_all(format!("{folder}/first")).expect("a folder");
    std::fs::write(format!("{folder}/first/report.html"), "<p>").expect("a file");
    assert!(server.get("/runs").text().contains("\"name\":\"first\""));
    assert_eq!(server.get("/runs/first/report.html").text(), "<p>");
    std::fs::remove_dir_all(folder).expect("remove it");
    assert_eq!(server.get("/runs").text(), "{\"runs\":[]}\n");
}

#[test]
fn a_flag_of_other_servers_leads_to_ours() {
    let output = check(&["--port", "8080"], None);
    let complained = text(output.stderr);
    assert_eq!(output.status.code(), Some(2), "{complained}");
    assert!(complained.contains("'--listen'"), "{complained}");
    let file = TemporaryPath::file("port", "port = 8080\n");
    let complained = refused(&["--config", file.text()], None);
    assert!(complained.contains("did you mean \"listen\"?"), "{complained}");
}

#[test]
fn a_token_is_refused_by_its_name() {
    let complained = refused(&[], Some("first=one,publish=**\nsecond=two words,publish=**"));
    assert!(complained.contains("token second") && !complained.contains("two words"));
    let complained = refused(&["--token", "dash=two words,publish=**"], None);
    assert!(complained.contains("token dash"), "{complained}");
}

/// The value of each flag, and flags that make it count. The effect shows in the check or in its error.
const VALUES: &[(&str, &str, &[&str])] = &[
    ("config", "/no/file", &[]),
    ("listen", "127.0.0.1:9", &[]),
    ("admin-listen", "127.0.0.1:9", &[]),
    ("shards", "77", &[]),
    ("demo", "true", &[]),
    ("runs", "/no/folder", &[]),
    ("compression", "true", &[]),
    ("set", "limits.topics=77", &[]),
    ("topic", "orders,flush=5ms", &[]),
    ("source", "a=cars", &[]),
    ("query", "a=SELECT nothing", &[]),
    ("upstream", "a=http://h/", &[]),
    ("data", "/dev/null/no", &[]),
    ("data-bytes", "1GiB", &[]),
    ("store", "a", &[]),
    ("nats", "nats://h", &[]),
    ("stream", "live=**", &[]),
    ("node", "one", &["--nats", "nats://h", "--stream", "live=**", "--source-node", "one"]),
    ("source-node", "one", &[]),
    ("time-node", "one", &[]),
    ("token", "app=s3cret,publish=**", &[]),
    ("jwt-key", "nonsense", &[]),
    ("jwt-secret", "short", &[]),
    ("jwks-url", "http://h/keys", &[]),
    ("jwt-issuer", "me", &[]),
    ("jwt-audience", "me", &[]),
    ("allow-origin", "https://app.example", &[]),
    ("allow-host", "push.example", &[]),
    ("trusted-proxy", "10.0.0.0/8", &[]),
    ("tls-cert", "/no/file", &[]),
    ("tls-key", "/no/file", &[]),
    ("tls-self-signed", "true", &[]),
    ("heartbeat", "77s", &[]),
    ("header-timeout", "1w", &[]),
    ("body-timeout", "1w", &[]),
    ("write-timeout", "77s", &[]),
    ("shutdown-delay", "77s", &[]),
    ("shutdown-timeout", "77s", &[]),
    ("log", "inform", &[]),
    ("log-format", "xml", &[]),
];

/// A variable has the effect of its flag.
#[test]
fn the_variable_of_each_flag_is_read() {
    let run = |arguments: &[&str], variable: Option<(&str, &str)>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        let output = command.arg("serve").args(arguments).envs(variable).output();
        let output = output.expect("run the binary");
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (_, help, _) = run(&["--help"], None);
    let mut flags = Vec::new();
    for line in help.lines() {
        if let Some(flag) = line.strip_prefix("      --") {
            flags.push((flag.split(' ').next().unwrap_or(flag), ""));
        } else if let Some((_, variable)) = line.split_once("[env: ")
            && let Some(last) = flags.last_mut()
        {
            last.1 = variable.trim_end_matches(']');
        }
    }
    assert!(flags.len() > 30, "{flags:?}");
    for (flag, variable) in flags {
        if flag == "check" {
            assert_eq!(run(&[], Some((variable, "true"))), run(&["--check"], None));
            continue;
        }
        let found = VALUES.iter().find(|(name, ..)| *name == flag);
        let (_, value, others) = found.unwrap_or_else(|| panic!("--{flag} has no value here"));
        let others = [&["--check"], *others].concat();
        let by_variable = run(&others, Some((variable, value)));
        let flag = format!("--{flag}");
        let by_flag: &[&str] = if *value == "true" { &[&flag] } else { &[&flag, value] };
        assert_eq!(by_variable, run(&[&others, by_flag].concat(), None), "{variable}");
        assert_ne!(by_variable, run(&others, None), "{variable} has no effect");
    }
}

/// A server that ignores its tokens would let everybody publish.
#[test]
fn tokens_of_the_server_in_the_variable_of_clients_are_refused() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    let output = command.args(["serve", "--check"]).env("THALWEG_TOKEN", "app=s3cret,publish=**");
    let output = output.output().expect("run the binary");
    let complained = text(output.stderr);
    assert_eq!(output.status.code(), Some(1), "{complained}");
    assert!(complained.contains("THALWEG_TOKENS") && !complained.contains("s3cret"));
}

/// A flag wins over its variable, the variable over the file. A list in a variable has one value per line.
#[test]
fn each_flag_has_a_variable() {
    let file = TemporaryPath::file("variables", "heartbeat = \"7s\"\nwrite-timeout = \"8s\"\n");
    let served = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        command.args(["serve", "--check"]).args(arguments).env("THALWEG_CONFIG", file.text());
        command.env("THALWEG_HEARTBEAT", "9s").env("THALWEG_COMPRESSION", "true");
        command.env("THALWEG_SOURCE", "a=cars,cars=1\nb=dummy").env("THALWEG_DEMO", "false");
        command.env("THALWEG_SET", "limits.topics=55\nlimits.event-bytes=2MiB");
        let output = command.output().expect("run the binary");
        assert!(output.status.success(), "{}", text(output.stderr));
        text(output.stdout)
    };
    let said = served(&[]);
    for part in [
        "heartbeat 9s, write-timeout 8s",
        "a (cars), b (dummy)\n",
        "for clients that ask for it",
        "55 topics; 2MiB an event",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(served(&["--heartbeat", "3s"]).contains("heartbeat 3s"));
}

/// An old token must not be ignored: without it everybody might publish.
#[test]
fn old_names_lead_to_the_new_ones() {
    let output = check(&["--drain", "5s"], None);
    let complained = text(output.stderr);
    assert_eq!(output.status.code(), Some(2), "{complained}");
    assert!(complained.contains("--drain is now --shutdown-timeout"), "{complained}");
    for variable in ["THALWEG_PUBLISH_TOKEN", "THALWEG_SUBSCRIBE_TOKEN", "THALWEG_INSPECT_TOKEN"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        let output = command.args(["serve", "--check"]).env(variable, "s3cret").output();
        let output = output.expect("run the binary");
        let complained = text(output.stderr);
        assert!(!output.status.success() && complained.contains("THALWEG_TOKENS"), "{complained}");
        assert!(!complained.contains("s3cret"), "{complained}");
    }
}

#[test]
fn an_invalid_configuration_is_an_error_of_one_line() {
    assert!(refused(&["--config", "/no/such/file"], None).contains("/no/such/file"));
    assert!(refused(&["--allow-origin", "app.example"], None).contains("app.example"));
    assert!(refused(&["--source", "a=carts"], None).contains("cars"));
    assert!(refused(&["--tls-cert", "cert.pem"], None).contains("tls-key"));
}
