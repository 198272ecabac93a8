//! The examples of docs/how-to/tokens.md that create tokens, each with a common library.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::harness::Server;

const KEYS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../thalweg-token/tests/keys");

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn minted(command: &mut Command) -> String {
    let made = command.arg(format!("{KEYS}/ec.pem")).arg("alice").output().expect("it runs");
    let failed = String::from_utf8_lossy(&made.stderr).into_owned();
    assert!(made.status.success(), "{failed}");
    String::from_utf8(made.stdout).expect("a token").trim().to_owned()
}

fn is_taken(token: &str) {
    let key = format!("@{KEYS}/ec.public.pem");
    let server = Server::start(&["--jwt-key", &key, "--jwt-audience", "push"]);
    let bearer = format!("Bearer {token}");
    let headers = [("Authorization", &*bearer), ("Content-Type", "application/json")];
    assert_eq!(server.ask("POST", "/v1/topics/users/alice/out", &headers, "7").status, 200);
    let read =
        |topic: &str| server.ask("GET", &format!("/v1/topics/{topic}?limit=1"), &headers, "");
    assert_eq!(read("users/alice/out").json()["events"][0], 7);
    read("users/bob/out").refused(403, "forbidden");
    server.ask("POST", "/v1/topics/users/bob/out", &headers, "7").refused(403, "forbidden");
}

#[test]
fn a_token_made_with_jose_is_taken() {
    is_taken(&minted(Command::new("node").arg(repository().join("examples/node/mint.js"))));
}

#[test]
fn a_token_made_with_pyjwt_is_taken() {
    let python = &mut Command::new("python3");
    python.env("PYTHONPATH", repository().join("target/python"));
    is_taken(&minted(python.arg(repository().join("examples/python/mint.py"))));
}

#[test]
fn a_token_made_with_golang_jwt_is_taken() {
    let program = repository().join("target/examples/mint");
    if !program.exists() {
        return crate::harness::skipped("make setup builds it, which needs Go");
    }
    is_taken(&minted(&mut Command::new(program)));
}

#[test]
fn a_token_made_on_the_command_line_is_taken_and_explained() {
    let thalweg = |arguments: &[&str]| {
        let made =
            Command::new(env!("CARGO_BIN_EXE_thalweg")).arg("token").args(arguments).output();
        let made = made.expect("it runs");
        let [said, failed] =
            [&made.stdout, &made.stderr].map(|output| String::from_utf8_lossy(output).into_owned());
        (made.status.success(), said, failed)
    };
    let [private, public] = ["ec.pem", "ec.public.pem"].map(|name| format!("{KEYS}/{name}"));
    let rights = ["--subscribe", "users/{sub}/**", "--publish", "users/{sub}/out"];
    let mint =
        [&["mint", "--key", &*private, "--subject", "alice", "--audience", "push"][..], &rights]
            .concat();
    let (_, token, failed) = thalweg(&mint);
    let token = token.trim();
    assert!(!token.is_empty(), "{failed}");
    is_taken(token);
    let (is_right, said, _) = thalweg(&["explain", "--key", &public, "--audience", "push", token]);
    assert!(is_right);
    for words in
        ["\"alg\":\"ES256\"", "subject    alice", "subscribe  users/alice/**", "inspect    nothing"]
    {
        assert!(said.contains(words), "{words} in {said}");
    }
    let info = ["--info", r#"{"name":"Alice"}"#];
    let (_, described, failed) = thalweg(&[&mint[..], &info].concat());
    let (is_right, said, _) = thalweg(&["explain", "--audience", "push", described.trim()]);
    assert!(is_right && said.contains(r#"info       {"name":"Alice"}"#), "{said}{failed}");
    let (is_right, _, failed) = thalweg(&[&mint[..], &["--info", "Alice"]].concat());
    assert!(!is_right && failed.contains("write JSON, such as"), "{failed}");
    // A token for another audience: its rights, and why a server rejects it.
    let (is_right, said, failed) = thalweg(&["explain", "--key", &public, token]);
    assert!(!is_right && failed.contains("audience"), "{said}{failed}");
    for words in [
        "claims",
        "subject    alice",
        "valid for",
        "subscribe  users/alice/**",
        "publish    users/alice/out",
        "A server rejects this token",
        "another audience (aud): get one for this server; a server with --jwt-audience \"push\" accepts it",
    ] {
        assert!(said.contains(words), "{words} in {said}");
    }
    let wrong = ["explain", "--audience", "pull", "--issuer", "me", token];
    let (is_right, said, _) = thalweg(&wrong);
    assert!(!is_right && said.contains("subscribe  users/alice/**"), "{said}");
    assert!(said.contains("the token has \"push\", the server expects \"pull\""), "{said}");
    assert!(said.contains("no claim iss"), "{said}");
    let (is_right, _, failed) = thalweg(&["explain", "--key", &format!("@{public}"), token]);
    assert!(!is_right && failed.contains("without @"), "{failed}");
    // {"alg":"none"}, and a subject that clears the screen.
    let evil = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJcdTAwMWJbMkoiLAoiZXhwIjoxfQ.";
    let (is_right, said, failed) = thalweg(&["explain", evil]);
    assert!(
        !is_right && !said.contains('\u{1b}') && failed.contains("algorithm"),
        "{said}{failed}"
    );
    let (is_right, said, _) = thalweg(&["explain", "--audience", "push", token]);
    assert!(is_right && said.contains("--key"), "{said}");
    // A token that every server would reject is not created.
    let wrong = ["mint", "--key", &*private, "--subject", "*", "--subscribe", "users/{sub}/**"];
    let (is_right, _, failed) = thalweg(&wrong);
    assert!(!is_right && failed.contains("subject"), "{failed}");
    let (is_right, _, failed) = thalweg(&["mint", "--key", &public, "--subject", "alice"]);
    assert!(!is_right && failed.contains("public key"), "{failed}");
}
