use super::*;

#[test]
fn on_loopback_only_loopback_names_are_served() {
    let local = policy(&allowing(&[], &["Push.Example", "[2001:db8::1]"]), LOOPBACK).unwrap();
    let anywhere = policy(&open(), ANYWHERE).unwrap();
    let check = |host: &str, right: bool| {
        let expected = (!right).then_some(ErrorCode::BadHost);
        let by_header = request("GET /", &[("host", host)]);
        assert_eq!(code(&local.admit(&by_header, false)), expected, "Host: {host}");
        assert_eq!(code(&anywhere.admit(&by_header, false)), None, "Host: {host}");
        if host.parse::<http::uri::Authority>().is_ok() {
            let by_url = request(&format!("GET http://{host}/"), &[]);
            assert_eq!(code(&local.admit(&by_url, false)), expected, ":authority {host}");
        }
    };
    for right in [
        "localhost",
        "LOCALHOST:9",
        "localhost.:80",
        "app.localhost:8080",
        "127.0.0.1:8080",
        "127.1.2.3",
        "[::1]:8080",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "push.example:8080",
        "PUSH.example.",
        "[2001:db8:0::1]:1",
    ] {
        check(right, true);
    }
    for wrong in [
        "",
        "evil.example",
        "localhost.evil.example",
        "evillocalhost",
        "127.0.0.1.evil.example",
        "0.0.0.0:8080",
        "192.168.1.1",
        "[2001:db8::2]",
        "localhost:port",
        "localhost@evil.example",
        "evil.example@localhost",
        "localhost, evil.example",
        "localhost/evil",
        "::1",
    ] {
        check(wrong, false);
    }
    // The URL has precedence over the header.
    let both = request("GET http://evil.example/", &[("host", "localhost")]);
    assert_eq!(code(&local.admit(&both, false)), Some(ErrorCode::BadHost));
    let mut without_host = request("GET /", &[]);
    assert_eq!(code(&local.admit(&without_host, false)), None);
    without_host.version = Version::HTTP_11;
    assert_eq!(code(&local.admit(&without_host, false)), Some(ErrorCode::BadParameter));
    let two = request("GET /", &[("host", "localhost"), ("host", "localhost")]);
    assert_eq!(code(&local.admit(&two, false)), Some(ErrorCode::BadParameter));
}

#[test]
fn names_that_are_given_hold_off_loopback_as_well() {
    let named = Access { everybody: open().everybody, ..allowing(&[], &["push.example"]) };
    let policy = policy(&named, ANYWHERE).unwrap();
    for right in ["push.example", "PUSH.example:8080", "localhost:8080", "127.0.0.1", "[::1]:1"] {
        assert!(policy.admit(&request("GET /", &[("host", right)]), false).is_ok(), "{right}");
    }
    for wrong in ["evil.example", "sub.push.example", "192.0.2.1", "", "a b"] {
        let refused = policy.admit(&request("GET /", &[("host", wrong)]), false);
        assert_eq!(code(&refused), Some(ErrorCode::BadHost), "{wrong}");
        let message = refused.unwrap_err().message;
        assert!(message.contains("--allow-host") && !message.contains("loopback"), "{message}");
    }
    assert!(policy.admit(&request("GET /", &[]), false).is_ok(), "HTTP/1.0");
}
