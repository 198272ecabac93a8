//! Settings that a user writes, and the answers to mistakes.

use std::time::Duration;

use bytes::Bytes;
use clap::{CommandFactory, Parser};
use proptest::{collection::vec, prelude::*, sample::select};
use thalweg_core::stream::FeedKind;
use thalweg_server::{
    config::{Config, PresenceOf, SharedTopics, Tls},
    pages::{Page, Pages},
};

use super::{
    ServeArgs, config::config, configured_broker::ConfiguredBroker as _, data::Data, explain, file,
    merge::Over as _, renamed, screen, settings::Settings, tokens,
};

#[derive(Debug, Parser)]
#[command(name = "thalweg serve", term_width = 100)]
struct Line {
    #[command(flatten)]
    args: ServeArgs,
}

fn line(text: &str) -> Result<Settings, clap::Error> {
    let words = ["serve"].into_iter().chain(text.split_whitespace());
    let settings = Line::try_parse_from(words).map(|line| line.args.settings).map_err(explain)?;
    let error = |error| clap::Error::raw(clap::error::ErrorKind::ValueValidation, error);
    let set = file::parse_set(&settings.set).map_err(error)?;
    Ok(settings.over(set))
}

fn read(text: &str) -> Result<Settings, String> {
    file::parse("thalweg.toml", text)
}

/// The configuration and the brokers that settings make.
fn text_of(settings: Settings) -> String {
    let (config, brokers) = config(settings).unwrap();
    format!("{config:#?}\n{brokers:#?}")
}

/// The sentence that flags earn when they are put together.
fn clash(flags: &str) -> String {
    config(line(flags).unwrap()).unwrap_err()
}

#[test]
fn a_mount_hides_no_path_of_the_server() {
    for path in ["", "/", "/v1", "/v1/topics", "echo", "/echo/"] {
        let refused = clash(&format!("--echo-path={path}"));
        assert!(refused.starts_with("echo-path: ") && refused.ends_with("use one like /echo"));
    }
    for path in ["", "/", "/v1", "/healthz", "/metrics/x", "hub", "/hub/"] {
        let refused = clash(&format!("--set signalr.paths=[\"{path}\"]"));
        assert!(refused.starts_with("signalr.paths: ") && refused.ends_with("use one like /hub"));
    }
    assert!(clash("--set signalr.paths=[\"/hub\",\"/hub\"]").contains("twice"));
    for path in ["/echo", "/v1x"] {
        assert!(config(line(&format!("--echo-path={path}")).unwrap()).is_ok());
    }
}

#[test]
fn mistakes_in_a_file_are_answered_with_the_line_and_the_nearest_name() {
    let refusal = |text: &str| read(&format!("# mine\n\n{text}\n")).unwrap_err();
    let refusals = [
        refusal("heartbaet = \"8s\""),
        refusal("tls_cert = \"a.pem\""),
        refusal("[access]\nopen = true"),
        refusal("echo-path = \"/echo\""),
        refusal("set = [\"a=b\"]"),
        refusal("heartbeat = 25"),
        refusal("heartbeat = 2.5"),
        refusal("heartbeat = \"5ms\""),
        refusal("heartbeat = true"),
        refusal("shards = 0"),
        refusal("shards = -1"),
        refusal("listen = \"server:8080\""),
        refusal("log = \"inform\""),
        refusal("demo = \"yes\""),
        refusal("[limits]\nevent-byte = \"1MiB\""),
        refusal("[limits]\nevent-bytes = \"8MB\""),
        refusal("[limits]\nevent-bytes = \"1GiB\""),
        refusal("[limits]\nconnection-rates = \"commands=1\""),
        refusal("[limits.connection-rates]\ncommand = 1"),
        refusal("[limits.address-rates]\nbytes = 0"),
        refusal("limits.topics = 0"),
        refusal("[signalr]\npath = \"/hub\""),
        refusal("[signalr]\npaths = \"/hub\""),
        refusal("tuning = true"),
        refusal("source = [\n  \"cars=cars\",\n]"),
        refusal("source = \"cars=cars\""),
        refusal("topic = [\"orders,flsh=5ms\"]"),
        refusal("[[topic]]\npattern = \"a\"\nflsh = \"5ms\""),
        refusal("[[topic]]\npattern = \"a\"\nflush = 5"),
        refusal("[[topic]]\nflush = \"5ms\""),
        refusal("[[topic]]\npattern = \"a//b\""),
        refusal("[[topic]]\npattern = \"a/**/b\""),
        refusal("[[topic]]\npattern = \"a\"\n[[topic]]\npattern = \"a/*\"\nkind = \"valu\""),
        refusal("[topic]\npattern = \"a\""),
        refusal("[[upstream]]\npattern = \"a\"\nurl = \"ftp://h/\""),
        refusal("[[upstream]]\npattern = \"a\"\nurl = \"http://h/\"\nleast = \"1s\""),
        refusal("[[token]]\nname = \"a\"\nsecret = 1234"),
        refusal("[[token]]\nname = \"a\"\nsecret = [\"s3cret\"]"),
        refusal("token = [\"a=s3cret,subscribe=b\"]"),
        refusal("jwt-secret = 1234"),
        refusal("jwt-key = \"s3cret\""),
        refusal("nats = \"nats://u:s3cret@h\""),
        refusal("[[upstream]]\npattern = \"a\"\nurl = \"http://u:s3cret@h/\""),
        refusal("tls-cert = 1"),
        refusal("demo = true\ndemo = true"),
        refusal("demo = "),
        refusal("demo"),
    ];
    let refusals = refusals.join("\n");
    assert!(!refusals.contains("s3cret") && !refusals.contains("1234"), "{refusals}");
    insta::assert_snapshot!(refusals);
}

/// Each old name, as a flag and as a key of the file.
#[test]
fn old_names_are_refused_with_the_new_one() {
    let mut refusals = Vec::new();
    for name in renamed::old_names() {
        let value = if name == "topics" { "{ }" } else { "\"x\"" };
        let in_file = match file::sections()[0].keys.contains(&name) {
            // It has lost its flag only.
            true => "(the same)".to_owned(),
            false => read(&format!("{name} = {value}")).unwrap_err(),
        };
        let by_flag = line(&format!("--{name} x")).unwrap_err().to_string();
        refusals.push(format!("{}\n  {in_file}", by_flag.trim_end()));
    }
    refusals.push(clash_of_variables("THALWEG_PUBLISH_TOKEN"));
    insta::assert_snapshot!(refusals.join("\n"));
    assert!(renamed::check_variables(|_| None, tokens::has_rights).is_ok());
}

/// A server and clients may share a shell, whose variable then holds a client's token.
#[test]
fn tokens_in_the_variable_of_clients_are_refused() {
    let check = |value: &'static str| {
        let variable = |name: &str| (name == "THALWEG_TOKEN").then(|| value.into());
        renamed::check_variables(variable, tokens::has_rights)
    };
    for client in ["", "s3cret", "s3cret=", "a,b=c", "eyJhbGciOiJIUzI1NiJ9.e30.c2ln"] {
        assert_eq!(check(client), Ok(()), "{client}");
    }
    for server in ["app=s3cret,publish=**", "everybody,subscribe=**", "a=b\nc=d,admin=true"] {
        let refused = check(server).unwrap_err();
        assert!(refused.contains("THALWEG_TOKENS") && !refused.contains("s3cret"), "{refused}");
    }
}

fn clash_of_variables(set: &str) -> String {
    renamed::check_variables(|name| (name == set).then(|| "x".into()), tokens::has_rights)
        .unwrap_err()
}

#[test]
fn keys_without_a_flag_are_set_one_by_one() {
    let file = "[limits]\nconnections = 5\nevent-bytes = \"2MiB\"\n[tuning]\nread-slice = \"2ms\"";
    let flags = "--set limits.event-bytes=3MiB --set limits.address-rates.commands=7 --set existing-topics-only=true \
                 --set websocket-protocols=[\"a\",\"b\"] --set jwt-leeway=0";
    let (merged, _) = config(line(flags).unwrap().over(read(file).unwrap())).unwrap();
    let limits = &merged.limits;
    assert_eq!((limits.connections, limits.event_bytes), (5, 3 << 20));
    assert_eq!(limits.rates_of_address.commands.per_s, 7);
    assert_eq!(limits.read_slice, Duration::from_millis(2));
    assert_eq!(merged.websocket_protocols, ["a", "b"]);
    assert_eq!(merged.subscribe, thalweg_server::config::Subscribing::Existing);
    let refusals = [
        "--set limits.event-bytes",
        "--set limits.event-byts=1MiB",
        "--set limits.event-bytes=1GiB",
        "--set limits.topics=many",
        "--set limits.topics=1 --set limits.topics=2",
        "--set listen=:80",
        "--set token=x",
        "--set =1",
        "--set limits=1",
        "--set max-event=1MiB",
    ];
    let refusals = refusals.map(|flags| line(flags).unwrap_err().to_string().trim_end().to_owned());
    insta::assert_snapshot!(refusals.join("\n"));
}

#[test]
fn the_short_form_of_a_table_is_the_table() {
    for (flag, file) in [
        (
            "--topic orders/*,kind=log,flush=5ms,columns=a:int,batch-events=7,batch-bytes=1KiB,history-bytes=1MiB,\
             history-events=9,history-age=1h",
            "[[topic]]\npattern = \"orders/*\"\nkind = \"log\"\nflush = \"5ms\"\ncolumns = [\"a:int\"]\n\
             batch-events = 7\nbatch-bytes = 1024\nhistory-bytes = \"1MiB\"\nhistory-events = 9\n\
             history-age = \"1h\"",
        ),
        (
            "--topic users/**,kind=keyed,key=/a~1b/id,keys=7,ttl=30s",
            "[[topic]]\npattern = \"users/**\"\nkind = \"keyed\"\nkey = \"/a~1b/id\"\nkeys = 7\nttl = \"30s\"",
        ),
        (
            "--source a%3Db=cars,cars=7,interval=50ms,when=subscribed,seed=3",
            "[[source]]\ntopic = \"a=b\"\nkind = \"cars\"\ncars = 7\ninterval = \"50ms\"\n\
             when = \"subscribed\"\nseed = 3",
        ),
        (
            "--source a=constant,batch=2,shape=columns,start=18446744073709551615 --source b=dummy,size=1KiB \
             --source c=runner,ack=d",
            "[[source]]\ntopic = \"a\"\nkind = \"constant\"\nbatch = 2\nshape = \"columns\"\n\
             start = \"18446744073709551615\"\n[[source]]\ntopic = \"b\"\nkind = \"dummy\"\n\
             size = \"1KiB\"\n[[source]]\ntopic = \"c\"\nkind = \"runner\"\nack = \"d\"",
        ),
        ("--query a%3Db=SELECT", "[[query]]\ntopic = \"a=b\"\nsql = \"SELECT\""),
        (
            "--upstream a=b/*=http://h/{topic}?x=http://y,max-age=2s,min-interval=1s,max-interval=1m,timeout=3s,\
             in-flight=3,max-body=2KiB,linger=0,remember=4s",
            "[[upstream]]\npattern = \"a=b/*\"\nurl = \"http://h/{topic}?x=http://y\"\nmax-age = \"2s\"\n\
             min-interval = \"1s\"\nmax-interval = \"1m\"\ntimeout = \"3s\"\nin-flight = 3\n\
             max-body = \"2KiB\"\nlinger = \"0\"\nremember = \"4s\"",
        ),
        (
            "--data d --store orders/**,age=7d,bytes=1GiB,sync=100ms --store scores/**,kind=value",
            "data = \"d\"\n[[store]]\ntopics = \"orders/**\"\nage = \"7d\"\nbytes = \"1GiB\"\nsync = \"100ms\"\n\
             [[store]]\ntopics = \"scores/**\"\nkind = \"value\"",
        ),
        (
            "--nats nats://a --stream live=live/**,replicas=1,age=10m,bytes=1GiB \
             --stream scores=scores/**,kind=value",
            "nats = [\"nats://a\"]\n[[stream]]\nname = \"live\"\npattern = \"live/**\"\nreplicas = 1\nage = \"10m\"\n\
             bytes = \"1GiB\"\n[[stream]]\nname = \"scores\"\npattern = \"scores/**\"\nkind = \"value\"",
        ),
        (
            "--token dash=s3cret,subscribe=cars,inspect=**,admin=true --token everybody,publish=in",
            "[[token]]\nname = \"dash\"\nsecret = \"s3cret\"\nsubscribe = [\"cars\"]\ninspect = [\"**\"]\n\
             admin = true\n[[token]]\nname = \"everybody\"\npublish = [\"in\"]",
        ),
    ] {
        assert_eq!(text_of(line(flag).unwrap()), text_of(read(file).unwrap()), "{flag}");
    }
}

#[test]
fn mistakes_in_a_short_form_are_answered_with_the_nearest_name() {
    let refusals = [
        "--topic a,flsh=5ms",
        "--topic a,flush",
        "--topic a,history-bytes=8MB",
        "--topic a//b",
        "--topic a,kind=valu",
        "--topic a,kind=value,columns=b:int",
        "--topic a,kind=keyed,columns=b:int",
        "--topic a,kind=keyed,key=id",
        "--topic a,kind=keyed,key=/a~2",
        "--topic a,kind=keyed,keys=0",
        "--topic a,key=/id",
        "--topic a,kind=value,keys=3",
        "--topic a,ttl=5s",
        "--topic a,pattern=b",
        "--source cars",
        "--source cars=cars,cars=many",
        "--source cars=cars,intervall=1s",
        "--source cars=cars,interval=0",
        "--query SELECT",
        "--query a%2Fb=SELECT",
        "--upstream a/**",
        "--upstream a/**x=http://h/{topic}",
        "--upstream a/**=http://h/",
        "--upstream a/**=http://h/{topic},max-ages=1s",
        "--upstream a/**=http://h/{topic},least=1s",
        "--upstream a/**=http://h/{topic},min-interval=9s,max-interval=1s",
        "--upstream a/**=http://h/{topic},timeout=0",
        "--store a//b",
        "--store a,age=1s",
        "--store a,kind=value,age=1h",
        "--store a,kind=keyed,bytes=1GiB",
        "--store a,sync=sometimes",
        "--stream live",
        "--stream live=a//b",
        "--stream live=**,replicas=2",
        "--stream live=**,kind=value,age=1h",
        "--stream live=**,kind=keyed,age=1h",
        "--stream live=**,kind=other",
        "--stream live=**,replica=3",
    ];
    let refusals = refusals.map(|flags| {
        let refusal = line(flags).unwrap_err().to_string();
        refusal.lines().next().unwrap_or_default().to_owned()
    });
    insta::assert_snapshot!(refusals.join("\n"));
}

#[test]
fn a_file_refuses_a_value_with_the_words_of_the_flag() {
    for (name, value) in [
        ("heartbeat", "5ms"),
        ("write-timeout", "1w"),
        ("shards", "0"),
        ("shards", "257"),
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
fn settings_that_contradict_each_other_are_refused() {
    let refusals = [
        clash("--tls-cert a.pem"),
        clash("--tls-key a.pem"),
        clash("--tls-self-signed --tls-cert a.pem --tls-key b.pem"),
        clash("--set limits.event-bytes=2MiB --set limits.history-bytes=1MiB"),
        clash("--set limits.event-bytes=2MiB --set limits.unfinished-bytes=2MiB"),
        clash("--set limits.connection-rates.handshakes=1"),
        clash("--set tuning.compression-context-bytes=5000"),
        clash("--token a=@/no/such/file,subscribe=b"),
        clash("--token everybody,subscribe=a --token everybody,publish=b"),
        clash("--topic **,flush=1s --topic **,history-events=5"),
        clash("--upstream a=http://h/ --upstream a=http://i/"),
        clash("--nats nats://a --stream a=b --stream a=c"),
        clash("--topic users/**,kind=keyed --source users/a=cars"),
        clash("--topic **,kind=keyed --demo"),
        clash("--topic users/**,kind=keyed --nats nats://a --stream live=users/a"),
        clash("--topic **,kind=keyed --nats nats://a --stream live=users/a"),
    ];
    insta::assert_snapshot!(refusals.join("\n"));
}

#[test]
fn settings_of_a_cluster_that_contradict_each_other_are_refused() {
    let cluster = |flags: &str| config(line(flags).unwrap()).map(|(made, _)| made);
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
        "--nats nats://a --stream live=a/** --topic **,kind=value",
        "--nats nats://a --stream live=a/**,kind=keyed",
        "--nats nats://a --stream live=a/**,kind=keyed --topic **,kind=keyed",
        "--nats nats://a --stream people=presence/a/**,kind=keyed --topic a/**,presence=true",
        "--set nats-ca=ca.pem",
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
fn stores_follow_from_the_kinds_of_topics_or_are_checked_against_them() {
    let data = |flags: &str| Data::new(&line(flags).unwrap());
    let topics = |flags: &str| {
        let data = data(flags).unwrap().expect("a directory");
        let topics = data.topics().into_iter();
        topics.map(|(pattern, kind)| format!("{pattern} {kind:?}")).collect::<Vec<_>>()
    };
    assert_eq!(topics("--data d"), ["** Log"]);
    let values = "--data d --topic a/**,flush=1ms --topic b/**,kind=value";
    assert_eq!(topics(values), ["a/** Log", "b/** Value", "** Log"]);
    assert_eq!(topics("--data d --topic **,kind=value"), ["** Value"]);
    assert_eq!(topics("--data d --topic a/**,kind=keyed"), ["a/** Keyed", "** Log"]);
    assert_eq!(topics("--data d --topic **,kind=keyed"), ["** Keyed"]);
    // Keyed topics that a store of another kind would have are stored, too.
    let keyed = "--topic a/*,kind=keyed --topic x,kind=keyed";
    assert_eq!(topics(&format!("--data d --store a/** {keyed}")), ["a/* Keyed", "a/** Log"]);
    let given = format!("--data d --store a/** --store a/*,kind=keyed {keyed}");
    assert_eq!(topics(&given), ["a/** Log", "a/* Keyed"]);
    // Keys that are stored stay in their store.
    let narrower = "--data d --store a/**,kind=keyed --store ** --topic a/b/**,kind=keyed";
    assert_eq!(topics(narrower), ["a/** Keyed", "** Log"]);
    let crossing = "--data d --store a/*/c,kind=keyed --store ** --topic a/b/**,kind=keyed";
    assert_eq!(topics(crossing), ["a/*/c Keyed", "a/b/** Keyed", "** Log"]);
    let wider = "--data d --store a/*,kind=keyed --store ** --topic a/**,kind=keyed";
    assert_eq!(topics(wider), ["a/* Keyed", "a/** Keyed", "** Log"]);
    assert_eq!(topics("--data d --store c"), ["c Log"]);
    assert!(data("").unwrap().is_none());
    let refusals = [
        "--store a",
        "--set data-bytes=1GiB",
        "--data d --nats nats://a --stream live=b",
        "--data d --store ** --topic a,kind=value",
        "--data d --store ** --store a,kind=value --topic a,kind=value",
        "--data d --store users/** --topic users/**,kind=keyed",
        "--data d --store users/** --store users/*,kind=keyed --topic users/**,kind=keyed",
    ];
    insta::assert_snapshot!(refusals.map(|flags| data(flags).unwrap_err()).join("\n"));
    assert!(data("--data d --store a,kind=value --store ** --topic a,kind=value").is_ok());
}

#[test]
fn stores_that_follow_from_topics_share_a_limit() {
    const GIB: u64 = 1 << 30;
    let limits = |flags: &str| {
        let data = Data::new(&line(flags).unwrap()).unwrap().expect("a directory");
        let settings = data.settings(&Config::default());
        let stores = settings.stores.into_iter().map(|store| store.bytes);
        (settings.log_bytes, stores.collect::<Vec<_>>())
    };
    assert_eq!(limits("--data d"), (Some(10 * GIB), vec![None]));
    let kinds = "--data d --topic a/**,flush=1ms --topic b/**,kind=value";
    assert_eq!(limits(kinds), (Some(10 * GIB), vec![None; 3]));
    let stores = "--data d --store a/**,bytes=1GiB --store b/**,kind=value --store c/**";
    assert_eq!(limits(stores), (None, vec![Some(GIB), None, Some(10 * GIB)]));
}

#[test]
fn stores_come_before_streams_and_a_cluster_settles_last() {
    let tells = |flags: &str| config(line(flags).unwrap()).unwrap().0.tells_time;
    let both = "--data d --store a/b --nats nats://n --stream s=a/*";
    assert_eq!([tells("--data d"), tells(both)], [true, false]);
    let (_, brokers) = config(line(both).unwrap()).unwrap();
    let rows = ["d keeps a/b", "s (a/*), shared through NATS"].map(str::to_owned);
    assert!(brokers.about().eq(["data", "streams"].into_iter().zip(rows)));
    let topics = ["a/b", "a/*"].map(|pattern| (pattern.parse().unwrap(), FeedKind::Log));
    assert_eq!(format!("{:?}", brokers.topics()), format!("{:?}", SharedTopics::new(topics)));
}

#[test]
fn a_flag_wins_over_the_file_and_the_file_over_the_default() {
    let file = "heartbeat = \"7s\"\nwrite-timeout = \"3s\"\ndemo = true\n[limits]\nconnections = 50\n\
                [[source]]\ntopic = \"a\"\nkind = \"cars\"\n\
                [[topic]]\npattern = \"t\"\nflush = \"9ms\"\n\
                [[token]]\nname = \"a\"\nsecret = \"of the file\"\npublish = [\"**\"]";
    let flags = line("--heartbeat 9s --source c=cars --compression").unwrap();
    let (merged, _) = config(flags.over(read(file).unwrap())).unwrap();
    assert_eq!(merged.heartbeat, Duration::from_secs(9));
    assert_eq!(merged.limits.write_timeout, Duration::from_secs(3));
    assert_eq!(merged.shutdown_timeout, Config::default().shutdown_timeout);
    assert!(merged.compression && !merged.queries.is_empty());
    let sources: Vec<_> = merged.sources.iter().map(|source| source.topic.as_str()).collect();
    assert!(sources.contains(&"c") && !sources.contains(&"a"), "{sources:?}");
    assert_eq!(merged.topics[0].1.batch.flush_us, 9_000);
    assert_eq!(merged.access.tokens[0].secret.as_bytes(), b"of the file");
    let limits = merged.limits;
    assert_eq!((limits.connections, limits.connections_of_one_address()), (50, 100));
}

/// The order of the flags does not matter.
#[test]
fn a_topic_has_the_bounds_of_all_topics_where_it_has_none() {
    let flags = "--topic **,history-events=7,kind=value --topic t,flush=9ms";
    let (made, _) = config(line(flags).unwrap()).unwrap();
    let (pattern, topic) = &made.topics[0];
    assert_eq!((pattern.as_str(), made.topics.len()), ("t", 1));
    assert_eq!((topic.history.events_max, topic.batch.flush_us), (7, 9_000));
    assert!(!topic.kind.is_state() && made.topic_defaults.kind.is_state());
    let flags = "--topic **,kind=keyed,key=/id,keys=7 --topic t,kind=keyed --topic u";
    let (made, _) = config(line(flags).unwrap()).unwrap();
    let topic = |name: &str| made.topic(&name.parse().unwrap());
    let keys = |name: &str| (topic(name).keys.pointer.is_some(), topic(name).keys.count_max);
    assert_eq!((keys("t"), keys("other")), ((true, 7), (true, 7)));
    assert!(!topic("u").kind.has_keys());
}

#[test]
fn presence_is_a_word_or_true_and_none_turns_it_off() {
    let of = |text: &str| {
        let all = "[[topic]]\npattern = \"**\"\npresence = \"count\"\n";
        let settings = read(&format!("{all}[[topic]]\npattern = \"t\"\n{text}\n"));
        let (made, _) = config(settings?)?;
        Ok::<_, String>(made.topic(&"t".parse().unwrap()).presence.map(|presence| presence.of))
    };
    for (text, expected) in [
        ("", Some(PresenceOf::Count)),
        ("presence = true", Some(PresenceOf::Users)),
        ("presence = \"users\"", Some(PresenceOf::Users)),
        ("presence = \"connections\"", Some(PresenceOf::Connections)),
        ("presence = \"none\"", None),
        ("presence = false", None),
    ] {
        assert_eq!(of(text), Ok(expected), "{text}");
    }
    let (made, _) =
        config(line("--topic t,presence=true --topic u,presence=none").unwrap()).unwrap();
    let presence = made.topics.iter().map(|(_, topic)| topic.presence.map(|presence| presence.of));
    assert!(presence.eq([Some(PresenceOf::Users), None]));
    let unknown = of("presence = \"nobody\"").unwrap_err();
    assert!(unknown.ends_with("expected one of users, connections, count, none"), "{unknown}");
    let grace = of("presence = false\npresence-grace = \"1s\"").unwrap_err();
    assert!(grace.contains("presence-grace needs presence"), "{grace}");
}

/// A JWK (RFC 8037, appendix A.2).
const PUBLIC_KEY: &str =
    r#"{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#;

#[test]
fn tokens_have_rights_of_their_own() {
    let flags = "--token dash=s3cret,subscribe=cars/**,inspect=**,admin=true --token everybody,publish=in/*";
    let made = config(line(flags).unwrap()).unwrap().0.access;
    let token = &made.tokens[0];
    assert_eq!((&*token.name, token.secret.as_bytes()), ("dash", &b"s3cret"[..]));
    let topic = |text: &str| text.parse().unwrap();
    assert!(token.rights.subscribe.contain(&topic("cars/1")) && token.rights.inspect.are_all());
    assert!(token.rights.publish.are_none() && token.rights.admin);
    assert!(made.everybody.unwrap().publish.contain(&topic("in/1")));
    for (wrong, words) in [
        ("--token x", "NAME=@FILE"),
        ("--token s3cret,subscribe=a", "NAME=@FILE"),
        ("--token =s3cret,subscribe=a", "name"),
        ("--token t=s3cret", "set subscribe"),
        ("--token t=s3cret,subscribe=a*", "whole segment"),
        ("--token t=s3cret,subscribes=a", "subscribe="),
        ("--token t=a,s3cret,subscribe=a", "comma"),
        ("--token t=a,s3cret=b,subscribe=a", "comma"),
        ("--token t=s3cret,admin=yes", "true or false"),
        ("--token t=@/nowhere,subscribe=a", "/nowhere"),
        ("--token everybody=s3cret,subscribe=a", "remove its secret"),
        ("--token everybody,subscribe=//", "everybody"),
        ("--jwt-key nonsense", "in PEM or as a JWK"),
        ("--jwt-secret s3cret", "32 bytes"),
        ("--jwt-issuer me", "needs a key"),
    ] {
        let said = clash(wrong);
        assert!(said.contains(words) && !said.contains("s3cret"), "{wrong}: {said}");
    }
    for wrong in ["--jwks-url ftp://h/", "--jwks-url http://h/{topic}"] {
        assert!(line(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn every_setting_reaches_the_configuration() {
    let untouched = text_of(line("").unwrap());
    // The lines that a setting changes, and no other may.
    let mut taken = std::collections::HashMap::new();
    let command = Line::command();
    let own = ["config", "check", "port", "set", "log", "log-format", "help"];
    // Values for the keys of the file that have no flag.
    let shown = |flag: &str| command.get_arguments().any(|arg| arg.get_long() == Some(flag));
    let keys = file::sections();
    let keys = keys.iter().filter(|section| !section.is_list).flat_map(|section| {
        let dot = if section.path.is_empty() { "" } else { "." };
        section.keys.iter().map(move |key| format!("{}{dot}{key}", section.path))
    });
    let is_table = |key: &String| file::sections().iter().any(|section| section.path == key);
    let only_in_file = keys.filter(|key| !is_table(key) && !shown(key));
    let only_in_file = only_in_file.map(|key| {
        let value = match &*key {
            "existing-topics-only" => "true",
            "data-bytes" => "1GiB --data d",
            "nats-credentials" | "nats-ca" => "x --nats nats://a --stream s=t",
            "websocket-protocols" => "[\"x\"]",
            "signalr.paths" => "[\"/hub\"]",
            "jwt-claim" => "x --jwt-secret 0123456789abcdef0123456789abcdef",
            "jwt-leeway" => "7s --jwt-secret 0123456789abcdef0123456789abcdef",
            // Refused, so it is read.
            "limits.connection-rates.handshakes" => return String::new(),
            "limits.peer-timeout" => "77s",
            "limits.header-bytes" | "tuning.control-buffer-bytes" | "tuning.unsent-bytes" => "9KiB",
            "tuning.compression-context-bytes" => "8KiB",
            key if key.ends_with("-bytes") || key.ends_with(".bytes") => "7MiB",
            key if key.ends_with("-timeout")
                || key.ends_with("-window")
                || key.ends_with("-lead") =>
            {
                "77ms"
            }
            key if key.ends_with("-slice") => "3us",
            _ => "77",
        };
        format!("--set {key}={value}")
    });
    let flags = command.get_arguments().filter_map(|flag| {
        let name = flag.get_long()?;
        let value = match name {
            "echo-path" => "/echo",
            _ if own.contains(&name) => return None,
            "demo" | "compression" | "tls-self-signed" => "",
            // Refused without the other one, so it is read.
            "tls-cert" | "tls-key" => {
                assert!(clash(&format!("--{name} x")).contains(name));
                return None;
            }
            "store" => "t --data d",
            "nats" => "nats://b --nats nats://a --stream s=t",
            "stream" => "u=v --nats nats://a --stream s=t",
            "node" => "x --nats nats://a --stream s=t",
            "source-node" | "time-node" => "x --node x --nats nats://a --stream s=t",
            "listen" | "admin-listen" => "127.0.0.1:9",
            "trusted-proxy" => "10.0.0.1/8",
            "shards" => "99",
            "source" => "t=cars",
            "upstream" => "t=http://h/",
            "topic" => "t",
            "query" => "q=SELECT",
            "token" => "t=x,subscribe=a",
            "jwks-url" => "http://h/keys",
            "jwt-key" => PUBLIC_KEY,
            "jwt-secret" => "0123456789abcdef0123456789abcdef",
            // Expectations about tokens need a key.
            "jwt-issuer" | "jwt-audience" => "x --jwt-secret 0123456789abcdef0123456789abcdef",
            _ if flag.get_value_names().is_some_and(|names| names[0] == "TIME") => "77ms",
            _ => "x",
        };
        Some(format!("--{name} {value}"))
    });
    for flags in flags.chain(only_in_file).filter(|flags| !flags.is_empty()) {
        let settings = line(&flags).unwrap();
        let made = text_of(settings);
        // The settings that it needs make no difference.
        let needed = flags.split_once(" --").map_or(String::new(), |(_, more)| format!("--{more}"));
        assert_ne!(made, text_of(line(&needed).unwrap()), "{flags} changes nothing");
        // A list or a table adds lines; the limit of all connections sets the one of an address, too.
        let is_longer = made.lines().count() != untouched.lines().count();
        if is_longer || flags.contains("limits.connections=") {
            continue;
        }
        let pairs = (1..).zip(made.lines().zip(untouched.lines()));
        for (line, _) in pairs.filter(|(_, (now, before))| now != before) {
            let other = taken.insert(line, flags.clone());
            assert_eq!(other, None, "{flags} changes the same: line {line} of {made}");
        }
    }
}

#[test]
fn a_token_is_read_from_a_file_and_never_shown() {
    let path = thalweg_testing::TemporaryPath::file("token", "s3cret\n");
    let flags = format!("--token a=@{},publish=**", path.display());
    let settings = line(&flags).unwrap();
    let shown = format!("{settings:?}");
    let (made, _) = config(settings).unwrap();
    assert_eq!(made.access.tokens[0].secret.as_bytes(), b"s3cret");
    let shown = format!("{shown}{made:?}");
    assert!(!shown.contains("s3cret"), "{shown}");
    let shown = format!("{:?}", line("--token a=s3cret,subscribe=b").unwrap());
    assert!(!shown.contains("s3cret"), "{shown}");
}

#[test]
fn an_error_repeats_no_secret() {
    for flags in [
        "--token a=s3cret,subscribe=//",
        "--token s3cret",
        "--jwt-key s3cret",
        "--jwt-secret s3cret",
        "--jwks-url http://user:s3cret@",
        "--upstream a/**=http://user:s3cret@h/{topic}",
        "--upstream a/**=http://h/{topic}?key=s3cret,timeout=0",
    ] {
        let refused = match line(flags) {
            Err(error) => error.to_string(),
            Ok(settings) => match config(settings) {
                Err(error) => error,
                Ok(_) => panic!("{flags} is accepted"),
            },
        };
        assert!(!refused.contains("s3cret"), "{refused}");
    }
}

#[test]
fn the_first_screen_says_how_and_who_may() {
    let address = "127.0.0.1:8080".parse().unwrap();
    let screens = [
        "",
        "--demo",
        "--listen 0.0.0.0:1 --token p=p,publish=** --token s=s,subscribe=** --tls-self-signed",
        "--listen 0.0.0.0:1 --token everybody,subscribe=**,publish=** --allow-origin https://a.example",
        "--listen 0.0.0.0:1 --token p=p,publish=** --token everybody,subscribe=public/**",
        "--runs thalweg-runs",
        "--admin-listen 127.0.0.1:9090 --allow-host push.example",
        "--token dash=s3cret,subscribe=** --jwks-url http://issuer.example/keys --jwt-audience push",
        "--token everybody,subscribe=a,inspect=a,admin=true",
    ]
    .map(|flags| {
        let (mut made, brokers) = config(line(flags).unwrap()).unwrap();
        if flags.contains("--runs") || flags == "--demo" {
            let (path, bytes) = ("/index.html".to_owned(), Bytes::from_static(b"shown"));
            made.pages = Pages::new([Page { path, bytes, gzip: None }]);
        }
        format!("> {flags}\n{}", screen::first_screen((&made, &brokers), address, made.admin_listen))
    });
    insta::assert_snapshot!(screens.join("\n"));
}

#[test]
fn the_demo_is_made_of_what_can_be() {
    let nats = "--nats nats://a --stream all=** --node a --source-node a";
    for flags in ["--demo", &format!("--demo {nats}")] {
        let (made, brokers) = config(line(flags).unwrap()).unwrap();
        thalweg_server::check(&made, &brokers.topics()).unwrap();
    }
}

#[test]
fn a_check_says_what_would_be_served() {
    let flags = "--listen [::]:8443 --shards 2 --demo --topic orders,flush=5ms \
                 --set limits.history-bytes=64MiB --tls-cert cert.pem --tls-key key.pem \
                 --token p=s3cret,publish=** --token everybody,subscribe=** --allow-origin *";
    let (made, brokers) = config(line(flags).unwrap()).unwrap();
    assert!(matches!(made.tls, Some(Tls::Files { .. })));
    insta::assert_snapshot!(screen::check_screen(&made, &brokers));
}

/// All keys of the file, with their tables.
fn names() -> Vec<String> {
    let sections = file::sections();
    let names = sections.iter().flat_map(|section| {
        let dot = if section.path.is_empty() { "" } else { "." };
        section.keys.iter().map(move |key| format!("{}{dot}{key}", section.path))
    });
    names.collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    // The fuzz target `settings_file` asks for more; this is what every run of the tests can.
    #[test]
    fn any_file_is_read_or_refused_in_one_line(
        lines in vec((select(names()), "[ -~é\\n]{0,12}", 0..4_u8), 0..4),
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
