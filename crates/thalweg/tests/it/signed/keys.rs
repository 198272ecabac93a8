//! Keys and algorithms that are accepted, and those of a key set that are not.

use serde_json::{Value, json};
use thalweg_token::{Algorithm, SigningKey};

use super::{EC, RSA, bearer, claims, key_set, token};
use crate::harness::{Reply, Server, Upstream};

const P384: [&str; 2] = [
    include_str!("../../../../thalweg-token/tests/keys/p384.pem"),
    concat!(env!("CARGO_MANIFEST_DIR"), "/../thalweg-token/tests/keys/p384.public.pem"),
];

fn status(server: &Server, token: &str) -> u16 {
    let headers = [("Authorization", &*bearer(token))];
    server.ask("GET", "/v1/topics/users/alice/in?limit=1", &headers, "").status
}

#[test]
fn tokens_of_each_algorithm_are_taken() {
    let secret = "0123456789abcdef".repeat(4);
    let keys = [EC[1], RSA[1], P384[1]].map(|path| format!("@{path}"));
    let keys = keys.iter().flat_map(|key| ["--jwt-key", key]);
    let server = Server::start(&keys.chain(["--jwt-secret", &secret]).collect::<Vec<_>>());
    for algorithm in Algorithm::ALL.into_iter().filter(|algorithm| algorithm.name() != "EdDSA") {
        let key = match algorithm.name() {
            "ES256" => EC[0],
            "ES384" => P384[0],
            name if name.starts_with("HS") => &secret,
            _ => RSA[0],
        };
        let key = SigningKey::new(key).expect("a key").with_algorithm(algorithm).expect("its kind");
        let token = key.sign(&claims(json!({})), None).expect("a token");
        assert_eq!(status(&server, &token), 404, "{algorithm}");
    }
}

/// Starts an upstream with a key set, and a server that reads it.
fn reading(set: Value) -> (Upstream, Server) {
    let issuer = Upstream::start(move |asked| match &*asked.path {
        "/keys" => Reply::with(302, "Location: moved/keys\r\n", ""),
        "/moved/keys" => Reply::json("", &format!("\u{feff}{set}")),
        path => panic!("{path}"),
    });
    let url = issuer.url("/keys");
    let server = Server::start(&["--jwks-url", &url, "--token", "inspector=i,inspect=**"]);
    (issuer, server)
}

#[test]
fn a_set_of_many_keys_is_read_and_the_rest_is_named() {
    let key = |id: String| key_set(&id)["keys"][0].clone();
    let mut keys: Vec<Value> = (0..40).map(|number| key(format!("k{number}"))).collect();
    let unusable = [("kty", "AKP"), ("use", "enc"), ("alg", "ES512")];
    for (member, value) in unusable {
        let mut key = key(format!("bad-{member}"));
        key[member] = value.into();
        keys.insert(0, key);
    }
    let (_issuer, server) = reading(json!({ "keys": keys }));
    for id in ["k0", "k39"] {
        assert_eq!(status(&server, &token(EC[0], Some(id), json!({}))), 404, "{id}");
    }
    assert_eq!(server.metric("thalweg_jwks_keys"), 40.0);
    assert_eq!(server.metric("thalweg_jwks_keys_skipped"), 3.0);
    for (member, _) in unusable {
        server.has_said(&format!("bad-{member}: "));
        let id = format!("bad-{member}");
        assert_eq!(status(&server, &token(EC[0], Some(&id), json!({}))), 401, "{id}");
    }
}

#[test]
fn a_key_set_with_a_private_key_is_refused() {
    let mut set = key_set("one");
    set["keys"][0]["d"] = "AAAA".into();
    let (_issuer, server) = reading(set);
    assert_eq!(status(&server, &token(EC[0], Some("one"), json!({}))), 503);
    server.has_said("private key");
    server.await_metric("thalweg_jwks_errors_total", |errors| errors > 0.0);
}

#[test]
fn an_issuer_that_asks_to_be_left_alone_is() {
    let issuer = Upstream::start(|_| Reply::with(429, "Retry-After: 99999999999\r\n", ""));
    let server = Server::start(&["--jwks-url", &issuer.url("/keys")]);
    let ask = |id: &str| status(&server, &token(EC[0], Some(id), json!({})));
    assert_eq!(ask("one"), 503);
    // This is longer than the ten seconds after which it is requested otherwise.
    thalweg_testing::let_pass(std::time::Duration::from_secs(11));
    assert_eq!(ask("two"), 503);
    assert_eq!(issuer.count(), 1);
}

/// A file name without @ is neither a key nor a secret.
#[test]
fn a_file_is_named_with_an_at_sign() {
    let refused = |arguments: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_thalweg"));
        let output = command.arg("serve").args(arguments).output().expect("it runs");
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let named = format!("main={}", EC[1]);
    for (arguments, words) in [
        (["--jwt-key", EC[1]], format!("write @{}", EC[1])),
        (["--jwt-key", &named], format!("write main=@{}", EC[1])),
        // The name is long enough for a secret.
        (["--jwt-secret", EC[1]], format!("write @{}", EC[1])),
        (["--jwt-key", "nowhere.pem"], "write @ before".to_owned()),
    ] {
        let said = refused(&arguments);
        assert!(said.contains(&words), "{words} in {said}");
    }
}
