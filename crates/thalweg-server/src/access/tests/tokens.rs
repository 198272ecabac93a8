//! Tokens and tickets: identities and their rights.

use super::*;

#[test]
fn tokens_say_who_it_is() {
    let check = |access: &Access, credentials: &[&str], expected: Option<Identity>| {
        let headers: Vec<_> = credentials.iter().map(|text| ("authorization", *text)).collect();
        let policy = policy(access, LOOPBACK).unwrap();
        let seen = policy.identify(&request("GET /", &headers).headers);
        let refused = expected.is_none().then_some(ErrorCode::Unauthorized);
        assert_eq!(code(&seen), refused, "{credentials:?}");
        assert_eq!(seen.ok(), expected, "{credentials:?}");
    };
    use Identity::{Nobody, Publisher, Subscriber};
    let both = access("p", "s");
    check(&both, &[], Some(Nobody));
    check(&both, &["Bearer p"], Some(Publisher));
    check(&both, &["bearer  s"], Some(Subscriber));
    check(&both, &["Basic cHM="], Some(Nobody));
    for wrong in ["Bearer", "Bearer x", "Bearer ps", "Bearer p s", "Bearer P"] {
        check(&both, &[wrong], None);
    }
    check(&both, &["Bearer p", "Bearer s"], None);
    check(&access("p", ""), &["Bearer s"], None);
    check(&access("", ""), &["Bearer s"], Some(Nobody));
}

#[test]
fn rights_are_those_of_the_token() {
    use Identity::{Inspector, Nobody, Publisher, Subscriber};
    let topic: Topic = "cars".parse().unwrap();
    // May subscribe and look; may publish; may inspect.
    let check = |access: &Access, listen: &str, identity, expected: [bool; 3]| {
        let policy = policy(access, listen).unwrap();
        let may = |right| match policy.authorise(identity, right) {
            Ok(()) => true,
            Err(refusal) => {
                assert_eq!(refusal.code, ErrorCode::Unauthorized);
                false
            }
        };
        let [subscribes, publishes, inspects] = expected;
        assert_eq!(may(Right::Subscribe(&topic)), subscribes, "{identity:?} {access:?}");
        assert_eq!(may(Right::ViewRuns), subscribes, "{identity:?} {access:?}");
        assert_eq!(may(Right::Publish(&topic)), publishes, "{identity:?} {access:?}");
        assert_eq!(may(Right::Inspect), inspects, "{identity:?} {access:?} {listen}");
    };
    check(&access("", ""), LOOPBACK, Nobody, [true, true, true]);
    check(&access("p", ""), LOOPBACK, Nobody, [true, false, true]);
    check(&access("p", "s"), LOOPBACK, Nobody, [false, false, false]);
    check(&access("p", "s"), LOOPBACK, Subscriber, [true, false, false]);
    check(&access("p", "s"), LOOPBACK, Inspector, [false, false, true]);
    check(&access("p", ""), LOOPBACK, Publisher, [true, true, true]);
    check(&access("p", "s"), LOOPBACK, Publisher, [true, true, true]);
    check(&allowing(&[], &["a.example"]), LOOPBACK, Nobody, [true, true, false]);
    let inspected = Access { inspect_token: Some(Secret::new("i")), ..Access::default() };
    check(&inspected, LOOPBACK, Nobody, [true, true, false]);
    check(&inspected, LOOPBACK, Inspector, [true, true, true]);
    // `open` does not weaken the tokens, and does not give the right to inspect.
    check(&Access { open: true, ..access("p", "s") }, ANYWHERE, Nobody, [false, false, false]);
    check(&Access { open: true, ..access("", "") }, ANYWHERE, Nobody, [true, true, false]);
    check(&access("p", ""), ANYWHERE, Nobody, [true, false, false]);
    check(&access("p", ""), ANYWHERE, Publisher, [true, true, true]);
}

#[test]
fn a_ticket_is_given_for_a_token() {
    let guarded = policy(&access("p", "s"), LOOPBACK).unwrap();
    for identity in [Identity::Inspector, Identity::Subscriber, Identity::Publisher] {
        assert!(guarded.new_ticket(identity).is_ok(), "{identity:?}");
        assert_eq!(Identity::named(identity.name()), Some(identity));
    }
    assert_eq!(code(&guarded.new_ticket(Identity::Nobody)), Some(ErrorCode::Unauthorized));
    // Where nobody needs one, everybody gets one.
    let open = policy(&Access::default(), LOOPBACK).unwrap();
    assert!(!open.has_tokens() && open.new_ticket(Identity::Nobody).is_ok());
}

#[test]
fn tickets_are_random() {
    let policy = policy(&access("p", ""), LOOPBACK).unwrap();
    let tickets: std::collections::HashSet<_> =
        (0..100).map(|_| policy.new_ticket(Identity::Publisher).unwrap().text()).collect();
    assert_eq!(tickets.len(), 100);
    assert!(tickets.iter().all(|ticket| ticket.len() == 32));
}
