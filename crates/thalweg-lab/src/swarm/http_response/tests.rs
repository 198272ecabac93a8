use super::*;
use crate::swarm::tests::golden;
use proptest::prelude::*;

/// Results of a connection that shows unused bytes again: each response's status and body, and errors.
fn received(pieces: &[&[u8]]) -> Vec<String> {
    let (mut responses, mut carried, mut reader) = (Vec::new(), Vec::new(), Reader::default());
    let (mut status, mut body) = (0, Vec::new());
    for piece in pieces {
        carried.extend_from_slice(piece);
        let mut used = 0;
        loop {
            let (part, length) = match reader.step(&carried[used..]) {
                Ok(step) => step,
                Err(error) => {
                    responses.push(format!("error {error}"));
                    return responses;
                }
            };
            used += length;
            match part {
                ResponsePart::Head(found) => status = found,
                ResponsePart::Body(piece) => body.extend_from_slice(piece),
                ResponsePart::End => {
                    let body = std::mem::take(&mut body);
                    let response = format!("{status} {}", String::from_utf8_lossy(&body));
                    responses.push(response.trim_end().to_owned());
                }
                ResponsePart::Incomplete => break,
            }
        }
        carried.drain(..used);
    }
    responses
}

#[test]
fn golden_streams() {
    golden::check("http", received);
}

#[test]
fn a_head_is_a_status_and_fields() {
    let bytes =
        b"HTTP/1.1 200 OK\r\nConnection: keep-alive, Upgrade\r\nX:a:b\r\nconnection:z\r\n\r\nmore";
    let read = |head: &Head<'_>| {
        assert_eq!((head.status, head.status_line()), (200, "200 OK".to_owned()));
        assert_eq!(head.field("x").as_deref(), Some("a:b"));
        assert_eq!(head.list("connection"), ["keep-alive", "upgrade", "z"]);
    };
    let ((), length) = Head::read(bytes, read).unwrap().unwrap();
    assert_eq!(length, bytes.len() - 4);
    for cut in 0..length {
        assert!(Head::read(&bytes[..cut], read).unwrap().is_none(), "{cut}");
    }
}

#[test]
fn malformed_heads_are_named() {
    let check = |bytes: &[u8], expected: &str| {
        let reported = Head::read(bytes, |_| ()).unwrap_err().to_string();
        assert!(reported.contains(expected), "{reported:?} should say {expected:?}");
    };
    check(b"SSH-2.0-OpenSSH\r\n", "that is not HTTP/1.1: \"SSH-2.0");
    check(b"HTTP/2 200\r\n\r\n", "not HTTP/1.1");
    check(b"HTTP/1.1 OK\r\n\r\n", "invalid response status");
    check(b"HTTP/1.1 200 OK\r\nnothing\r\n\r\n", "invalid header name");
    let endless = [b"HTTP/1.1 200 OK\r\na: ", &vec![b'a'; HEAD_BYTES_MAX][..]].concat();
    check(&endless, "does not end");
    check(&[b"HTTP/1.1 200 OK\r\n", &b"a: b\r\n".repeat(FIELDS_MAX + 1)[..]].concat(), "too many");
}

#[test]
fn a_body_may_end_with_the_connection() {
    let (opening, length) =
        Head::read(b"HTTP/1.1 200 OK\r\n\r\n", Body::from_head).unwrap().unwrap();
    let mut body = opening.unwrap();
    assert_eq!((body, length), (Body::UntilEnd, 19));
    assert_eq!(body.step(b"abc"), Ok((ResponsePart::Body(b"abc"), 3)));
    assert_eq!(body.step(b""), Ok((ResponsePart::Incomplete, 0)));
    assert_eq!(body, Body::UntilEnd);
    assert!(take(b"HTTP/1.1 200 OK\r\n\r\n").is_err(), "of unknown length");
}

#[test]
fn a_whole_response_is_taken_or_refused() {
    let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcmore";
    let response = take(bytes).unwrap().unwrap();
    assert_eq!((response.status, &*response.body), (200, &b"abc"[..]));
    assert_eq!((response.head_length, response.length), (38, 41));
    assert_eq!(take(&bytes[..40]).unwrap(), None);
    let check = |text: &str| assert!(take(text.as_bytes()).is_err(), "{text:?}");
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    check(&format!("{chunked}{}", "1".repeat(LINE_BYTES_MAX + 1)));
    check(&format!("{chunked}11111111111111111\r\n"));
    // More than any message has, announced, or there.
    check("HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\n");
    check(&format!("{chunked}fffffff0\r\n"));
    let endless = format!("{:x}\r\n{}\r\n", 1 << 20, "x".repeat(1 << 20));
    check(&format!("{chunked}{}", endless.repeat(65)));
}

/// Responses as a subject writes them, one after the other; those with a size are in chunks of it.
fn written(bodies: &[(String, usize)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (body, size) in bodies {
        bytes.extend(b"HTTP/1.1 200 OK\r\nServer: x\r\n");
        if *size == 0 {
            bytes.extend(format!("Content-Length: {}\r\n\r\n{body}", body.len()).bytes());
            continue;
        }
        bytes.extend(b"Transfer-Encoding: chunked\r\n\r\n");
        for chunk in body.as_bytes().chunks(*size) {
            bytes.extend(format!("{:x};e=\"1\"\r\n", chunk.len()).bytes());
            bytes.extend(chunk);
            bytes.extend(b"\r\n");
        }
        bytes.extend(b"0\r\nTrailer: x\r\n\r\n");
    }
    bytes
}

proptest! {
    #[test]
    fn cuts_anywhere_change_nothing(
        bodies in prop::collection::vec(("[a-c\r\n]{0,300}z", 0usize..40), 1..10),
        cuts in prop::collection::vec(0usize..97, 0..100),
    ) {
        let expected: Vec<_> = bodies.iter().map(|(body, _)| format!("200 {body}")).collect();
        let bytes = written(&bodies);
        prop_assert_eq!(received(&golden::cut(&bytes, &cuts)), expected);
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        head in prop::sample::select(vec![
            "", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
        ]),
        rest in prop::collection::vec(
            prop_oneof![any::<u8>(), prop::sample::select(b"\r\n:; 0aF".to_vec())], 0..200),
        cuts in prop::collection::vec(0usize..97, 0..9),
    ) {
        let bytes = [head.as_bytes(), &rest].concat();
        let _ = take(&bytes);
        // Errors quote the available bytes.
        let unquoted = |pieces: &[&[u8]]| -> Vec<String> {
            let found = received(pieces);
            found.iter().map(|found| found.split('"').next().unwrap_or_default().to_owned()).collect()
        };
        prop_assert_eq!(unquoted(&golden::cut(&bytes, &cuts)), unquoted(&[&bytes]));
    }
}
