use proptest::{collection::vec, prelude::*};

use super::*;

/// Returns the updates of one topic's subscription in short form.
fn updates(cursors: &mut Cursors, messages: &[&str]) -> Vec<String> {
    let mut updates = VecDeque::new();
    for message in messages {
        let other = cursors.receive((*message).to_owned(), Transport::Sse, &mut updates);
        assert!(matches!(other, Ok(None)), "{message}: {other:?}");
    }
    updates.iter().map(short).collect()
}

fn short(update: &Update) -> String {
    match update {
        Update::Connected(connected) => format!("connected {}", connected.position),
        Update::Events(events) => {
            let offsets: Vec<String> =
                events.iter().map(|(offset, event)| format!("{offset}={event}")).collect();
            format!("{} to {}", offsets.join(" "), events.position)
        }
        Update::Gap(gap) => format!("{:?} gap of {:?} to {}", gap.reason, gap.missed, gap.position),
        other => format!("{other:?}"),
    }
}

fn envelope(position: &str, first: u64, events: &str) -> String {
    format!(r#"{{"topic":"cars","position":"{position}","first":{first},"events":[{events}]}}"#)
}

fn check(from: &str, messages: &[&str], expected: &[&str]) {
    let mut cursors = Cursors::new(vec!["cars".parse().unwrap()], from.parse().unwrap());
    assert_eq!(updates(&mut cursors, messages), expected, "{from}: {messages:?}");
}

#[test]
fn events_follow_a_confirmation() {
    let confirmation = envelope("9f.7", 8, "");
    let next = envelope("9f.9", 8, "1,2");
    let expected = ["connected 9f.7", "8=1 9=2 to 9f.9"];
    check("latest", &[&confirmation, &next], &expected);
    check("9f.7", &[&confirmation, &next], &expected);
}

#[test]
fn events_before_the_cursor_are_skipped() {
    let confirmation = envelope("9f.7", 8, "");
    let half_old = envelope("9f.9", 7, "1,2,3");
    let all_old = envelope("9f.7", 6, "1,2");
    check("9f.7", &[&confirmation, &all_old, &half_old], &["connected 9f.7", "8=2 9=3 to 9f.9"]);
}

#[test]
fn a_jump_is_told_as_a_gap() {
    let confirmation = envelope("9f.7", 8, "");
    let later = envelope("9f.11", 11, "1");
    let expected = ["connected 9f.7", "Unannounced gap of Some(3) to 9f.10", "11=1 to 9f.11"];
    check("9f.7", &[&confirmation, &later], &expected);
    check("9f.5", &[&confirmation], &["Unannounced gap of Some(2) to 9f.7", "connected 9f.7"]);
    check("9f.8", &[&confirmation], &["connected 9f.8"]);
}

#[test]
fn offsets_that_were_never_given_are_no_gap() {
    let inside = r#"{"topic":"cars","position":"9f.12","first":8,"offsets":[8,12],"events":[1,2]}"#;
    let later = r#"{"topic":"cars","position":"9f.20","first":20,"after":12,"events":[3]}"#;
    let expected = ["8=1 12=2 to 9f.12", "connected 9f.12", "20=3 to 9f.20"];
    check("9f.7", &[inside, later], &expected);
    check("9f.15", &[later], &["20=3 to 9f.20", "connected 9f.20"]);
    check("9f.8", &[inside], &["12=2 to 9f.12", "connected 9f.12"]);
}

#[test]
fn a_jump_over_offsets_that_were_never_given_is_a_gap_of_unknown_size() {
    let later = r#"{"topic":"cars","position":"9f.20","first":20,"after":12,"events":[3]}"#;
    let expected = ["Unannounced gap of None to 9f.12", "20=3 to 9f.20", "connected 9f.20"];
    check("9f.11", &[later], &expected);
}

#[test]
fn another_epoch_is_always_told() {
    let announced = r#"{"topic":"cars","position":"a1.3","gap":{"missed":null,"reason":"epoch"}}"#;
    let next = envelope("a1.4", 4, "1");
    let expected = ["Epoch gap of None to a1.3", "connected a1.3", "4=1 to a1.4"];
    check("9f.7", &[announced, &next], &expected);
    check("9f.7", &[&next], &["Epoch gap of None to a1.3", "4=1 to a1.4", "connected a1.4"]);
}

#[test]
fn a_gap_is_told_once() {
    let gap = r#"{"topic":"cars","position":"9f.9","gap":{"missed":2,"reason":"trimmed"}}"#;
    let expected = ["Trimmed gap of Some(2) to 9f.9", "connected 9f.9"];
    check("9f.7", &[gap, gap], &expected);
    check("9f.10", &[gap], &["connected 9f.10"]);
}

#[test]
fn each_connection_is_confirmed_and_resumes_where_the_last_was() {
    let topics = vec!["cars".parse().unwrap(), "boats".parse().unwrap()];
    let mut cursors = Cursors::new(topics, StartAt::Latest);
    updates(&mut cursors, &[&envelope("9f.7", 8, "")]);
    assert!(!cursors.are_confirmed());
    assert_eq!(updates(&mut cursors, &[&envelope("9f.8", 8, "1")]), ["8=1 to 9f.8"]);
    let at = "9f.8".parse().map(StartAt::After).unwrap();
    let starts: Vec<_> = cursors.starts().into_iter().map(|(_, start)| start).collect();
    assert_eq!(starts, [at, StartAt::Latest]);
    cursors.disconnected();
    assert_eq!(updates(&mut cursors, &[&envelope("9f.8", 9, "")]), ["connected 9f.8"]);
}

#[test]
fn other_messages_are_handed_back_and_strange_topics_refused() {
    let mut cursors = Cursors::new(vec!["cars".parse().unwrap()], StartAt::Latest);
    let mut receive =
        |text: &str| cursors.receive(text.to_owned(), Transport::Sse, &mut VecDeque::new());
    assert!(matches!(receive(r#"{"heartbeat":{}}"#), Ok(Some(Message::Heartbeat))));
    assert!(receive(&envelope("9f.7", 8, "").replace("cars", "boats")).is_err());
}

/// One envelope of a server: it begins this far before or after its expected start, has this many events, may announce
/// its gap, and the connection may be cut after it.
#[derive(Debug, Clone)]
struct Sent {
    back: u64,
    skip: u64,
    is_announced: bool,
    count: u64,
    is_cut: bool,
}

fn sent() -> impl Strategy<Value = Sent> {
    (0..4u64, 0..3u64, any::<bool>(), 1..5u64, any::<bool>()).prop_map(
        |(back, skip, is_announced, count, is_cut)| Sent {
            back,
            skip,
            is_announced,
            count,
            is_cut,
        },
    )
}

proptest! {
    #[test]
    fn events_are_neither_repeated_nor_lost_in_silence(sent in vec(sent(), 0..40)) {
        let mut cursors = Cursors::new(vec!["cars".parse().unwrap()], "9f.0".parse().unwrap());
        let mut updates = VecDeque::new();
        for sent in sent {
            let StartAt::After(at) = cursors.starts()[0].1 else { panic!("a cursor") };
            let first = (at.offset + 1 + sent.skip).saturating_sub(sent.back).max(1);
            if sent.is_announced && first > at.offset + 1 {
                let (to, missed) = (first - 1, first - 1 - at.offset);
                let gap = format!(
                    r#"{{"topic":"cars","position":"9f.{to}","gap":{{"missed":{missed},"reason":"slow"}}}}"#
                );
                cursors.receive(gap, Transport::Sse, &mut updates).unwrap();
            }
            let last = first + sent.count - 1;
            let events: Vec<String> = (first..=last).map(|offset| offset.to_string()).collect();
            let text = envelope(&format!("9f.{last}"), first, &events.join(","));
            cursors.receive(text, Transport::Sse, &mut updates).unwrap();
            if sent.is_cut {
                cursors.disconnected();
            }
        }
        let mut next = 1;
        for update in updates {
            match update {
                Update::Events(events) => for (offset, event) in events.iter() {
                    prop_assert_eq!((offset, event), (next, &*next.to_string()));
                    next += 1;
                },
                Update::Gap(gap) => next += gap.missed.unwrap(),
                _ => {}
            }
        }
        let StartAt::After(at) = cursors.starts()[0].1 else { panic!("a cursor") };
        prop_assert_eq!(at.offset + 1, next);
    }
}

fn version(position: &str, previous: u64, member: &str, content: &str) -> String {
    let first = position.rsplit_once('.').unwrap().1;
    format!(
        r#"{{"topic":"cars","position":"{position}","first":{first},"previous":{previous},"{member}":[{content}]}}"#
    )
}

#[test]
fn a_version_replaces_those_before() {
    let confirmation = r#"{"topic":"cars","position":"9f.0","first":1,"previous":0,"events":[]}"#;
    let whole = version("9f.7", 0, "events", r#"{"a":1}"#);
    let patch = version("9f.9", 7, "patch", r#"{"op":"add","path":"/b","value":2}"#);
    let expected = ["connected 9f.0", r#"7={"a":1} to 9f.7"#, r#"9={"a":1,"b":2} to 9f.9"#];
    check("latest", &[confirmation, &whole, &patch, &whole], &expected);
    // For any earlier position in another stream: versions leave no gap.
    check("a.3", &[confirmation, &whole, &patch], &expected);
}

#[test]
fn a_patch_of_nothing_is_no_use() {
    let mut cursors = Cursors::new(vec!["cars".parse().unwrap()], "9f.7".parse().unwrap());
    let patch = version("9f.9", 7, "patch", r#"{"op":"add","path":"/b","value":2}"#);
    let received = cursors.receive(patch, Transport::Sse, &mut VecDeque::new());
    assert!(received.is_err_and(|why| why.contains("unknown version")));
    assert!(!cursors.takes_patches(), "the next connection asks for none");
}

#[test]
fn patches_are_asked_for_where_they_are_of_use() {
    let confirmation = r#"{"topic":"cars","position":"9f.0","first":1,"previous":0,"events":[]}"#;
    let cursors = |from: &str| Cursors::new(vec!["cars".parse().unwrap()], from.parse().unwrap());
    let mut fresh = cursors("latest");
    assert!(fresh.takes_patches());
    updates(&mut fresh, &[confirmation, &version("9f.7", 0, "events", "1")]);
    assert!(fresh.takes_patches(), "it has the version");
    let mut resumed = cursors("9f.7");
    assert!(!resumed.takes_patches(), "it may be a value topic, whose version is not here");
    updates(&mut resumed, &[&envelope("9f.7", 8, ""), &envelope("9f.8", 8, "1")]);
    assert!(resumed.takes_patches(), "it is a log");
}

/// In another epoch, and in the same one before the known position.
#[test]
fn an_unknown_value_is_told_and_the_next_version_is_whole() {
    let version = |position: &str, previous: u64, content: &str| {
        let first = position.split_once('.').map_or("", |(_, offset)| offset);
        format!(
            r#"{{"topic":"cars","position":"{position}","first":{first},"previous":{previous},{content}}}"#
        )
    };
    let unknown = |position: &str| {
        format!(
            r#"{{"topic":"cars","position":"{position}","gap":{{"missed":null,"reason":"unknown"}}}}"#
        )
    };
    let first = version("9f.4", 0, r#""events":[{"a":1}]"#);
    for epoch in ["9f", "a0"] {
        let position = format!("{epoch}.0");
        let next = version(&format!("{epoch}.6"), 0, r#""events":[{"a":2}]"#);
        let gap = format!("Unknown gap of None to {position}");
        let last = format!(r#"6={{"a":2}} to {epoch}.6"#);
        let expected = [r#"4={"a":1} to 9f.4"#, "connected 9f.4", &gap, &last];
        check("latest", &[&first, &unknown(&position), &next], &expected);
        // The version from before is no base of a patch.
        let mut cursors = Cursors::new(vec!["cars".parse().unwrap()], "latest".parse().unwrap());
        updates(&mut cursors, &[&first, &unknown(&position)]);
        assert!(cursors.takes_patches(), "it begins with a whole document");
        let patch = r#""patch":[{"op":"replace","path":"/a","value":3}]"#;
        let patch = version(&format!("{epoch}.6"), 4, patch);
        let mut told = VecDeque::new();
        assert!(cursors.receive(patch, Transport::Sse, &mut told).is_err(), "{told:?}");
    }
}

fn keyed(position: &str, rest: &str) -> String {
    format!(r#"{{"topic":"cars","position":"{position}",{rest}}}"#)
}

#[test]
fn events_of_a_keyed_topic_have_their_keys() {
    let mut cursors = Cursors::new(vec!["cars".parse().unwrap()], StartAt::Latest);
    let mut updates = VecDeque::new();
    for text in [
        keyed("9f.0", r#""first":1,"until":30,"keys":[],"events":[]"#),
        keyed(
            "9f.7",
            r#""first":3,"after":0,"until":30,"offsets":[3,7],"keys":["a","b"],"events":[1,2]"#,
        ),
        // The page comes again on another connection, made again.
        keyed(
            "9f.9",
            r#""first":3,"after":0,"until":31,"offsets":[3,8],"keys":["a","c"],"events":[1,3]"#,
        ),
        keyed("9f.31", r#""first":32,"after":9,"keys":[],"events":[]"#),
    ] {
        cursors.receive(text, Transport::Sse, &mut updates).unwrap();
    }
    let mut told = Vec::new();
    for update in &updates {
        let Update::Events(events) = update else { continue };
        let keys = events.keys().expect("keys").join(" ");
        told.push(format!("{} / {keys} / {:?}", short(update), events.until()));
        let text = events.to_envelope();
        let Ok(Message::Events { keyed, .. }) = Message::read(&text) else { panic!("{text}") };
        assert_eq!(keyed, events.keyed, "{text}");
    }
    let expected = [
        " to 9f.0 /  / Some(30)",
        "3=1 7=2 to 9f.7 / a b / Some(30)",
        "8=3 to 9f.9 / c / Some(31)",
        " to 9f.31 /  / None",
    ];
    assert_eq!(told, expected);
}

#[test]
fn a_part_of_a_page_says_until() {
    let page = keyed("9f.9", r#""first":1,"offsets":[1,8],"keys":["a","b"],"events":[1,2]"#);
    let mut cursors = Cursors::new(vec!["cars".parse().unwrap()], StartAt::Latest);
    let mut updates = VecDeque::new();
    cursors.receive(page, Transport::Sse, &mut updates).unwrap();
    let Some(Update::Events(mut events)) = updates.pop_front() else { panic!("{updates:?}") };
    events.truncate(2);
    assert_eq!((events.position.offset, events.until()), (9, None));
    events.truncate(1);
    assert_eq!((events.position.offset, events.until()), (1, Some(9)));
    assert_eq!(events.keys().expect("keys"), ["a"]);
}

#[test]
fn a_gap_at_offset_0_always_counts() {
    let page = keyed("9f.7", r#""first":7,"after":0,"keys":["a"],"events":[1]"#);
    let gap = keyed("9f.0", r#""gap":{"missed":null,"reason":"trimmed"}"#);
    let again = keyed("9f.8", r#""first":8,"after":0,"keys":["a"],"events":[2]"#);
    let expected = ["7=1 to 9f.7", "connected 9f.7", "Trimmed gap of None to 9f.0", "8=2 to 9f.8"];
    check("latest", &[&page, &gap, &gap, &again], &expected);
}

#[test]
fn a_keyed_topic_without_a_page_begins_again() {
    for lost in [
        keyed("9f.12", r#""first":12,"keys":["b"],"events":[1]"#),
        keyed("a1.8", r#""first":8,"keys":["b"],"events":[1]"#),
    ] {
        let mut cursors = Cursors::new(vec!["cars".parse().unwrap()], StartAt::Latest);
        let page = keyed("9f.7", r#""first":7,"after":0,"keys":["a"],"events":[1]"#);
        updates(&mut cursors, &[&page]);
        let mut told = VecDeque::new();
        let received = cursors.receive(lost.clone(), Transport::Sse, &mut told);
        assert!(received.is_err_and(|why| why.contains("does not follow")), "{lost}");
        assert_eq!(cursors.starts()[0].1, StartAt::Latest);
        assert!(matches!(&told[0], Update::Gap(gap) if gap.reason == GapReason::Unannounced));
    }
}

/// The server must know which removals concern a client that resumes within the first pages.
#[test]
fn a_cursor_within_the_first_pages_has_the_least_until() {
    let mut cursors = Cursors::new(vec!["cars".parse().unwrap()], StartAt::Latest);
    let mut start_after = |text: String| {
        updates(&mut cursors, &[&text]);
        cursors.starts()[0].1
    };
    let within = |cursor: &str| cursor.parse::<StartAt>().unwrap();
    let confirmation = keyed("9f.0", r#""first":1,"until":30,"keys":[],"events":[]"#);
    start_after(confirmation);
    let page = keyed("9f.3", r#""first":3,"after":0,"until":40,"keys":["a"],"events":[1]"#);
    assert_eq!(start_after(page), within("9f.3~30"));
    // An old page, which ended the topic when it was made.
    let page = keyed("9f.5", r#""first":5,"after":3,"keys":["b"],"events":[2]"#);
    assert_eq!(start_after(page), within("9f.5"));
    let page = keyed("9f.41", r#""first":6,"after":5,"keys":["c"],"events":[3]"#);
    assert_eq!(start_after(page), within("9f.41"), "the map is whole");
}
