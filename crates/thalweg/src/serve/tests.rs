//! What a user sees who sets something, rightly or wrongly.

use std::time::Duration;

use bytes::Bytes;
use clap::{CommandFactory, Parser};
use proptest::{collection::vec, prelude::*, sample::select};
use thalweg_server::{
    config::{Config, Tls},
    pages::{Page, Pages},
};

use super::{ServeArgs, cluster::Cluster, config::config, file, screen, settings::Settings};

#[derive(Debug, Parser)]
#[command(name = "thalweg serve", term_width = 100)]
struct Line {
    #[command(flatten)]
    args: ServeArgs,
}

fn line(text: &str) -> Result<Settings, clap::Error> {
    let words = ["serve"].into_iter().chain(text.split_whitespace());
    Line::try_parse_from(words).map(|line| line.args.settings)
}

fn read(text: &str) -> Result<Settings, String> {
    file::parse("thalweg.toml", text)
}

/// The sentence that flags earn when they are put together.
fn clash(flags: &str) -> String {
    config(line(flags).unwrap()).unwrap_err()
}

#[test]
fn help_is_short_or_long() {
    insta::assert_snapshot!("short_help", Line::command().render_help());
    insta::assert_snapshot!("long_help", Line::command().render_long_help());
}

#[test]
fn help_shows_no_token() {
    let command = Line::command();
    for token in ["publish_token", "subscribe_token", "inspect_token"] {
        let flag = command.get_arguments().find(|flag| flag.get_id() == token).unwrap();
        assert!(flag.is_hide_env_values_set(), "{token}");
    }
}

#[test]
fn mistakes_in_a_file_are_answered_with_the_line_and_the_nearest_name() {
    let refusal = |text: &str| read(&format!("# mine\n\n{text}\n")).unwrap_err();
    let refusals = [
        refusal("histroy-bytes = \"8MiB\""),
        refusal("history_bytes = \"8MiB\""),
        refusal("[access]\nopen = true"),
        refusal("echo-path = \"/echo\""),
        refusal("history-bytes = \"8MB\""),
        refusal("heartbeat = 25"),
        refusal("heartbeat = 2.5"),
        refusal("heartbeat = \"5ms\""),
        refusal("heartbeat = true"),
        refusal("shards = 0"),
        refusal("shards = -1"),
        refusal("max-event = \"1GiB\""),
        refusal("listen = \"server:8080\""),
        refusal("log = \"inform\""),
        refusal("open = \"yes\""),
        refusal("source = [\n  \"cars=cars\",\n  \"cars\",\n]"),
        refusal("source = \"cars=cars\""),
        refusal("topic = [\"orders,flsh=5ms\"]"),
        refusal("topic = [\"a//b\"]"),
        refusal("topic = [\"a/**/b\"]"),
        refusal("topic = [\"a/*,kind=valu\"]"),
        refusal("open = true\nopen = true"),
        refusal("open = "),
        refusal("open"),
    ];
    insta::assert_snapshot!(refusals.join("\n"));
}

#[test]
fn a_file_refuses_a_value_with_the_words_of_the_flag() {
    for (name, value) in [
        ("history-bytes", "8MB"),
        ("heartbeat", "5ms"),
        ("shards", "0"),
        ("shards", "257"),
        ("max-head", "1KiB"),
        ("listen", "8080"),
        ("log", "inform"),
        ("log-format", "xml"),
    ] {
        let by_flag = line(&format!("--{name} {value}")).unwrap_err().to_string();
        let by_file = read(&format!("{name} = \"{value}\"")).unwrap_err();
        let why = by_file.strip_prefix(&format!("thalweg.toml:1: {name}: "));
        let why = why.unwrap_or_else(|| panic!("{by_file}"));
        assert!(by_flag.contains(why), "{by_flag}: {why}");
    }
}

#[test]
fn what_does_not_go_together_is_refused() {
    let refusals = [
        clash("--tls-cert a.pem"),
        clash("--tls-key a.pem"),
        clash("--tls-self-signed --tls-cert a.pem --tls-key b.pem"),
        clash("--max-event 2MiB --max-history 1MiB"),
        clash("--max-event 2MiB --max-unfinished 2MiB"),
        clash("--publish-token @/no/such/file"),
        clash("--connection-rates handshakes=1"),
    ];
    insta::assert_snapshot!(refusals.join("\n"));
}

#[test]
fn what_of_a_cluster_does_not_go_together_is_refused() {
    let cluster = |flags: &str| {
        let settings = line(flags).unwrap();
        let cluster = Cluster::of(&settings)?;
        let mut made = config(settings)?;
        cluster.map_or(Ok(()), |cluster| cluster.settle(&mut made))?;
        Ok::<_, String>(made)
    };
    let nats = "--nats nats://a,nats://b --stream live=**";
    let refusals = [
        "--stream live=**",
        "--source-node a",
        "--nats nats://a",
        "--nats nats://a --stream live=a/** --stream live=b/**",
        "--nats nats://a --stream live=** --source-node a",
        "--nats nats://a --stream live=** --time-node a",
        "--nats nats://a --stream live=** --source cars=cars",
        "--nats nats://a --stream live=a/** --topic */b,kind=value",
    ];
    insta::assert_snapshot!(refusals.map(|flags| cluster(flags).unwrap_err()).join("\n"));
    let sources = |node: &str| {
        let flags = format!("{nats} --source cars=cars --source-node one --node {node}");
        cluster(&flags).unwrap().runs_sources
    };
    assert_eq!((sources("one"), sources("two")), (true, false));
    let tells = |node: &str| cluster(&format!("{nats} --time-node one --node {node}")).unwrap();
    assert_eq!((tells("one").tells_time, tells("two").tells_time), (true, false));
}

#[test]
fn a_flag_wins_over_the_file_and_the_file_over_the_default() {
    let file = "heartbeat = \"7s\"\nflush = \"3ms\"\nopen = true\nmax-connections = 50\n\
                source = [\"a=cars\", \"b=dummy\"]\ntopic = [\"t,flush=9ms\"]\n\
                publish-token = \"of the file\"";
    let flags = line("--heartbeat 9s --source c=cars --compression").unwrap();
    let merged = config(flags.over(read(file).unwrap())).unwrap();
    assert_eq!(merged.heartbeat, Duration::from_secs(9));
    assert_eq!(merged.topic_defaults.batch.flush_us, 3_000);
    assert_eq!(merged.drain, Config::default().drain);
    assert!(merged.access.open && merged.compression);
    let sources: Vec<_> = merged.sources.iter().map(|source| source.topic.as_str()).collect();
    assert_eq!(sources, ["c"]);
    assert_eq!(merged.topics[0].1.batch.flush_us, 9_000);
    assert_eq!(merged.access.publish_token.unwrap().as_bytes(), b"of the file");
    let limits = merged.limits;
    assert_eq!((limits.connections, limits.of_one_address()), (50, 100));
}

#[test]
fn a_topics_bounds_are_those_of_all_topics_where_it_has_none() {
    // In whatever order.
    let made = config(line("--topic t,flush=9ms --history-events 7").unwrap()).unwrap();
    assert_eq!(made.topics[0].1.history.events_max, 7);
    assert_eq!(made.topics[0].1.batch.flush_us, 9_000);
}

/// A JWK (RFC 8037, appendix A.2).
const PUBLIC_KEY: &str =
    r#"{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#;

#[test]
fn tokens_have_rights_of_their_own() {
    let flags =
        "--token dash=s3cret,subscribe=cars/**,inspect=**,admin=true --everybody publish=in/*";
    let made = config(line(flags).unwrap()).unwrap().access;
    let token = &made.tokens[0];
    assert_eq!((&*token.name, token.secret.as_bytes()), ("dash", &b"s3cret"[..]));
    let topic = |text: &str| text.parse().unwrap();
    assert!(token.rights.subscribe.contain(&topic("cars/1")) && token.rights.inspect.are_all());
    assert!(token.rights.publish.are_none() && token.rights.admin);
    assert!(made.everybody.unwrap().publish.contain(&topic("in/1")));
    for (wrong, words) in [
        ("--token x", "NAME=TOKEN"),
        ("--token =s3cret,subscribe=a", "name"),
        ("--token t=s3cret", "gives no right"),
        ("--token t=s3cret,subscribe=a*", "whole segment"),
        ("--token t=s3cret,subscribes=a", "subscribe"),
        ("--token t=s3cret,admin=yes", "neither true nor false"),
        ("--token t=@/nowhere,subscribe=a", "/nowhere"),
        ("--jwt-key nonsense", "PEM or a JWK"),
        ("--jwt-secret s3cret", "32 bytes"),
        ("--jwt-issuer me", "needs a key"),
    ] {
        let said = clash(wrong);
        assert!(said.contains(words) && !said.contains("s3cret"), "{wrong}: {said}");
    }
    for wrong in [
        "--everybody subscribe=//",
        "--everybody all",
        "--jwks-url ftp://h/",
        "--jwks-url http://h/{topic}",
    ] {
        assert!(line(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn every_setting_reaches_the_configuration() {
    let untouched = format!("{:#?}", Config::default());
    // The lines that a setting changes, and no other may.
    let mut taken = std::collections::HashMap::new();
    let command = Line::command();
    let own = ["config", "check", "port", "log", "log-format", "help"];
    for flag in command.get_arguments() {
        let name = flag.get_long().unwrap();
        let value = match name {
            _ if own.contains(&name) => continue,
            "demo" | "open" | "compression" | "tls-self-signed" => "",
            // Without its other half refused, which shows that it is looked at.
            "tls-cert" | "tls-key" => {
                assert!(clash(&format!("--{name} x")).contains(name));
                continue;
            }
            // Of the cluster, which is made of the settings beside the configuration.
            "nats" | "nats-credentials" | "nats-ca" | "node" | "source-node" | "time-node" => {
                continue;
            }
            "stream" => "s=t",
            "listen" | "admin-listen" => "127.0.0.1:9",
            "trusted-proxy" => "10.0.0.1/8",
            "shards" => "99",
            "source" => "t=cars",
            "upstream" => "t=http://h/",
            "topic" => "t",
            "query" => "q=SELECT",
            "subscribe" => "existing",
            "walk-slice" => "3us",
            "peer-timeout" => "77s",
            "connection-rates" | "subject-rates" | "address-rates" => "commands=7",
            "token" => "t=x,subscribe=a",
            "everybody" => "subscribe=a",
            "jwks-url" => "http://h/keys",
            "jwt-key" => PUBLIC_KEY,
            "jwt-secret" => "0123456789abcdef0123456789abcdef",
            // What is said of tokens needs a key.
            "jwt-issuer" | "jwt-audience" | "jwt-claim" => {
                "x --jwt-secret 0123456789abcdef0123456789abcdef"
            }
            "jwt-leeway" => "7s --jwt-secret 0123456789abcdef0123456789abcdef",
            _ => match flag.get_value_names().map(|names| names[0].as_str()) {
                Some("SIZE") if name.starts_with("max-") && name != "max-head" => "7MiB",
                Some("SIZE") => "9KiB",
                Some("TIME") => "77ms",
                Some("N") => "77",
                _ => "x",
            },
        };
        let settings = line(&format!("--{name} {value}")).unwrap();
        let made = format!("{:#?}", config(settings).unwrap());
        assert_ne!(made, untouched, "--{name} {value} changes nothing");
        // One becomes several where there was none; and one for all is one for each, too.
        let is_longer = made.lines().count() != untouched.lines().count();
        if is_longer || name == "max-connections" {
            continue;
        }
        let pairs = (1..).zip(made.lines().zip(untouched.lines()));
        for (line, _) in pairs.filter(|(_, (now, before))| now != before) {
            let other = taken.insert(line, name);
            assert_eq!(other, None, "--{name} changes the same: line {line} of {made}");
        }
    }
}

#[test]
fn a_token_is_read_from_a_file_and_never_shown() {
    let path = std::env::temp_dir().join(format!("thalweg-token-{}", std::process::id()));
    std::fs::write(&path, "s3cret\n").unwrap();
    let settings = line(&format!("--publish-token @{}", path.display())).unwrap();
    let shown = format!("{settings:?}");
    let made = config(settings).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(made.access.publish_token.as_ref().unwrap().as_bytes(), b"s3cret");
    let shown = format!("{shown}{made:?}");
    assert!(!shown.contains("s3cret"), "{shown}");
    let shown = format!("{:?}", line("--subscribe-token s3cret").unwrap());
    assert!(!shown.contains("s3cret"), "{shown}");
}

#[test]
fn the_first_screen_says_how_and_for_whom() {
    let address = "127.0.0.1:8080".parse().unwrap();
    let screens = [
        "",
        "--demo",
        "--listen 0.0.0.0:1 --publish-token p --subscribe-token s --tls-self-signed",
        "--listen 0.0.0.0:1 --open --allow-origin https://a.example",
        "--runs thalweg-runs",
        "--admin-listen 127.0.0.1:9090 --allow-host push.example",
        "--token dash=s3cret,subscribe=** --jwks-url http://issuer.example/keys --jwt-audience push",
    ]
    .map(|flags| {
        let mut made = config(line(flags).unwrap()).unwrap();
        if flags.contains("--runs") {
            let (path, bytes) = ("/index.html".to_owned(), Bytes::from_static(b"shown"));
            made.pages = Pages::new([Page { path, bytes, gzip: None }]);
        }
        format!("> {flags}\n{}", screen::first_screen(&made, address, made.admin_listen))
    });
    insta::assert_snapshot!(screens.join("\n"));
}

#[test]
fn the_demo_is_made_of_what_can_be() {
    for flags in ["--demo", "--demo --stream all=**"] {
        let made = config(line(flags).unwrap()).unwrap();
        thalweg_server::check(&made).unwrap();
    }
}

#[test]
fn a_check_says_what_would_be_served() {
    let flags = "--listen [::]:8443 --shards 2 --demo --topic orders,flush=5ms --max-history 64MiB \
                 --tls-cert cert.pem --tls-key key.pem --publish-token p --allow-origin *";
    let made = config(line(flags).unwrap()).unwrap();
    assert!(matches!(made.tls, Some(Tls::Files { .. })));
    insta::assert_snapshot!(screen::check_screen(&made));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    // The fuzz target `settings_file` asks for more; this is what every run of the tests can.
    #[test]
    fn any_file_is_read_or_refused_in_one_line(
        lines in vec((select(file::names()), "[ -~é\\n]{0,12}", 0..4_u8), 0..4),
        rest in "[ -~é\\n]{0,8}",
    ) {
        let line = |(name, value, form): &(String, String, u8)| match form {
            0 => format!("{name} = {value}\n"),
            1 => format!("{name} = [\"{value}\"]\n"),
            2 => format!("{name} = \"\"\"{value}\"\"\"\n"),
            _ => format!("{value} # {name}\n"),
        };
        let text = lines.iter().map(line).collect::<String>() + &rest;
        match read(&text) {
            Ok(settings) => drop(config(settings)),
            Err(refusal) => {
                prop_assert!(refusal.starts_with("thalweg.toml:"), "{refusal}");
                prop_assert_eq!(refusal.lines().count(), 1, "{}", refusal);
            }
        }
    }
}
