//! Possible secrets are stored nowhere. A run with secrets can only be measured again.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::{fs, thread};

use super::place::Place;

const SECRET: &str = "s3cret";

/// Starts an SSE endpoint whose events, numbered from 1, `event` returns. Returns its address and its requests.
pub(super) fn endpoint(event: fn(u64) -> String) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let place = listener.local_addr().expect("its address").to_string();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let heads = Arc::clone(&asked);
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let heads = Arc::clone(&heads);
            thread::spawn(move || serve(socket, &heads, event));
        }
    });
    (place, asked)
}

/// An event of an endpoint of which only the requests matter.
pub(super) fn made(_: u64) -> String {
    r#"{"made":1}"#.to_owned()
}

fn serve(
    mut socket: TcpStream,
    heads: &Mutex<Vec<String>>,
    event: fn(u64) -> String,
) -> Option<()> {
    let lines = BufReader::new(socket.try_clone().ok()?).lines();
    let head: Vec<String> =
        lines.map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
    heads.lock().unwrap_or_else(PoisonError::into_inner).push(head.join("\n"));
    socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n").ok()?;
    // Until the client disconnects.
    (1..).try_for_each(|number| {
        socket.write_all(format!("data: {}\n\n", event(number)).as_bytes()).ok()?;
        thalweg_testing::let_pass(std::time::Duration::from_millis(1));
        Some(())
    })
}

fn assert_kept_nowhere(place: &Place, run: &str) {
    let mut count = 0;
    for entry in fs::read_dir(place.file(run, "")).expect("a folder").flatten() {
        let text = fs::read_to_string(entry.path()).expect("text");
        assert!(!text.contains(SECRET), "{}: {text}", entry.path().display());
        count += 1;
    }
    assert!(count > 8, "the files of a run: {count}");
}

#[test]
fn secrets_are_not_stored_and_such_a_run_cannot_be_repeated() {
    let place = Place::new("secrets");
    let (at, asked) = endpoint(made);
    let url = format!("http://{at}/live?token={SECRET}-query&{SECRET}");
    let (header, out) = (format!("Authorization: Bearer {SECRET}-header"), "store/run-a");
    let tokens: Vec<String> = (0..2).map(|number| format!("{SECRET}-token{number}")).collect();
    fs::write(place.folder.join("tokens.txt"), tokens.join("\n")).expect("write tokens");
    let each = ["--header", "X-Token: {token}", "--tokens", "tokens.txt"];
    let secrets = [&["--url", &url, "--header", &header][..], &each].concat();
    let short = ["--repeats", "2", "--seconds", "0.1", "--set", "connections=2"];
    let junit = ["--junit", "store/run-a/results.xml", "--out", out];
    let taken = place.bench(&[&secrets[..], &short, &junit].concat());
    assert!(!(taken.stdout.clone() + &taken.stderr).contains(SECRET), "{}", taken.stdout);
    let subject = &place.json("run-a", "summary.json")["parts"][0]["rows"][0]["subject"];
    assert_eq!(*subject, format!("http://{at}/live"));
    assert_kept_nowhere(&place, "run-a");

    let refused = place.bench(&["rerun", "run-a", "--store", "store", "--out", "store/run-b"]);
    refused.ended_with(2);
    assert!(
        refused.stderr.contains("measure again with `thalweg-lab bench --url`"),
        "{}",
        refused.stderr
    );
    assert!(!place.file("run-b", "").exists());
    let asked = asked.lock().expect("what was asked");
    for head in asked.iter() {
        assert!(head.contains(&format!("token={SECRET}-query&{SECRET} ")), "{head}");
        assert!(head.contains(&format!("Bearer {SECRET}-header")), "{head}");
    }
    for token in &tokens {
        assert!(asked.iter().any(|head| head.contains(&format!("X-Token: {token}"))), "{token}");
    }
}
