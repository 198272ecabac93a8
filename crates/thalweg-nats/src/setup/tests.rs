use super::*;
use crate::api::Cluster;

fn settings() -> StreamSettings {
    StreamSettings {
        name: "matches".to_owned(),
        pattern: "matches/**".parse().unwrap(),
        kind: FeedKind::Log,
        replicas: 3,
        age: Duration::from_secs(3600),
        bytes: Some(1 << 30),
        warm: Duration::from_secs(60),
    }
}

/// Checks a stream that was created, and then changed.
fn checked(change: impl FnOnce(&mut StreamInfo)) -> Result<(), String> {
    let mut info = StreamInfo {
        config: config_of(&settings()),
        created: SystemTime::now(),
        state: serde_json::from_str(r#"{"first_seq":0,"last_seq":0}"#).unwrap(),
        reported: None,
        cluster: Cluster::default(),
    };
    change(&mut info);
    check(&settings(), &info, 1 << 20)
}

#[test]
fn a_created_stream_passes_the_check() {
    checked(|_| {}).unwrap();
    checked(|info| info.config["metadata"]["_nats.ver"] = "2.15.2".into()).unwrap();
    checked(|info| info.config["max_age"] = 0.into()).unwrap();
    checked(|info| info.config["max_msg_size"] = (1 << 20).into()).unwrap();
    checked(|info| info.config["metadata"][GENERATION] = "7".into()).unwrap();
}

#[test]
fn a_wrong_stream_is_reported_with_the_remedy() {
    let with = |key: &'static str, value: Value, says: &str| {
        let error = checked(|info| info.config[key] = value).unwrap_err();
        assert!(error.contains(says), "{error}");
        assert!(error.starts_with("stream thalweg-matches "), "{error}");
    };
    with("metadata", Value::Null, "was not made by Thalweg");
    with("metadata", json!({ "thalweg": "2", "generation": "1" }), "by another release");
    with("metadata", json!({ "thalweg": "1" }), "by another release");
    with("subjects", json!(["thalweg.other"]), "--subjects 'thalweg.matches.>'");
    with("num_replicas", 1.into(), "--replicas 3");
    with("storage", "memory".into(), "kept in memory");
    with("duplicate_window", 120_000_000_000i64.into(), "a duplicate window of 2m, and 5m or more");
    with("max_msg_size", 1000.into(), "--max-msg-size=-1");
    with("allow_direct", false.into(), "--allow-direct");
    with("mirror", json!({ "name": "other" }), "has mirror");
    let error = checked(|info| info.state.last_seq = SEQUENCE_MAX).unwrap_err();
    assert!(error.contains("offsets end at"), "{error}");
}

#[test]
fn a_stream_of_value_topics_keeps_the_newest_message_of_each() {
    let settings = StreamSettings { kind: FeedKind::Value, ..settings() };
    let mut info = StreamInfo {
        config: config_of(&settings),
        created: SystemTime::now(),
        state: serde_json::from_str(r#"{"first_seq":0,"last_seq":0}"#).unwrap(),
        reported: None,
        cluster: Cluster::default(),
    };
    check(&settings, &info, 1 << 20).unwrap();
    assert_eq!((&info.config["max_age"], &info.config["discard"]), (&0.into(), &"new".into()));
    info.config["max_age"] = 1.into();
    assert!(check(&settings, &info, 1 << 20).unwrap_err().contains("--max-age=0"));
    info.config["max_msgs_per_subject"] = (-1).into();
    assert!(check(&settings, &info, 1 << 20).unwrap_err().contains("no value topics"));
    let log = super::tests::settings();
    info.config["max_msgs_per_subject"] = 1.into();
    assert!(check(&log, &info, 1 << 20).unwrap_err().contains("--max-msgs-per-subject=-1"));
}

#[test]
fn versions_are_compared_as_numbers() {
    for good in ["2.15.0", "2.15.2-RC.1", "2.100.0", "3.0.0"] {
        check_version(good).unwrap();
    }
    for bad in ["2.14.9", "2.2.0", "1.99.0", "", "x.y"] {
        let error = check_version(bad).unwrap_err();
        assert!(error.contains("2.15 or newer"), "{error}");
    }
}

#[test]
fn a_generation_is_raised_and_nothing_else() {
    let mut config = config_of(&settings());
    config["unknown"] = 5.into();
    let raised = with_next_generation(config.clone()).unwrap();
    assert_eq!(generation_of(&raised), Some(2));
    config["metadata"][GENERATION] = "2".into();
    assert_eq!(raised, config);
    assert_eq!(with_next_generation(json!({})), None);
}
