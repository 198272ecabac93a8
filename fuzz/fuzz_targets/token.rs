//! A token without a signature grants nothing, whatever it says; a signed one grants what it says, for as long as it says; and no
//! text of a key or of a set of keys makes the reader panic.

#![no_main]

use std::sync::LazyLock;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use libfuzzer_sys::{arbitrary, fuzz_target};
use ring::hmac;
use thalweg_token::{Expectations, Key, Keys, parts, verify};

const SECRET: &str = "a secret of thirty-two bytes or more";
const NOW_S: u64 = 1_800_000_000;

#[derive(Debug, arbitrary::Arbitrary)]
struct Input<'a> {
    /// Header and claims as they come; otherwise the claims are of topics, in a token that is good but for them.
    is_whole: bool,
    header: &'a str,
    claims: &'a str,
    ends_in_s: i16,
    /// Place of a change in the signed token.
    at: u16,
    by: u8,
    /// A token as it comes, and a key.
    text: &'a str,
}

static KEYS: LazyLock<Keys> = LazyLock::new(|| {
    let secret = Key::secret(SECRET, None).expect("a secret");
    let public = include_str!("../../crates/thalweg-token/tests/keys/ec.public.pem");
    let public = Key::public(public, Some("ec")).expect("a key");
    Keys::new(vec![secret, public]).expect("two keys")
});

fuzz_target!(|input: Input<'_>| {
    let expected = Expectations::default();
    let granted = |token: &str| verify(token, &KEYS, &expected, NOW_S);
    // A guessed signature is never valid.
    assert!(granted(input.text).is_err(), "{}", input.text);
    let _ = (parts(input.text), Key::public(input.text, None), Keys::from_set(input.text.as_bytes()));

    let ends_s = NOW_S.saturating_add_signed(input.ends_in_s.into());
    let topics = format!(r#"{{"sub":"a","exp":{ends_s},"thalweg":{}}}"#, input.claims);
    let [header, claims] = match input.is_whole {
        true => [input.header, input.claims],
        false => [r#"{"alg":"HS256"}"#, &topics],
    };
    let signed = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part)).join(".");
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
    let signature = URL_SAFE_NO_PAD.encode(hmac::sign(&key, signed.as_bytes()));
    let token = format!("{signed}.{signature}");
    let Ok(granted_now) = granted(&token) else { return };
    let header: serde_json::Value = serde_json::from_str(header).expect("a header");
    assert_eq!(header["alg"], "HS256", "{header}");
    assert!(granted_now.ends_s > NOW_S, "{granted_now:?}");
    // The decimals of a time are cut off.
    let after_s = granted_now.ends_s.saturating_add(1);
    assert!(verify(&token, &KEYS, &expected, after_s).is_err(), "{granted_now:?}");
    // Without the signature, or with any byte of it changed, it is invalid.
    assert!(granted(&format!("{signed}.")).is_err());
    let mut changed = token.clone().into_bytes();
    let at = usize::from(input.at) % changed.len();
    changed[at] = input.by & 0x7f;
    let changed = String::from_utf8(changed).expect("ASCII");
    assert!(changed == token || granted(&changed).is_err(), "{changed}");
});
