//! Tokens and tickets: identities and their rights.

use super::*;
use crate::{access::WantedKeys, clock::Now};

#[test]
fn tokens_say_who_it_is() {
    let check = |access: &Access, credentials: &[&str], expected: Option<&str>| {
        let headers: Vec<_> = credentials.iter().map(|text| ("authorization", *text)).collect();
        let policy = policy(access, LOOPBACK).unwrap();
        let seen = policy.holders.verify(&request("GET /", &headers).headers, Now::get());
        let seen = seen.map_err(Refusal::from);
        let refused = expected.is_none().then_some(ErrorCode::Unauthorized);
        assert_eq!(code(&seen), refused, "{credentials:?}");
        assert_eq!(
            seen.ok().as_ref().map(|holder| holder.token()),
            expected.map(|name| if name == "nobody" { "" } else { name }),
            "{credentials:?}"
        );
    };
    let both = access("p", "s");
    check(&both, &[], Some("nobody"));
    check(&both, &["Bearer p"], Some("publisher"));
    check(&both, &["bearer  s"], Some("subscriber"));
    check(&both, &["Basic cHM="], Some("nobody"));
    for wrong in ["Bearer", "Bearer x", "Bearer ps", "Bearer p s", "Bearer P"] {
        check(&both, &[wrong], None);
    }
    check(&both, &["Bearer p", "Bearer s"], None);
    check(&access("p", ""), &["Bearer s"], None);
    check(&access("", ""), &["Bearer s"], Some("nobody"));
}

#[test]
fn rights_are_those_of_the_token() {
    let topic: Topic = "cars".parse().unwrap();
    // May subscribe and read; may publish; may inspect.
    let check = |access: &Access, listen: &str, name: &str, expected: [bool; 3]| {
        let policy = policy(access, listen).unwrap();
        let holder = policy.holders.named(name).unwrap();
        let may = |right| match policy.authorise(&holder, right) {
            Ok(()) => true,
            Err(refusal) => {
                let code = match name {
                    "nobody" => ErrorCode::Unauthorized,
                    _ => ErrorCode::Forbidden,
                };
                assert_eq!(refusal.code, code);
                false
            }
        };
        let [subscribes, publishes, inspects] = expected;
        assert_eq!(may(Right::Subscribe(&topic, WantedKeys::All)), subscribes, "{name} {access:?}");
        assert_eq!(may(Right::ViewRuns), subscribes, "{name} {access:?}");
        assert_eq!(may(Right::Publish(&topic, None)), publishes, "{name} {access:?}");
        assert_eq!(may(Right::ViewTopics), inspects, "{name} {access:?} {listen}");
        assert_eq!(may(Right::ViewMetrics), inspects, "{name} {access:?} {listen}");
    };
    check(&access("", ""), LOOPBACK, "nobody", [true, true, true]);
    check(&access("p", ""), LOOPBACK, "nobody", [true, false, false]);
    check(&access("", "s"), LOOPBACK, "nobody", [false, false, false]);
    check(&access("", "s"), LOOPBACK, "subscriber", [true, false, false]);
    check(&access("p", "s"), LOOPBACK, "nobody", [false, false, false]);
    check(&access("p", "s"), LOOPBACK, "subscriber", [true, false, false]);
    let inspect = Rights { inspect: Topics::all(), ..Rights::default() };
    let inspector = NamedToken::new("inspector", "i", inspect);
    let mut all = access("p", "s");
    all.tokens.push(inspector.clone());
    check(&all, LOOPBACK, "inspector", [false, false, true]);
    check(&access("p", ""), LOOPBACK, "publisher", [true, true, true]);
    check(&access("p", "s"), LOOPBACK, "publisher", [true, true, true]);
    check(&allowing(&[], &["a.example"]), LOOPBACK, "nobody", [true, true, false]);
    let inspected = Access { tokens: vec![inspector.clone()], ..Access::default() };
    check(&inspected, LOOPBACK, "nobody", [false, false, false]);
    check(&inspected, LOOPBACK, "inspector", [false, false, true]);
    let open_and_inspected = Access { tokens: vec![inspector], ..open() };
    check(&open_and_inspected, LOOPBACK, "nobody", [true, true, false]);
    check(&open_and_inspected, LOOPBACK, "inspector", [true, true, true]);
    check(&open(), ANYWHERE, "nobody", [true, true, false]);
    check(&open(), LOOPBACK, "nobody", [true, true, false]);
    check(&access("p", ""), ANYWHERE, "nobody", [true, false, false]);
    check(&access("p", ""), ANYWHERE, "publisher", [true, true, true]);
}

#[test]
fn a_ticket_is_given_for_a_token() {
    let guarded = policy(&access("p", "s"), LOOPBACK).unwrap();
    for name in ["subscriber", "publisher"] {
        assert!(guarded.new_ticket(&guarded.holders.named(name).unwrap()).is_ok(), "{name}");
    }
    assert_eq!(
        code(&guarded.new_ticket(&guarded.holders.everybody())),
        Some(ErrorCode::Unauthorized)
    );
    // Without tokens, everybody gets a ticket.
    let open = policy(&Access::default(), LOOPBACK).unwrap();
    assert!(!open.holders.has_tokens() && open.new_ticket(&open.holders.everybody()).is_ok());
}

#[test]
fn tickets_are_random() {
    let policy = policy(&access("p", ""), LOOPBACK).unwrap();
    let tickets: std::collections::HashSet<_> = (0..100)
        .map(|_| policy.new_ticket(&policy.holders.named("publisher").unwrap()).unwrap().text())
        .collect();
    assert_eq!(tickets.len(), 100);
    assert!(tickets.iter().all(|ticket| ticket.len() == 32));
}

#[test]
fn rights_are_to_topics() {
    let topics = |patterns: &[&str]| -> Topics {
        patterns.iter().map(|pattern| pattern.parse().unwrap()).collect()
    };
    let holder = Holder::named(
        "cars",
        &crate::config::Secret::new("c"),
        Rights {
            subscribe: topics(&["cars/*", "users/7/**"]),
            publish: topics(&["cars/new"]),
            inspect: topics(&["cars/**"]),
            admin: false,
        },
    );
    let guarded = policy(&access("p", "s"), LOOPBACK).unwrap();
    let check = |right: Right<'_>, may: bool| {
        assert_eq!(guarded.authorise(&holder, right).is_ok(), may, "{right:?}");
    };
    let topic = |text: &str| -> Topic { text.parse().unwrap() };
    for (text, may) in [
        ("cars/1", true),
        ("cars", false),
        ("cars/1/2", false),
        ("users/7/a/b", true),
        ("users/7", false),
        ("users/77/a", false),
        ("Cars/1", false),
    ] {
        check(Right::Subscribe(&topic(text), WantedKeys::All), may);
    }
    check(Right::Publish(&topic("cars/new"), None), true);
    check(Right::Publish(&topic("cars/1"), None), false);
    // These concern no single topic.
    check(Right::ViewMetrics, false);
    check(Right::Administer, false);
    check(Right::ViewTopics, true);
    let shown = guarded.shown_to(&holder);
    assert!(shown.contain(&topic("cars/1")) && !shown.contain(&topic("cars")));
    check(Right::ViewRuns, false);
    assert!(guarded.lets_publish(&holder));
    // A holder of a token has the rights of everybody, too.
    let shown = policy(&access("p", ""), LOOPBACK).unwrap();
    assert!(shown.authorise(&holder, Right::Subscribe(&topic("bikes"), WantedKeys::All)).is_ok());
    assert!(shown.authorise(&holder, Right::Publish(&topic("bikes"), None)).is_err());
}
