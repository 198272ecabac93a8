//! Tests the grants and rejections of tokens. The keys in `keys/` are for these tests alone.

use proptest::prelude::*;
use serde_json::{Value, json};
use thalweg_token::{
    Algorithm, Claims, Expectations, Granted, KEYS_MAX, Key, KeyError, Keys, SigningKey,
    TOKEN_BYTES_MAX, TokenError, explain, parts, verify,
};
use thalweg_wire::{Pattern, Topic};

const RSA: [&str; 2] = [include_str!("keys/rsa.pem"), include_str!("keys/rsa.public.pem")];
const EC: [&str; 2] = [include_str!("keys/ec.pem"), include_str!("keys/ec.public.pem")];
const P384: [&str; 2] = [include_str!("keys/p384.pem"), include_str!("keys/p384.public.pem")];
const ED: [&str; 2] = [include_str!("keys/ed.pem"), include_str!("keys/ed.public.pem")];
const SECRET: &str = "0123456789abcdef0123456789abcdef";
const LONG_SECRET: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// An arbitrary time.
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
        (P384[0], public(P384[1])),
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
            // Keys of other algorithms are not tried.
            let refused = granted(&token, &keys(vec![key.clone()]));
            assert_eq!(refused, Err(TokenError::UnknownKey), "{at} by {other}");
        }
    }
}

#[test]
fn a_key_is_of_its_kind_and_of_no_other_algorithm_than_it_says() {
    let (x, y) = point(P384[1], 48);
    let ec = json!({ "kty": "EC", "crv": "P-384", "x": x, "y": y });
    let kinds = [
        (RSA[0], public(RSA[1]), Some(rsa_jwk())),
        (EC[0], public(EC[1]), Some(ec_jwk())),
        (P384[0], public(P384[1]), Some(ec)),
        (ED[0], public(ED[1]), None),
        (LONG_SECRET, Key::secret(LONG_SECRET, None).expect("a secret"), None),
    ];
    let mut signed = 0;
    for algorithm in Algorithm::ALL {
        for (private, key, jwk) in &kinds {
            let private = SigningKey::new(private).expect("a key");
            let Ok(private) = private.with_algorithm(algorithm) else { continue };
            let token = private.sign(&claims(json!({})), None).expect("a token");
            signed += 1;
            assert!(granted(&token, &keys(vec![key.clone()])).is_ok(), "{algorithm}");
            let Some(jwk) = jwk else { continue };
            let named = |name: &str| {
                let mut jwk = jwk.clone();
                jwk["alg"] = name.into();
                Key::public(&jwk.to_string(), None)
            };
            let own = named(algorithm.name()).expect("a key");
            assert!(granted(&token, &keys(vec![own])).is_ok(), "{algorithm}");
            for other in Algorithm::ALL.into_iter().filter(|other| *other != algorithm) {
                let Ok(key) = named(other.name()) else { continue };
                let refused = granted(&token, &keys(vec![key]));
                assert_eq!(refused, Err(TokenError::UnknownKey), "{algorithm} {other}");
            }
        }
    }
    assert_eq!(signed, Algorithm::ALL.len());
    // A secret has at least the length of the hash.
    let short = keys(vec![Key::secret(SECRET, None).expect("a secret")]);
    let long = SigningKey::new(LONG_SECRET).expect("a secret").with_algorithm(Algorithm::HS512);
    let token = long.map(|key| key.sign(&claims(json!({})), None)).expect("a key");
    assert_eq!(granted(&token.expect("a token"), &short), Err(TokenError::UnknownKey));
    let refused = SigningKey::new(SECRET).expect("a secret").with_algorithm(Algorithm::HS384).err();
    assert_eq!(refused, Some(KeyError::ShortFor(Algorithm::HS384, 48)));
}

/// RFC 9864 §2.2 named EdDSA on Ed25519 separately.
#[test]
fn ed25519_has_two_names() {
    let claims = serde_json::to_value(claims(json!({}))).expect("JSON");
    let pair = ed_pair();
    for name in ["EdDSA", "Ed25519"] {
        let unsigned = with_header(json!({ "alg": name }), claims.clone(), "");
        let message = unsigned.trim_end_matches('.');
        let token = format!("{message}.{}", base64(pair.sign(message.as_bytes()).as_ref()));
        assert!(granted(&token, &keys(vec![public(ED[1])])).is_ok(), "{name}");
        let x = ed_point();
        let jwk = json!({ "kty": "OKP", "crv": "Ed25519", "x": x, "alg": name }).to_string();
        assert!(granted(&token, &keys(vec![public(&jwk)])).is_ok(), "{name}");
    }
}

#[test]
fn a_wrong_type_is_named() {
    let keys = keys(vec![public(ED[1])]);
    let (pair, all) = (ed_pair(), serde_json::to_value(claims(json!({}))).expect("JSON"));
    let signed = |header: Value, claims: Value| {
        let unsigned = with_header(header, claims, "");
        let message = unsigned.trim_end_matches('.');
        format!("{message}.{}", base64(pair.sign(message.as_bytes()).as_ref()))
    };
    let check = |header: Value, claims: Value, words: &str| {
        let said = granted(&signed(header, claims), &keys).expect_err("a wrong type").to_string();
        assert!(said.contains(words) && !said.contains("base64url"), "{words}: {said}");
    };
    let header = json!({ "alg": "EdDSA" });
    for (name, value, words) in [
        ("sub", json!(42), "claim sub is not a text"),
        ("iss", json!(["a"]), "claim iss is not a text"),
        ("aud", json!(7), "claim aud is not a text or a list of texts"),
        ("aud", json!([7]), "claim aud is not a text or a list of texts"),
        ("exp", json!("1900000000"), "claim exp is not a number"),
        ("nbf", json!(true), "claim nbf is not a number"),
        ("thalweg", json!([]), "claim thalweg"),
    ] {
        let mut claims = all.clone();
        claims[name] = value;
        check(header.clone(), claims, words);
    }
    check(header, json!([1]), "no JSON object as its claims");
    check(json!({ "alg": 5 }), all.clone(), "header alg is not a text");
    check(json!({ "alg": "EdDSA", "kid": 1 }), all.clone(), "header kid is not a text");
    check(json!(["EdDSA"]), all, "no JSON object as its header");
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

/// A token with a header of an attacker's choice.
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
    for not_ours in ["ES512", "ES256K", "Ed448", "ed25519", "rs256", "RS1", "A128KW"] {
        check(json!({ "alg": not_ours }), "", TokenError::Algorithm);
    }
    // These need a key of another kind or curve.
    for unknown in ["HS384", "ES384", "EdDSA", "Ed25519"] {
        check(json!({ "alg": unknown }), "AAAA", TokenError::UnknownKey);
    }
    for own in ["RS512", "PS256"] {
        check(json!({ "alg": own }), "AAAA", TokenError::Signature);
    }
    check(json!({}), "", TokenError::Algorithm);
    check(json!({ "alg": "HS256" }), "AAAA", TokenError::UnknownKey);
    check(json!({ "alg": "ES256", "crit": ["exp"] }), "AAAA", TokenError::Critical);
    // The verifier ignores a key in the header, or a link to one.
    let jwk = json!({ "kty": "oct", "k": base64(SECRET.as_bytes()) });
    check(json!({ "alg": "HS256", "jwk": jwk }), "AAAA", TokenError::UnknownKey);
    check(json!({ "alg": "ES256", "jku": "http://evil.example" }), "AAAA", TokenError::Signature);
    for id in ["../../dev/null", "' OR 1=1 --", "\u{0}", "🔑", &"k".repeat(4000)] {
        check(json!({ "alg": "ES256", "kid": id }), "AAAA", TokenError::Signature);
    }
}

#[test]
fn a_public_key_is_no_secret() {
    // The confusion of RS256 with HS256: the public key as the secret.
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
    // A claim that is no number rejects the token.
    for wrong in ["exp", "nbf"] {
        let claims = json!({ "sub": "a", "exp": NOW_S + 9, "thalweg": {}, wrong: "never" });
        let text = with_header(json!({ "alg": "EdDSA" }), claims, "");
        let message = text.trim_end_matches('.');
        let pair = ed_pair();
        let token = format!("{message}.{}", base64(pair.sign(message.as_bytes()).as_ref()));
        assert_eq!(granted(&token, &keys), Err(TokenError::Malformed(wrong)), "{wrong}");
    }
}

fn ed_pair() -> ring::signature::Ed25519KeyPair {
    let der = der(ED[0]);
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
    for wild in ["*", "**", "a/b", "a/**", "", "..", ".", "a b", "ä", "{sub}", "a?key=b", "a\"b"] {
        for pattern in ["users/{sub}/**", "users/{sub}", "users?key={sub}", "users?prefix={sub}/"] {
            assert!(matches!(subscribe(wild, pattern), Err(TokenError::Topics(..))), "{wild}");
        }
        // A subject that no pattern uses may be anything.
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
    // The verifier does not try many keys for one token.
    assert!(granted(&token(EC[0], None), &keys(vec![old.clone(); 4])).is_ok());
    assert_eq!(granted(&token(EC[0], None), &keys(vec![old; 5])), Err(TokenError::ManyKeys));
}

#[test]
fn a_set_has_keys_for_signatures() {
    let (x, y) = point(EC[1], 32);
    let ec = json!({ "kty": "EC", "crv": "P-256", "x": x, "y": y, "kid": "1", "use": "sig" });
    let secret = json!({ "kty": "oct", "k": base64(SECRET.as_bytes()) });
    let cipher = json!({ "kty": "EC", "crv": "P-256", "x": x, "y": y, "use": "enc" });
    let unknown = json!({ "kty": "new" });
    let set = json!({ "keys": [unknown, secret, cipher, ec, 5] }).to_string();
    let (set, skipped) = Keys::from_set(set.as_bytes()).expect("a set");
    assert_eq!(set.len(), 1);
    let skipped: Vec<String> =
        skipped.iter().map(|key| format!("{}: {}", key.key, key.why)).collect();
    for (nth, words) in [
        "number 1: kty",
        "number 2: the set publishes a secret",
        "number 3: the key is not for",
        "number 5",
    ]
    .into_iter()
    .enumerate()
    {
        assert!(skipped[nth].starts_with(words), "{words} in {skipped:?}");
    }
    assert_eq!(skipped.len(), 4);
    let signed = |id| {
        let key = SigningKey::new(EC[0]).expect("a key");
        key.sign(&claims(json!({})), Some(id)).expect("a token")
    };
    assert!(granted(&signed("1"), &set).is_ok());
    assert_eq!(granted(&signed("2"), &set), Err(TokenError::UnknownKey));
    for wrong in ["", "{}", "[]", r#"{"keys":[]}"#, r#"{"keys":[{"kty":"oct","k":"AAAA"}]}"#] {
        assert!(Keys::from_set(wrong.as_bytes()).is_err(), "{wrong}");
    }
}

#[test]
fn a_set_has_many_keys() {
    let jwk = |number: usize| {
        let mut jwk = ec_jwk();
        jwk["kid"] = number.to_string().into();
        jwk
    };
    let set = |jwks: Vec<Value>| json!({ "keys": jwks }).to_string().into_bytes();
    let many = set((0..KEYS_MAX + 2).map(jwk).collect());
    let (keys, skipped) = Keys::from_set(&many).expect("a set");
    assert_eq!((keys.len(), skipped.len()), (KEYS_MAX, 2));
    assert_eq!((&*skipped[0].key, &skipped[0].why), ("256", &KeyError::TooMany));
    let key = SigningKey::new(EC[0]).expect("a key");
    let signed = |id| key.sign(&claims(json!({})), Some(id)).expect("a token");
    assert!(granted(&signed("17"), &keys).is_ok());
    assert_eq!(granted(&signed("256"), &keys), Err(TokenError::UnknownKey));
    // At most four keys without ids are tried.
    let (keys, skipped) = Keys::from_set(&set(vec![ec_jwk(); 6])).expect("a set");
    assert_eq!((keys.len(), skipped.len()), (4, 2));
    assert!(granted(&signed("17"), &keys).is_ok());
    let marked = [b"\xef\xbb\xbf", &set(vec![ec_jwk()])[..]].concat();
    assert_eq!(Keys::from_set(&marked).expect("a set").0.len(), 1);
}

/// With a published private key anybody can make tokens.
#[test]
fn a_set_with_a_private_key_is_refused() {
    let refused = |extra: &str| {
        let mut jwk = ec_jwk();
        jwk[extra] = "AAAA".into();
        jwk["kid"] = "leaked".into();
        let set = json!({ "keys": [ec_jwk(), jwk] }).to_string();
        Keys::from_set(set.as_bytes()).err()
    };
    for private in ["d", "p", "q", "dp", "dq", "qi", "oth"] {
        assert_eq!(
            refused(private),
            Some(KeyError::PrivateInSet("leaked".to_owned())),
            "{private}"
        );
    }
    assert_eq!(refused("x5t"), None);
}

#[test]
fn a_jwk_that_cannot_be_used_says_why() {
    let check = |jwk: &Value, member: &str, value: Value, words: &str| {
        let mut jwk = jwk.clone();
        jwk[member] = value;
        let said = Key::public(&jwk.to_string(), None).err().expect("it is wrong").to_string();
        assert!(said.contains(words), "{member}: {said}");
    };
    let (ec, rsa) = (ec_jwk(), rsa_jwk());
    check(&ec, "crv", json!("P-521"), "P-521");
    check(&ec, "crv", json!("P-384"), "another curve");
    check(&ec, "x", json!("!"), "x is not base64url");
    check(&ec, "x", json!(5), "x is no text");
    check(&ec, "alg", json!("ES384"), "alg ES384");
    check(&ec, "alg", json!("ECDH-ES"), "alg ECDH-ES");
    check(&ec, "kid", json!(5), "kid is no text");
    check(&ec, "use", json!("enc"), "not for signatures");
    check(&ec, "key_ops", json!(["sign"]), "not for signatures");
    check(&rsa, "n", json!("AQAB"), "2048");
    check(&rsa, "e", Value::Null, "e is no text");
    check(&rsa, "d", json!("AQAB"), "private");
    check(&rsa, "kty", json!("AKP"), "kty AKP");
    // A zero before the modulus, as some issuers write it.
    let mut padded = rsa;
    let n = padded["n"].as_str().expect("a text").to_owned();
    let n = [&[0][..], &unbase64(&n)].concat();
    padded["n"] = base64(&n).into();
    let token = sign(RSA[0], json!({}));
    assert!(granted(&token, &keys(vec![public(&padded.to_string())])).is_ok());
}

#[test]
fn an_explanation_names_rights_and_refusals() {
    let set = keys(vec![public(EC[1])]);
    let changes = json!({ "aud": "other", "iss": "you", "exp": NOW_S - 100, "nbf": NOW_S + 100 });
    let expected = Expectations { issuer: Some("me".to_owned()), ..Expectations::default() };
    let token = sign(EC[0], changes);
    let explained = explain(&token, Some(&set), &expected, NOW_S).expect("claims");
    let rights = explained.rights.expect("rights");
    assert!(rights.subscribe.contain(&topic("users/alice/inbox")));
    assert_eq!(explained.subject.as_deref(), Some("alice"));
    use TokenError::{Expired, NotYetValid, OtherAudience, OtherIssuer, Signature, UnknownKey};
    let times = [Expired, NotYetValid, OtherIssuer, OtherAudience];
    assert_eq!(explained.refusals, times);
    // Signed by another key, or unsigned.
    let refusals = |keys: Option<&Keys>, token: &str| {
        explain(token, keys, &Expectations::default(), NOW_S).expect("claims").refusals
    };
    assert_eq!(refusals(None, &sign(EC[0], json!({}))), []);
    let other = keys(vec![public(ED[1])]);
    assert_eq!(refusals(Some(&other), &sign(EC[0], json!({}))), [UnknownKey]);
    let cut = sign(EC[0], json!({})).rsplit_once('.').expect("a token").0.to_owned() + ".AAAA";
    assert_eq!(refusals(Some(&set), &cut), [Signature]);
}

fn ec_jwk() -> Value {
    let (x, y) = point(EC[1], 32);
    json!({ "kty": "EC", "crv": "P-256", "x": x, "y": y })
}

/// The two numbers at the end of the DER, the exponent with its tag and length.
fn rsa_jwk() -> Value {
    let der = der(RSA[1]);
    let n = &der[der.len() - 5 - 256..der.len() - 5];
    json!({ "kty": "RSA", "n": base64(n), "e": "AQAB" })
}

fn point(public: &str, bytes: usize) -> (String, String) {
    let der = der(public);
    let point = &der[der.len() - 2 * bytes..];
    (base64(&point[..bytes]), base64(&point[bytes..]))
}

fn ed_point() -> String {
    let der = der(ED[1]);
    base64(&der[der.len() - 32..])
}

fn der(pem: &str) -> Vec<u8> {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let text: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
    STANDARD.decode(text).expect("base64")
}

fn unbase64(text: &str) -> Vec<u8> {
    use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
    URL_SAFE_NO_PAD.decode(text).expect("base64url")
}

#[test]
fn a_key_that_is_wrong_is_refused_with_the_remedy() {
    let check = |result: Result<Key, KeyError>, words: &str| {
        let said = result.err().expect("it is wrong").to_string();
        assert!(said.contains(words), "{said}");
    };
    check(Key::public(EC[0], None), "private");
    check(Key::public(include_str!("keys/p521.public.pem"), None), "P-256");
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
    let claims = Claims::parse(claims.as_bytes()).expect("claims");
    assert_eq!(claims.sub.as_deref(), Some("alice"));
    assert!(parts("a.b.c").is_err());
}

/// Returns whether a pattern matches a topic, by trying every match of each segment.
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
    fn any_presented_token_is_read_without_a_panic(token in "[A-Za-z0-9_.-]{0,200}") {
        let keys = keys(vec![public(EC[1]), Key::secret(SECRET, None).expect("a secret")]);
        prop_assert!(granted(&token, &keys).is_err());
        let _ = parts(&token);
    }
}

#[test]
fn a_token_may_describe_its_holder() {
    let keys = keys(vec![public(EC[1])]);
    let described = |info: Value| {
        let claim = json!({ "subscribe": ["a"], "info": info });
        granted(&sign(EC[0], json!({ "thalweg": claim })), &keys).map(|granted| granted.info)
    };
    assert_eq!(described(json!({"age": 7})), Ok(Some(r#"{"age":7}"#.to_owned())));
    assert_eq!(
        described(json!("x".repeat(1022))).map(|info| info.map(|info| info.len())),
        Ok(Some(1024))
    );
    assert_eq!(described(Value::Null), Ok(None));
    let why = "info has 1025 bytes as JSON: write at most 1024".to_owned();
    assert_eq!(
        described(json!("x".repeat(1023))),
        Err(TokenError::Topics("thalweg".to_owned(), why))
    );
}
