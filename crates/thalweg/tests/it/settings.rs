//! `thalweg serve --check`, with flags, variables and a file.

use std::process::{Command, Output};

use crate::harness::Server;

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
fn an_address_may_be_written_short() {
    let at = |address: &str| served(&["--listen", address], Some("s3cret"));
    assert_eq!(at("localhost:8081"), at("127.0.0.1:8081"));
    assert_eq!(at(":8081"), at("0.0.0.0:8081"));
    let admin = |address: &str| served(&["--admin-listen", address], None);
    assert_eq!(admin("localhost:8081"), admin("127.0.0.1:8081"));
    // All addresses of the machine are reached by others.
    assert!(refused(&["--listen", ":8081"], None).contains("--publish-token"));
}

/// Whoever looks at the runs before the first has been taken sees none, and then it.
#[test]
fn a_folder_of_runs_may_come_later() {
    let folder = std::env::temp_dir().join(format!("thalweg-later-{}", std::process::id()));
    let folder = folder.to_str().expect("a path is text");
    let said = served(&["--runs", folder], None);
    assert!(said.contains("not there yet"), "{said}");
    let server = Server::start(&["--runs", folder]);
    assert_eq!(server.get("/runs").text(), "{\"runs\":[]}\n");
    server.get("/runs/first/report.html").refused(404, "not_found");
    std::fs::create_dir_all(format!("{folder}/first")).expect("a folder");
    std::fs::write(format!("{folder}/first/report.html"), "<p>").expect("a file");
    assert!(server.get("/runs").text().contains("\"name\":\"first\""));
    assert_eq!(server.get("/runs/first/report.html").text(), "<p>");
    std::fs::remove_dir_all(folder).expect("remove it");
    assert_eq!(server.get("/runs").text(), "{\"runs\":[]}\n");
}

#[test]
fn a_flag_of_other_servers_leads_to_ours() {
    let output = check(&["--port", "8080"], None);
    let complained = text(output.stderr);
    assert_eq!(output.status.code(), Some(2), "{complained}");
    assert!(complained.contains("'--listen'"), "{complained}");
    let file = std::env::temp_dir().join(format!("thalweg-port-{}.toml", std::process::id()));
    std::fs::write(&file, "port = 8080\n").expect("write it");
    let complained = refused(&["--config", file.to_str().expect("a path is text")], None);
    std::fs::remove_file(&file).expect("remove it");
    assert!(complained.contains("did you mean \"listen\"?"), "{complained}");
}

#[test]
fn a_token_is_refused_by_the_name_that_it_was_given_by() {
    let from_variable = refused(&[], Some("two words"));
    assert!(from_variable.contains("THALWEG_PUBLISH_TOKEN"), "{from_variable}");
    let from_flag = refused(&["--publish-token", "two words"], None);
    assert!(from_flag.contains("--publish-token"), "{from_flag}");
}

#[test]
fn what_cannot_be_served_is_said_in_one_line() {
    assert!(refused(&["--config", "/no/such/file"], None).contains("/no/such/file"));
    assert!(refused(&["--allow-origin", "app.example"], None).contains("app.example"));
    assert!(refused(&["--source", "a=carts"], None).contains("cars"));
    assert!(refused(&["--tls-cert", "cert.pem"], None).contains("tls-key"));
}
