//! Content negotiation, as clients of other projects use it.

use crate::harness::{Frame, Line, Received, Server, Subscriber, Transport, at, opcode, request};

/// Returns the media type of the response to a subscription with one event, or the status if it is not 200.
fn answered(server: &Server, accept: &str) -> Result<String, u16> {
    // HEAD shows how the subscription would begin.
    let mut socket = server.connect();
    socket.send(request("HEAD", "/v1/topics/t", &[("Accept", accept)], b""));
    let answer = socket.response_head();
    match answer.status {
        200 => Ok(answer.header("content-type").expect("a type").to_owned()),
        status => Err(status),
    }
}

/// RFC 9110 §12.5.1.
#[test]
fn the_highest_weight_chooses_the_transport() {
    let server = Server::start(&["--topic", "t,columns=speed:double"]);
    let (sse, lines, arrow) =
        ("text/event-stream", "application/x-ndjson", "application/vnd.apache.arrow.stream");
    let check = |accept: &str, expected: Result<&str, u16>| {
        assert_eq!(answered(&server, accept), expected.map(str::to_owned), "{accept}");
    };
    check("text/event-stream, application/x-ndjson", Ok(sse));
    check("application/x-ndjson, text/event-stream;q=0.9", Ok(lines));
    check("text/event-stream;q=0.2, application/x-ndjson; q=0.3", Ok(lines));
    check("text/event-stream;q=0, application/x-ndjson;q=0.001", Ok(lines));
    check(
        "application/vnd.apache.arrow.stream;q=0.5, application/x-ndjson;q=0.6, text/html",
        Ok(lines),
    );
    check("application/vnd.apache.arrow.stream, application/x-ndjson;q=0.6", Ok(arrow));
    check("text/event-stream;q=0", Err(406));
    check("text/event-stream;q=0, */*", Err(406));
    check("application/x-ndjson;Q=0.0", Err(406));
    check("application/vnd.apache.arrow.stream;q=0", Err(406));
}

#[test]
fn other_answers_follow_weights_too() {
    let server = Server::start(&[]);
    let metrics = |accept: &str| {
        let answer = server.ask("GET", "/metrics", &[("Accept", accept)], "");
        answer.header("content-type").expect("a type").split(';').next().map(str::to_owned)
    };
    let (text, open) = (Some("text/plain".into()), Some("application/openmetrics-text".into()));
    assert_eq!(metrics("application/openmetrics-text;q=0.5,text/plain;q=0.3,*/*;q=0.1"), open);
    assert_eq!(metrics("application/openmetrics-text;q=0.5,text/plain;q=0.6"), text);
    assert_eq!(metrics("application/openmetrics-text;q=0.5,*/*;q=0.8"), text);
    assert_eq!(metrics("application/openmetrics-text;q=0,*/*"), text);

    let server = Server::start(&["--compression"]);
    let coding = |accept: &str| {
        let headers = [("Accept", "text/event-stream"), ("Accept-Encoding", accept)];
        let answer = server.ask("HEAD", "/v1/topics/t", &headers, "");
        answer.header("content-encoding").map(str::to_owned)
    };
    assert_eq!(coding("gzip, deflate, br"), Some("gzip".into()));
    assert_eq!(coding("gzip;q=0.5, identity"), None);
    assert_eq!(coding("gzip;q=0"), None);
}

/// RFC 10036, beside nginx's own header.
#[test]
fn every_stream_asks_proxies_not_to_buffer() {
    let server = Server::start(&["--topic", "t,columns=speed:double"]);
    for transport in Transport::ALL {
        if transport == Transport::WebSocket {
            continue;
        }
        for line in [Line::Http1(server.address), Line::Http2(server.http2())] {
            let mut stream = Subscriber::open(line, transport, "/v1/topics/t", &[]);
            stream.confirmed();
            assert_eq!(stream.head.header("incremental"), Some("?1"), "{transport:?}");
            assert_eq!(stream.head.header("x-accel-buffering"), Some("no"), "{transport:?}");
        }
    }
    let columns = [("Accept", "application/vnd.apache.arrow.stream")];
    let columns = server.ask("HEAD", "/v1/topics/t", &columns, "");
    assert_eq!(columns.header("incremental"), Some("?1"));
}

/// `event-source-polyfill` cannot set headers in all browsers and sends this parameter instead.
#[test]
fn the_last_event_id_may_be_a_parameter() {
    let server = Server::start(&["--shards", "2"]);
    let head = server.publish("t", 0..5).position;
    let from = at(&head, 3);
    let mut stream = server.subscribe(Transport::Sse, &format!("/t?lastEventId={from}"));
    assert_eq!(stream.confirmed(), from);
    assert_eq!(stream.numbers(2).0, [3, 4]);
    // The header has precedence, also over `cursor`. An empty one counts as missing.
    let query = format!("/t?cursor=earliest&lastEventId={from}");
    let headers = [("Last-Event-ID", head.as_str())];
    assert_eq!(server.subscribe_with(Transport::Sse, &query, &headers).confirmed(), head);
    let headers = [("Last-Event-ID", "")];
    assert_eq!(server.subscribe_with(Transport::Sse, &query, &headers).confirmed(), from);
    let mut earliest = server.subscribe(Transport::Sse, "/t?cursor=earliest&lastEventId=");
    assert_eq!(earliest.confirmed(), at(&head, 0));
}

/// A client repeats the last id, which another server behind the same name may have sent.
#[test]
fn an_id_of_another_server_is_an_announced_gap() {
    let server = Server::start(&["--shards", "2", "--topic", "v,kind=value"]);
    server.publish("t", 0..3);
    server.publish("v", 7..8);
    for id in ["x", "42", "1:2", "no.1", "9f3c21.01", "9f3c21.5,9f3c21.6", "a b", "ü"] {
        for transport in Transport::ALL {
            let headers = [("Last-Event-ID", id)];
            let mut stream = server.subscribe_with(transport, "/t", &headers);
            let gap = stream.gap();
            assert_eq!((gap.reason.as_str(), gap.missed), ("epoch", None), "{id} {transport:?}");
            assert_eq!(stream.numbers(3).0, [0, 1, 2], "{id} {transport:?}");
        }
        let id = id.replace(' ', "%20").replace('ü', "%C3%BC");
        let mut stream = server.subscribe(Transport::Sse, &format!("/t?lastEventId={id}"));
        assert_eq!(stream.gap().reason, "epoch", "{id}");
        // The current version replaces the client's.
        let mut value = server.subscribe(Transport::Sse, &format!("/v?lastEventId={id}"));
        while value.envelope().events != [7] {}
    }
    // A cursor that a program wrote is checked.
    let sse = [("Accept", "text/event-stream")];
    server.ask("GET", "/v1/topics/t?cursor=x", &sse, "").refused(400, "bad_cursor");
    // An EventSource would not reconnect after any status but 200.
    let returns = [sse[0], ("Last-Event-ID", "x")];
    let answer = server.ask("HEAD", "/v1/topics/t?policy=close", &returns, "");
    assert_eq!(answer.status, 200);
}

/// `new WebSocket(url, "thalweg.v1")` fails in browsers if the server does not accept the offer.
#[test]
fn an_offered_subprotocol_is_answered() {
    let granted = |server: &Server, offered: &[&str]| {
        let headers: Vec<_> =
            offered.iter().map(|offered| ("Sec-WebSocket-Protocol", *offered)).collect();
        let mut socket = server.subscribe_with(Transport::WebSocket, "/t", &headers);
        socket.send(&Frame::new(opcode::TEXT, r#"{"command":"echo","id":1,"data":1}"#));
        while !matches!(socket.next(), Received::Answer(_)) {}
        socket.head.header("sec-websocket-protocol").map(str::to_owned)
    };
    let server = Server::start(&[]);
    assert_eq!(granted(&server, &[]), None);
    assert_eq!(granted(&server, &["thalweg.v1"]), Some("thalweg.v1".into()));
    assert_eq!(granted(&server, &["mqtt, thalweg.v1"]), Some("thalweg.v1".into()));
    assert_eq!(granted(&server, &["mqtt", "thalweg.v1"]), Some("thalweg.v1".into()));
    assert_eq!(granted(&server, &["mqtt"]), None);
    assert_eq!(granted(&server, &["THALWEG.V1"]), None);
    let protocols = ["--set", "websocket-protocols=[\"x.v2\",\"x.v1\"]"];
    let server = Server::start(&protocols);
    assert_eq!(granted(&server, &["x.v1, x.v2"]), Some("x.v2".into()));
    assert_eq!(granted(&server, &["thalweg.v1, x.v1"]), Some("x.v1".into()));
    assert_eq!(granted(&server, &["thalweg.v1"]), None);
}
