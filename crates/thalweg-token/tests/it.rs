//! What tokens grant, and what they do not. The keys in `keys/` are of these tests alone.

use proptest::prelude::*;
use serde_json::{Value, json};
use thalweg_token::{
    Claims, Expectations, Granted, KEYS_MAX, Key, KeyError, Keys, SigningKey, TOKEN_BYTES_MAX,
    TokenError, parts, verify,
};
use thalweg_wire::{Pattern, Topic};

const RSA: [&str; 2] = [include_str!("keys/rsa.pem"), include_str!("keys/rsa.public.pem")];
const EC: [&str; 2] = [include_str!("keys/ec.pem"), include_str!("keys/ec.public.pem")];
const ED: [&str; 2] = [include_str!("keys/ed.pem"), include_str!("keys/ed.public.pem")];
const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// A time like any other.
const NOW_S: u64 = 1_800_000_000;

#[expect(clippy::needless_pass_by_value, reason = "it is given what `json!` makes")]
fn claims(changes: Value) -> Claims {
    let mut claims = json!({
        "sub": "alice",
        "exp": NOW_S + 60,
        "thalweg": { "subscribe": ["users/{sub}/**"], "publish": ["rooms/*/in"] },
    });
    for (name, value) in changes.as_object().expect("an object") {
        claims[name] = value.clone();
    }
    let claims = claims.as_object().expect("an object").clone();
    let claims = claims.into_iter().filter(|(_, value)| !value.is_null()).collect::<Value>();
    serde_json::from_value(claims).expect("claims")
}

fn sign(key: &str, changes: Value) -> String {
    SigningKey::new(key).expect("a key").sign(&claims(changes), None).expect("a token")
}

fn keys(of: Vec<Key>) -> Keys {
    Keys::new(of).expect("few keys")
}

fn public(text: &str) -> Key {
    Key::public(text, None).expect("a key")
}

fn granted(token: &str, keys: &Keys) -> Result<Granted, TokenError> {
    verify(token, keys, &Expectations::default(), NOW_S)
}

fn topic(text: &str) -> Topic {
    text.parse().expect("a topic")
}

#[test]
fn each_algorithm_signs_and_verifies() {
    let secret = Key::secret(SECRET, None).expect("a secret");
    let pairs = [
        (RSA[0], public(RSA[1])),
        (EC[0], public(EC[1])),
        (ED[0], public(ED[1])),
        (SECRET, secret),
    ];
    for (at, (private, key)) in pairs.iter().enumerate() {
        let token = sign(private, json!({}));
        let found = granted(&token, &keys(vec![key.clone()])).expect("it is right");
        assert_eq!((&*found.subject, found.ends_s), ("alice", NOW_S + 90));
        assert!(found.rights.subscribe.contain(&topic("users/alice/inbox")));
        assert!(!found.rights.subscribe.contain(&topic("users/bob/inbox")));
        assert!(found.rights.publish.contain(&topic("rooms/7/in")));
        assert!(found.rights.inspect.are_none() && !found.rights.admin);
        for (other, (_, key)) in pairs.iter().enumerate().filter(|(other, _)| *other != at) {
            // Of another algorithm no key is even tried.
            let refused = granted(&token, &keys(vec![key.clone()]));
            assert_eq!(refused, Err(TokenError::UnknownKey), "{at} by {other}");
        }
    }
}

#[test]
fn a_changed_token_grants_nothing() {
    let keys = keys(vec![public(EC[1])]);
    let token = sign(EC[0], json!({}));
    let whole: Vec<&str> = token.split('.').collect();
    let other = sign(EC[0], json!({ "sub": "bob" }));
    let other: Vec<&str> = other.split('.').collect();
    let swapped = [whole[0], other[1], whole[2]].join(".");
    assert_eq!(granted(&swapped, &keys), Err(TokenError::Signature));
    let unsigned = format!("{}.{}.", whole[0], whole[1]);
    assert_eq!(granted(&unsigned, &keys), Err(TokenError::Signature));
    for broken in ["", ".", "..", "a.b", "a.b.c", "a.b.c.d", &format!("{token}.x")] {
        assert_eq!(granted(broken, &keys), Err(TokenError::Unreadable), "{broken:?}");
    }
    let long = format!("{token}{}", "A".repeat(TOKEN_BYTES_MAX));
    assert_eq!(granted(&long, &keys), Err(TokenError::TooLong));
}

/// A token whose header says what an attacker wants.
fn with_header(header: Value, claims: Value, signature: &str) -> String {
    let encoded = |value: Value| base64(value.to_string().as_bytes());
    format!("{}.{}.{signature}", encoded(header), encoded(claims))
}

fn base64(bytes: &[u8]) -> String {
    use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
    URL_SAFE_NO_PAD.encode(bytes)
}

#[test]
fn the_header_chooses_neither_algorithm_nor_key() {
    let claims = serde_json::to_value(claims(json!({}))).expect("JSON");
    let keys = keys(vec![public(RSA[1]), public(EC[1])]);
    let check = |header: Value, signature: &str, expected: TokenError| {
        let token = with_header(header.clone(), claims.clone(), signature);
        assert_eq!(granted(&token, &keys), Err(expected), "{header}");
    };
    for none in ["none", "None", "NONE", ""] {
        check(json!({ "alg": none }), "", TokenError::Algorithm);
    }
    for not_ours in ["HS384", "RS512", "PS256", "ES384"] {
        check(json!({ "alg": not_ours }), "", TokenError::Algorithm);
    }
    check(json!({}), "", TokenError::Algorithm);
    check(json!({ "alg": "HS256" }), "AAAA", TokenError::UnknownKey);
    check(json!({ "alg": "ES256", "crit": ["exp"] }), "AAAA", TokenError::Critical);
    // The key that it brings along, or says where it is, is not looked at.
    let jwk = json!({ "kty": "oct", "k": base64(SECRET.as_bytes()) });
    check(json!({ "alg": "HS256", "jwk": jwk }), "AAAA", TokenError::UnknownKey);
    check(json!({ "alg": "ES256", "jku": "http://evil.example" }), "AAAA", TokenError::Signature);
    for id in ["../../dev/null", "' OR 1=1 --", "\u{0}", "🔑", &"k".repeat(4000)] {
        check(json!({ "alg": "ES256", "kid": id }), "AAAA", TokenError::Signature);
    }
}

#[test]
fn a_public_key_is_no_secret() {
    // The confusion of RS256 with HS256: the public key, which all know, as the secret.
    let keys = keys(vec![public(RSA[1])]);
    for text in [RSA[1], RSA[1].trim()] {
        let claims = serde_json::to_value(claims(json!({}))).expect("JSON");
        let unsigned = with_header(json!({ "alg": "HS256" }), claims, "");
        let message = unsigned.trim_end_matches('.');
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, text.as_bytes());
        let signature = base64(ring::hmac::sign(&key, message.as_bytes()).as_ref());
        let forged = format!("{message}.{signature}");
        assert_eq!(granted(&forged, &keys), Err(TokenError::UnknownKey));
    }
    assert_eq!(Key::secret(RSA[1], None).err(), Some(KeyError::NoSecret));
}

#[test]
fn a_token_is_good_from_its_beginning_to_its_end() {
    let keys = keys(vec![public(ED[1])]);
    let check = |changes: Value, expected: Result<(), TokenError>| {
        let found = granted(&sign(ED[0], changes.clone()), &keys);
        assert_eq!(found.map(|_| ()), expected, "{changes}");
    };
    let leeway = Expectations::default().leeway_s;
    check(json!({ "exp": NOW_S - leeway + 1 }), Ok(()));
    check(json!({ "exp": NOW_S - leeway }), Err(TokenError::Expired));
    check(json!({ "exp": 0 }), Err(TokenError::Expired));
    check(json!({ "exp": (NOW_S + 60) as f64 + 0.5 }), Ok(()));
    check(json!({ "exp": 1e300 }), Ok(()));
    check(json!({ "exp": null }), Err(TokenError::Missing("exp")));
    check(json!({ "nbf": NOW_S + leeway }), Ok(()));
    check(json!({ "nbf": NOW_S + leeway + 1 }), Err(TokenError::NotYetValid));
    check(json!({ "nbf": -5 }), Ok(()));
    // What is no number is no time: it is not passed over.
    for wrong in ["exp", "nbf"] {
        let claims = json!({ "sub": "a", "exp": NOW_S + 9, "thalweg": {}, wrong: "never" });
        let text = with_header(json!({ "alg": "EdDSA" }), claims, "");
        let message = text.trim_end_matches('.');
        let pair = ed_pair();
        let token = format!("{message}.{}", base64(pair.sign(message.as_bytes()).as_ref()));
        assert_eq!(granted(&token, &keys), Err(TokenError::Unreadable), "{wrong}");
    }
}

fn ed_pair() -> ring::signature::Ed25519KeyPair {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let text: String = ED[0].lines().filter(|line| !line.starts_with('-')).collect();
    let der = STANDARD.decode(text).expect("base64");
    ring::signature::Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der).expect("a key")
}

#[test]
fn issuer_and_audience_are_as_expected() {
    let keys = keys(vec![public(EC[1])]);
    let wanted = |issuer: Option<&str>, audience: Option<&str>| Expectations {
        issuer: issuer.map(str::to_owned),
        audience: audience.map(str::to_owned),
        ..Expectations::default()
    };
    let check = |changes: Value, expected: &Expectations, result: Result<(), TokenError>| {
        let found = verify(&sign(EC[0], changes.clone()), &keys, expected, NOW_S);
        assert_eq!(found.map(|_| ()), result, "{changes} {expected:?}");
    };
    let nobody = wanted(None, None);
    check(json!({ "iss": "any" }), &nobody, Ok(()));
    check(json!({ "aud": "other" }), &nobody, Err(TokenError::OtherAudience));
    let both = wanted(Some("me"), Some("push"));
    check(json!({ "iss": "me", "aud": "push" }), &both, Ok(()));
    check(json!({ "iss": "me", "aud": ["api", "push"] }), &both, Ok(()));
    check(json!({ "iss": "me", "aud": [] }), &both, Err(TokenError::OtherAudience));
    check(json!({ "iss": "me", "aud": ["api"] }), &both, Err(TokenError::OtherAudience));
    check(json!({ "iss": "me" }), &both, Err(TokenError::Missing("aud")));
    check(json!({ "aud": "push" }), &both, Err(TokenError::Missing("iss")));
    check(json!({ "iss": "you", "aud": "push" }), &both, Err(TokenError::OtherIssuer));
}

#[test]
fn a_subject_is_a_name_and_no_wildcard() {
    let keys = keys(vec![public(EC[1])]);
    let subscribe = |subject: &str, pattern: &str| {
        let changes = json!({ "sub": subject, "thalweg": { "subscribe": [pattern] } });
        granted(&sign(EC[0], changes), &keys).map(|granted| granted.rights.subscribe)
    };
    for wild in ["*", "**", "a/b", "a/**", "", "..", ".", "a b", "ä", "{sub}"] {
        assert!(matches!(subscribe(wild, "users/{sub}/**"), Err(TokenError::Topics(..))), "{wild}");
        // Where the subject does not stand it may be anything.
        assert!(subscribe(wild, "news/*").is_ok(), "{wild}");
    }
    let own = subscribe("alice", "users/u-{sub}/{sub}").expect("a pattern");
    assert!(own.contain(&topic("users/u-alice/alice")));
    for wrong in ["a//b", "/a", "a*", "**/a", "a b", ""] {
        assert!(matches!(subscribe("alice", wrong), Err(TokenError::Topics(..))), "{wrong}");
    }
    assert!(matches!(
        granted(&sign(EC[0], json!({ "thalweg": null })), &keys),
        Err(TokenError::NoTopics(_))
    ));
    for wrong in [
        json!("**"),
        json!(["**"]),
        json!([["**"]]),
        json!([["**"], ["**"], ["**"], true]),
        json!({ "subscribe": "**" }),
        json!({ "subscribes": ["**"] }),
    ] {
        let token = sign(EC[0], json!({ "thalweg": wrong }));
        assert!(matches!(granted(&token, &keys), Err(TokenError::Topics(..))), "{wrong}");
    }
    let many = json!({ "thalweg": { "subscribe": vec!["a"; 65] } });
    assert!(matches!(granted(&sign(EC[0], many), &keys), Err(TokenError::Topics(..))));
    assert_eq!(
        granted(&sign(EC[0], json!({ "sub": null })), &keys),
        Err(TokenError::Missing("sub"))
    );
}

#[test]
fn keys_are_told_apart_by_their_ids() {
    let old = Key::public(EC[1], Some("old")).expect("a key");
    let new = Key::secret(SECRET, Some("new")).expect("a secret");
    let set = keys(vec![old.clone(), new]);
    let token = |key: &str, id: Option<&str>| {
        SigningKey::new(key).expect("a key").sign(&claims(json!({})), id).expect("a token")
    };
    assert!(granted(&token(EC[0], Some("old")), &set).is_ok());
    assert!(granted(&token(EC[0], None), &set).is_ok());
    assert_eq!(granted(&token(EC[0], Some("new")), &set), Err(TokenError::UnknownKey));
    assert_eq!(granted(&token(EC[0], Some("gone")), &set), Err(TokenError::UnknownKey));
    assert!(Keys::new(vec![old.clone(); KEYS_MAX + 1]).is_err());
    let nameless = Key::public(EC[1], None).expect("a key");
    assert!(Keys::new(vec![nameless.clone(); 4]).is_ok());
    assert_eq!(Keys::new(vec![nameless; 5]).err(), Some(KeyError::Nameless));
    // A token that may be of many keys is not tried with all.
    assert!(granted(&token(EC[0], None), &keys(vec![old.clone(); 4])).is_ok());
    assert_eq!(granted(&token(EC[0], None), &keys(vec![old; 5])), Err(TokenError::ManyKeys));
}

#[test]
fn a_set_has_keys_for_signatures() {
    let (x, y) = ec_point();
    let ec = json!({ "kty": "EC", "crv": "P-256", "x": x, "y": y, "kid": "1", "use": "sig" });
    let secret = json!({ "kty": "oct", "k": base64(SECRET.as_bytes()) });
    let cipher = json!({ "kty": "EC", "crv": "P-256", "x": x, "y": y, "use": "enc" });
    let unknown = json!({ "kty": "new" });
    let set = json!({ "keys": [unknown, secret, cipher, ec] }).to_string();
    let set = Keys::of_set(set.as_bytes()).expect("a set");
    assert_eq!(set.len(), 1);
    let signed = |id| {
        let key = SigningKey::new(EC[0]).expect("a key");
        key.sign(&claims(json!({})), Some(id)).expect("a token")
    };
    assert!(granted(&signed("1"), &set).is_ok());
    assert_eq!(granted(&signed("2"), &set), Err(TokenError::UnknownKey));
    for wrong in ["", "{}", "[]", r#"{"keys":[]}"#, r#"{"keys":[{"kty":"oct","k":"AAAA"}]}"#] {
        assert!(Keys::of_set(wrong.as_bytes()).is_err(), "{wrong}");
    }
}

fn ec_point() -> (String, String) {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let text: String = EC[1].lines().filter(|line| !line.starts_with('-')).collect();
    let der = STANDARD.decode(text).expect("base64");
    let point = &der[der.len() - 64..];
    (base64(&point[..32]), base64(&point[32..]))
}

#[test]
fn a_key_that_is_wrong_is_refused_with_the_remedy() {
    let check = |result: Result<Key, KeyError>, words: &str| {
        let said = result.err().expect("it is wrong").to_string();
        assert!(said.contains(words), "{said}");
    };
    check(Key::public(EC[0], None), "private");
    check(Key::public(include_str!("keys/p384.public.pem"), None), "P-256");
    check(Key::public("hello", None), "PEM");
    check(Key::public("{}", None), "JWK");
    check(Key::public(r#"{"kty":"oct","k":"AAAA"}"#, None), "secret");
    check(Key::secret("short", None), "openssl rand");
    assert!(SigningKey::new(EC[1]).is_err_and(|error| error == KeyError::Public));
}

#[test]
fn a_token_can_be_read_without_its_key() {
    let (header, claims) = parts(&sign(EC[0], json!({}))).expect("a token");
    assert!(header.contains("ES256"));
    assert_eq!(claims.sub.as_deref(), Some("alice"));
    assert!(parts("a.b.c").is_err());
}

/// Whether a pattern means a topic, by trying everything that it may stand for.
fn means(pattern: &[&str], topic: &[&str]) -> bool {
    match (pattern, topic) {
        ([], []) => true,
        (["**"], rest) => !rest.is_empty(),
        (["*", pattern @ ..], [_, topic @ ..]) => means(pattern, topic),
        ([one, pattern @ ..], [other, topic @ ..]) => one == other && means(pattern, topic),
        _ => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn patterns_mean_what_the_naive_matcher_says(
        pattern in prop::collection::vec(prop::sample::select(vec!["a", "b", "ab", "*"]), 1..5),
        rest in any::<bool>(),
        topic in prop::collection::vec(prop::sample::select(vec!["a", "b", "ab", "abc"]), 1..6),
    ) {
        let mut pattern = pattern;
        if rest {
            pattern.push("**");
        }
        let parsed: Pattern = pattern.join("/").parse().expect("a pattern");
        let named: Topic = topic.join("/").parse().expect("a topic");
        prop_assert_eq!(parsed.matches(&named), means(&pattern, &topic));
    }

    #[test]
    fn no_subject_reaches_anothers_topics(subject in ".{0,20}", other in "[a-z]{1,8}") {
        prop_assume!(subject != other);
        let keys = keys(vec![Key::secret(SECRET, None).expect("a secret")]);
        let token = sign(SECRET, json!({ "sub": subject }));
        if let Ok(granted) = granted(&token, &keys) {
            let theirs = topic(&format!("users/{other}/inbox"));
            prop_assert!(!granted.rights.subscribe.contain(&theirs));
        }
    }

    #[test]
    fn nothing_that_is_presented_panics(token in "[A-Za-z0-9_.-]{0,200}") {
        let keys = keys(vec![public(EC[1]), Key::secret(SECRET, None).expect("a secret")]);
        prop_assert!(granted(&token, &keys).is_err());
        let _ = parts(&token);
    }
}
