//! `thalweg serve --check`, with flags, variables and a file.

use std::process::{Command, Output};

fn check(arguments: &[&str], token: Option<&str>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    command.args(["serve", "--check"]).args(arguments);
    command.env_remove("THALWEG_PUBLISH_TOKEN").env_remove("THALWEG_SUBSCRIBE_TOKEN");
    command.envs(token.map(|token| ("THALWEG_PUBLISH_TOKEN", token)));
    command.output().expect("run the binary")
}

fn served(arguments: &[&str], token: Option<&str>) -> String {
    let output = check(arguments, token);
    let [said, complained] = [output.stdout, output.stderr].map(text);
    assert!(output.status.success(), "{arguments:?}: {complained}");
    said
}

/// The one line that says what is wrong.
fn refused(arguments: &[&str], token: Option<&str>) -> String {
    let output = check(arguments, token);
    let complained = text(output.stderr);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {complained}");
    assert_eq!(complained.lines().count(), 1, "{complained}");
    assert!(output.stdout.is_empty());
    complained
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("text")
}

#[test]
fn the_example_is_served() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/thalweg.toml");
    assert_eq!(served(&["--config", example], None), served(&[], None));
    let flag_wins = served(&["--config", example, "--heartbeat", "3s"], None);
    assert!(flag_wins.contains("heartbeat 3s"), "{flag_wins}");
}

#[test]
fn a_server_that_others_reach_needs_a_token_or_to_be_open() {
    let anywhere = ["--listen", "0.0.0.0:8080"];
    let complained = refused(&anywhere, None);
    for remedy in ["--publish-token", "--open"] {
        assert!(complained.contains(remedy), "{complained}");
    }
    let said = served(&anywhere, Some("s3cret"));
    assert!(said.contains("needs the token") && !said.contains("s3cret"), "{said}");
    served(&["--listen", "0.0.0.0:8080", "--open"], None);
    // One that is empty protects nothing.
    assert!(refused(&anywhere, Some("")).contains("--publish-token"));
}

#[test]
fn what_cannot_be_served_is_said_in_one_line() {
    assert!(refused(&["--config", "/no/such/file"], None).contains("/no/such/file"));
    assert!(refused(&["--allow-origin", "app.example"], None).contains("app.example"));
    assert!(refused(&["--source", "a=carts"], None).contains("cars"));
    assert!(refused(&["--tls-cert", "cert.pem"], None).contains("tls-key"));
}
