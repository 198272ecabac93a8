//! What may be a secret is kept nowhere, and is said again.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::{fs, thread};

use super::place::Place;

/// Part of everything that is to be kept nowhere.
const SECRET: &str = "s3cret";

/// An endpoint of Server-Sent Events: where, and what it was asked.
fn endpoint() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let place = listener.local_addr().expect("its address").to_string();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let heads = Arc::clone(&asked);
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let heads = Arc::clone(&heads);
            thread::spawn(move || serve(socket, &heads));
        }
    });
    (place, asked)
}

fn serve(mut socket: TcpStream, heads: &Mutex<Vec<String>>) -> Option<()> {
    let lines = BufReader::new(socket.try_clone().ok()?).lines();
    let head: Vec<String> =
        lines.map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
    heads.lock().unwrap_or_else(PoisonError::into_inner).push(head.join("\n"));
    socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n").ok()?;
    // Until the client is gone.
    loop {
        socket.write_all(b"data: 1\n\n").ok()?;
        thread::sleep(std::time::Duration::from_millis(1));
    }
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
fn secrets_are_kept_nowhere_and_said_again() {
    let place = Place::new("secrets");
    let (at, asked) = endpoint();
    let url = format!("http://{at}/live?token={SECRET}-query&{SECRET}");
    let (header, out) = (format!("Authorization: Bearer {SECRET}-header"), "store/run-a");
    let secrets = ["--url", &url, "--header", &header];
    let short = ["--repeats", "2", "--seconds", "0.1", "--set", "connections=2"];
    let junit = ["--junit", "store/run-a/results.xml", "--out", out];
    let taken = place.bench(&[&secrets[..], &short, &junit].concat());
    assert!(!(taken.stdout.clone() + &taken.stderr).contains(SECRET), "{}", taken.stdout);
    let subject = &place.json("run-a", "summary.json")["parts"][0]["rows"][0]["subject"];
    assert_eq!(*subject, format!("http://{at}/live"));
    assert_kept_nowhere(&place, "run-a");

    place.change_samples("run-a", |samples| drop(samples.pop()));
    let resume = |words: &[&str]| {
        place.bench(&[&["continue", "run-a", "--store", "store"][..], words].concat())
    };
    let refusal = |words: &[&str]| {
        let said = resume(words);
        said.ended_with(2);
        said.stderr
    };
    assert_eq!(
        refusal(&[]),
        format!(
            "thalweg: the values in the query of http://{at}/live?token=(not-kept)&(not-kept) were \
             not kept, as they may be secrets: give the whole URL again with --url\n"
        )
    );
    assert_eq!(
        refusal(&["--url", &url]),
        "thalweg: the value of the header `Authorization` was not kept, as it may be a secret: \
         give it again with --header \"Authorization: …\"\n"
    );
    let kept = place.slots("run-a").len();
    asked.lock().expect("what was asked").clear();
    let continued = resume(&secrets);
    assert!(continued.stdout.contains("Everything is in store/run-a"), "{}", continued.stderr);
    assert!(place.slots("run-a").len() > kept);
    assert_kept_nowhere(&place, "run-a");
    let asked = asked.lock().expect("what was asked");
    assert!(asked.len() >= 2, "{asked:?}");
    for head in asked.iter() {
        assert!(head.contains(&format!("token={SECRET}-query&{SECRET} ")), "{head}");
        assert!(head.contains(&format!("Bearer {SECRET}-header")), "{head}");
    }
    let again = ["rerun", "run-a", "--store", "store", "--out", "store/run-b", "--quiet"];
    place.bench(&again).ended_with(2);
    place.bench(&[&again[..], &secrets].concat());
    assert_eq!(place.slots("run-b").len(), place.slots("run-a").len());
    assert_kept_nowhere(&place, "run-b");
}

/// No WebSocket is there, and what is said of that is no secret either.
#[test]
fn what_a_websocket_is_sent_is_kept_nowhere() {
    let place = Place::new("sent");
    let (at, _) = endpoint();
    let urls = ["a", "b"].map(|value| format!("ws://{at}/live?key={SECRET}-{value}"));
    let text = format!("{{\"token\": \"{SECRET}\"}}");
    let words = ["--send-on-open", &text, "--url", &urls[0], "--url", &urls[1]];
    let short = ["--repeats", "1", "--seconds", "0.1", "--out", "store/run-a"];
    let taken = place.bench(&[&words[..], &short].concat());
    taken.ended_with(1);
    assert!(!(taken.stdout.clone() + &taken.stderr).contains(SECRET), "{}", taken.stderr);
    assert_kept_nowhere(&place, "run-a");
    // They are two, although nothing tells them apart but what is not kept.
    let rows = &place.json("run-a", "summary.json")["parts"][0]["rows"];
    assert_eq!(rows[0]["subject"], format!("ws://{at}/live"));
    let list = place.bench(&["list", "--store", "store"]);
    assert!(list.ended_with(0).contains(&format!("ws://{at}/live (2)")), "{}", list.stdout);
    let retake = ["continue", "run-a", "--store", "store", "--invalid"];
    let refused = place.bench(&[&retake[..], &words[2..]].concat());
    refused.ended_with(2);
    assert!(refused.stderr.contains("again with --send-on-open"), "{}", refused.stderr);
    place.bench(&[&retake[..], &words].concat()).ended_with(1);
    assert_kept_nowhere(&place, "run-a");
}
