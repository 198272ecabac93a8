//! `thalweg tail`.

use std::{
    io::{Read, Write},
    net::TcpListener,
};

use crate::harness::{Program, Proxy, Server, thalweg, wait_for};

const TRANSPORTS: [&str; 5] =
    ["websocket", "sse", "http-streaming", "long-polling", "forever-frame"];

fn tail(url: &str, more: &[&str]) -> Program {
    thalweg(&[&["tail", url], more].concat())
}

fn numbers(lines: &[String]) -> Vec<u64> {
    lines.iter().map(|line| line.parse().expect("a number")).collect()
}

/// After each of several broken connections `tail` resumes at its position.
#[test]
fn every_transport_resumes_with_nothing_lost_or_repeated() {
    let check = |transport: &str, http2: &[&str]| {
        let server = Server::start(&[]);
        let topic = "numbers";
        let proxy = Proxy::start(server.address);
        let url = format!("http://{}/v1/topics/{topic}", proxy.address);
        server.publish(topic, 0..200);
        let options = [&["--from", "earliest", "--transport", transport], http2].concat();
        let mut tail = tail(&url, &options);
        let mut seen = numbers(&tail.lines(100));
        for round in 1..5 {
            proxy.cut();
            server.publish(topic, round * 200..(round + 1) * 200);
            seen.extend(numbers(&tail.lines(200)));
        }
        seen.extend(numbers(&tail.lines(100)));
        assert_eq!(seen, (0..1000).collect::<Vec<_>>(), "{transport} {http2:?}");
        assert!(!tail.said().contains("missed"), "{}", tail.said());
        tail.interrupt();
        assert!(tail.end().0.success(), "interrupting is how following ends");
    };
    std::thread::scope(|scope| {
        for transport in TRANSPORTS {
            scope.spawn(move || check(transport, &[]));
            if transport != "websocket" {
                scope.spawn(move || check(transport, &["--http2"]));
            }
        }
    });
}

#[test]
fn a_query_is_followed_through_cuts() {
    let server = Server::start(&["--topic", "numbers,columns=n:int"]);
    let proxy = Proxy::start(server.address);
    let url = format!("http://{}", proxy.address);
    let publish = |numbers: std::ops::Range<u64>| {
        let lines: Vec<String> = numbers.map(|number| format!("[{number}]")).collect();
        server.post("numbers", "application/x-ndjson", lines.join("\n")).published();
    };
    publish(0..200);
    let query = "SELECT n FROM numbers WHERE n % 2 = 1";
    // One subscriber stays, so that the query does, too.
    let mut others = ["sse", "websocket"].map(|transport| {
        tail(&format!("http://{}", server.address), &["--query", query, "--transport", transport])
    });
    let mut tails = TRANSPORTS.map(|transport| {
        tail(
            &url,
            &["--query", query, "--from", "earliest", "--transport", transport, "--count", "300"],
        )
    });
    let mut seen = [(); 5].map(|()| Vec::new());
    for round in 1..4 {
        for (seen, tail) in seen.iter_mut().zip(&mut tails) {
            seen.extend(tail.lines(if round == 1 { 50 } else { 100 }));
        }
        proxy.cut();
        if round < 3 {
            publish(round * 200..(round + 1) * 200);
        }
    }
    let expected: Vec<String> = (0..300).map(|number| format!("[{}]", 2 * number + 1)).collect();
    for (mut seen, mut tail) in seen.into_iter().zip(tails) {
        seen.extend(tail.lines(50));
        assert_eq!(seen, expected);
        assert!(tail.end().0.success() && !tail.said().contains("missed"), "{}", tail.said());
    }
    others.iter_mut().for_each(|tail| tail.interrupt());
    let wrong = tail(&url, &["--query", "SELECT m FROM numbers"]).end();
    assert!(
        !wrong.0.success()
            && wrong.1.contains("line 1, column 8: there is no column m: there are n"),
        "{}",
        wrong.1
    );
}

/// A server without its history has another epoch, and `tail` says so.
#[test]
fn every_transport_goes_on_with_a_server_that_was_killed() {
    let server = Server::start(&[]);
    let address = server.address.to_string();
    let url = format!("http://{address}/v1/topics/numbers");
    let mut tails = TRANSPORTS.map(|transport| {
        tail(&url, &["--from", "earliest", "--transport", transport, "--count", "200"])
    });
    server.publish("numbers", 0..100);
    let before: Vec<u64> = (0..100).collect();
    for tail in &mut tails {
        assert_eq!(numbers(&tail.lines(100)), before);
    }
    server.kill();
    let server = Server::start(&["--listen", &address]);
    server.publish("numbers", 100..200);
    let after: Vec<u64> = (100..200).collect();
    for (mut tail, transport) in tails.into_iter().zip(TRANSPORTS) {
        assert_eq!(numbers(&tail.lines(100)), after, "{transport}");
        let (status, said) = tail.end();
        assert!(status.success() && tail.line().is_none(), "{transport}: {said}");
        assert!(said.contains("the stream has a new epoch"), "{transport}: {said}");
    }
}

/// The delays are those of `vectors/reconnecting.json`. Here a proxy sets a delay.
#[test]
fn a_wait_that_is_asked_for_is_obeyed() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let busy = "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7200\r\nContent-Length: 0\r\n\r\n";
    let proxy = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().expect("a connection");
        let mut request = [0; 4096];
        assert!(socket.read(&mut request).expect("a request") > 0);
        socket.write_all(busy.as_bytes()).expect("an answer");
    });
    let tail = tail(&format!("http://{address}/v1/topics/numbers"), &[]);
    tail.until_said("reconnecting in 720");
    proxy.join().expect("an answer was given");
}

#[test]
fn a_draining_server_is_come_back_to() {
    let mut server = Server::start(&[]);
    let address = server.address.to_string();
    let mut tails = TRANSPORTS.map(|transport| {
        tail(&format!("http://{address}/v1/topics/numbers"), &["--transport", transport])
    });
    for tail in &tails {
        tail.until_said("subscribed to numbers");
    }
    server.terminate();
    assert!(server.exit().success());
    drop(server);
    let server = Server::start(&["--listen", &address]);
    for (tail, transport) in tails.iter().zip(TRANSPORTS) {
        tail.until_said("reconnecting in ");
        let closed = " s: the server closed: draining (1001)";
        // A poll gets its answer, or the connection breaks between two polls.
        let is_told = transport == "long-polling" || tail.said().contains(closed);
        assert!(is_told, "{transport}: {}", tail.said());
        tail.until_said("the stream has a new epoch");
    }
    server.publish("numbers", 0..1);
    for tail in &mut tails {
        assert_eq!(tail.line().as_deref(), Some("0"));
    }
}

#[test]
fn every_transport_works_over_tls_with_a_token() {
    let tokens = [
        "--token",
        "publisher=may-publish,subscribe=**,publish=**,inspect=**,admin=true",
        "--token",
        "subscriber=may-subscribe,subscribe=**",
    ];
    let server = Server::start(&[&["--tls-self-signed"], &tokens[..]].concat());
    let url = format!("https://{}/v1/topics/numbers", server.address);
    let insecure = ["--insecure", "--token", "may-publish"];
    let mut program = thalweg(&[&["pub", &url], &insecure[..]].concat());
    program.give("1\n2\n");
    let (status, said) = program.end();
    assert!(status.success(), "{said}");
    let options = ["--insecure", "--from", "earliest", "--count", "2", "--transport"];
    for transport in TRANSPORTS {
        for http2 in [&[][..], &["--http2"]] {
            let token = ["--token", "may-subscribe"];
            let options = [&options[..], &[transport], &token, http2].concat();
            assert_eq!(numbers(&tail(&url, &options).lines(2)), [1, 2], "{transport} {http2:?}");
        }
        let refused = tail(&url, &[&options[..], &[transport]].concat()).end();
        assert!(refused.1.contains("(401 unauthorized)"), "{transport}: {}", refused.1);
    }
    let untrusted = tail(&url, &["--token", "may-subscribe"]).end();
    assert!(untrusted.1.contains("is not from a trusted authority"), "{}", untrusted.1);
}

#[test]
fn formats_say_more_or_less() {
    let server = Server::start(&[]);
    server.post("words", "application/json", r#"{"a": 1}"#).published();
    let second = server.post("words", "text/plain", "say \"hi\"").published();
    let url = format!("http://{}/v1/topics/words", server.address);
    let check = |format, expected: &[&str]| {
        let mut tail = tail(&url, &["--from", "earliest", "--count", "2", "--format", format]);
        let lines: Vec<String> = std::iter::from_fn(|| tail.line()).collect();
        assert_eq!(lines, expected, "{format}");
    };
    check("json", &["{\"a\":1}", r#""say \"hi\"""#]);
    check("plain", &["{\"a\":1}", "say \"hi\""]);
    // `--count` cuts an envelope that has more events.
    server.publish("words", 0..5);
    let position = &second.position;
    let envelope = format!(
        r#"{{"topic":"words","position":"{position}","first":1,"events":[{{"a":1}},"say \"hi\""]}}"#
    );
    let mut whole = tail(&url, &["--from", "earliest", "--count", "2", "--format", "messages"]);
    let lines: Vec<String> = std::iter::from_fn(|| whole.line()).collect();
    let events = r#""events":[{"a":1}"#;
    assert!(lines == [envelope] || (lines.len() == 2 && lines[0].contains(events)), "{lines:?}");
}

#[test]
fn several_topics_come_together() {
    let server = Server::start(&[]);
    let url = format!("http://{}", server.address);
    for transport in TRANSPORTS {
        let topics = ["--topic", "one", "--topic", "two", "--transport", transport];
        let mut tail = tail(&url, &[&topics[..], &["--count", "2"]].concat());
        tail.until_said("subscribed to one");
        tail.until_said("subscribed to two");
        server.publish("one", 1..2);
        server.publish("two", 2..3);
        let mut seen = numbers(&tail.lines(2));
        seen.sort_unstable();
        assert_eq!(seen, [1, 2], "{transport}");
    }
}

#[test]
fn a_window_holds_nothing_up() {
    let server = Server::start(&[]);
    server.publish("numbers", 0..20_000);
    let url = format!("http://{}/v1/topics/numbers", server.address);
    let mut tail = tail(&url, &["--from", "earliest", "--window", "4KiB", "--count", "20000"]);
    assert_eq!(numbers(&tail.lines(20_000)), (0..20_000).collect::<Vec<_>>());
    assert!(tail.end().0.success());
}

#[test]
fn a_reader_that_leaves_ends_it_quietly() {
    let server = Server::start(&["--source", "ticks=dummy,interval=1ms"]);
    let mut tail = tail(&format!("http://{}/v1/topics/ticks", server.address), &[]);
    tail.lines(1);
    tail.stop_listening();
    let (status, said) = tail.end();
    assert!(status.success(), "{said}");
    assert!(said.lines().all(|line| line.starts_with("subscribed")), "{said}");
}

/// `--cursor` is the name on the wire.
#[test]
fn a_cursor_is_where_it_begins() {
    let server = Server::start(&[]);
    let first = server.publish("numbers", 0..1);
    server.publish("numbers", 1..3);
    let url = format!("http://{}/v1/topics/numbers", server.address);
    let options = ["--cursor", &first.position, "--count", "2"];
    assert_eq!(numbers(&tail(&url, &options).lines(2)), [1, 2]);
}

#[test]
fn plain_http_on_the_port_of_tls_ends_it_with_the_remedy() {
    let server = Server::start(&["--tls-self-signed"]);
    let url = format!("http://{}/v1/topics/a", server.address);
    for options in [&[][..], &["--transport", "sse"], &["--transport", "sse", "--http2"]] {
        let (status, said) = tail(&url, options).end();
        assert_eq!(status.code(), Some(1), "{said}");
        assert!(said.contains("use https://") && said.lines().count() == 1, "{said}");
    }
}

#[test]
fn an_interrupted_count_is_a_failure() {
    let server = Server::start(&[]);
    let url = format!("http://{}/v1/topics/none", server.address);
    let mut tail = tail(&url, &["--count", "3"]);
    tail.until_said("subscribed");
    tail.interrupt();
    let (status, said) = tail.end();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("interrupted after 0 of 3"), "{said}");
}

#[test]
fn mistakes_are_answered_with_the_remedy() {
    let check = |arguments: &[&str], expected: &str| {
        let mut program = thalweg(&[&["tail"], arguments].concat());
        let (status, said) = program.end();
        assert!(!status.success() && said.contains(expected), "{arguments:?}: {said}");
    };
    check(&["push.example:8080"], "write it as http://127.0.0.1:8080");
    check(&["localhost:8080"], "--topic cars");
    check(&[":8080"], "--topic cars");
    check(&["http://localhost"], "--topic cars");
    check(&["http://localhost/v1/topics/a//b"], "segments must not be empty");
    check(&["http://localhost/", "--topic", "a", "--from", "now"], "\"newest.50\"");
    let server = Server::start(&[]);
    let url = format!("https://{}/v1/topics/a", server.address);
    check(&[&url], "does not speak TLS: write http://");
}

/// A restarted server does not have the version that was printed last.
#[test]
fn an_unknown_value_is_said() {
    let values = ["--topic", "v/**,kind=value"];
    let server = Server::start(&values);
    let address = server.address.to_string();
    let url = format!("http://{address}/v1/topics/v/t");
    let mut tails = TRANSPORTS.map(|transport| tail(&url, &["--transport", transport]));
    server.publish("v/t", 1..2);
    for tail in &mut tails {
        assert_eq!(tail.line().as_deref(), Some("1"));
    }
    server.kill();
    let server = Server::start(&[&values[..], &["--listen", &address]].concat());
    for tail in &tails {
        tail.until_said("v/t: the value is unknown now");
    }
    server.publish("v/t", 2..3);
    for (tail, transport) in tails.iter_mut().zip(TRANSPORTS) {
        assert_eq!(tail.line().as_deref(), Some("2"));
        let said = tail.said();
        assert_eq!(said.matches("unknown").count(), 1, "{transport}: {said}");
    }
}

/// `tail` does not request a topic again after it is gone.
#[test]
fn under_the_policy_close_it_ends_where_events_are_gone() {
    let server = Server::start(&["--topic", "**,history-bytes=64KiB"]);
    let line = format!("\"{}\"\n", "x".repeat(1000));
    for _ in 0..20 {
        server.post("t", "application/x-ndjson", line.repeat(20)).published();
    }
    let start = crate::harness::at(&server.publish("t", 0..0).position, 0);
    let url = format!("http://{}/v1/topics/t", server.address);
    for transport in TRANSPORTS {
        let options = ["--from", &start, "--policy", "close", "--transport", transport];
        let (status, said) = tail(&url, &options).end();
        assert!(status.success(), "{transport}: {said}");
        let expected = "t has ended: events after this position are no longer available";
        assert!(said.contains(expected), "{transport}: {said}");
        assert!(!said.contains("reconnecting"), "{transport}: {said}");
    }
    wait_for("the ends to be counted", || {
        let count = server.count("thalweg_gaps_trimmed_total");
        (count == TRANSPORTS.len() as u64).then_some(())
    });
}
