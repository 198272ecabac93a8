//! TLS: certificates that the lab trusts, and others.

use super::server::{script, serve, serve_tls};
use super::{SSE, forever, received, typed, visit};
use thalweg_lab::scenario::Typed;
use thalweg_testing::{TemporaryPath, undisturbed};

#[test]
fn an_unknown_certificate_is_refused_unless_it_is_named_or_all_are_taken() {
    undisturbed(|| {
        let (address, pem) = serve_tls(script(|mut peer| {
            if peer.header("Upgrade") == "websocket" {
                peer.upgrade("")?;
                return forever(|| peer.frame(0x81, b"event"));
            }
            peer.say(&format!("{SSE}\r\n"))?;
            forever(|| peer.say("data: event\n\n"))
        }));
        let file = TemporaryPath::file("external", &pem);
        for scheme in ["wss", "https"] {
            let url = format!("{scheme}://localhost:{}/", address.port());
            let insecure = received(&Typed { insecure: true, ..typed(url.clone()) }, 5);
            assert_eq!(insecure.established, 5, "{insecure:?}");
            assert!(insecure.events > 10 && insecure.wire_bytes > 6 * insecure.payload_bytes / 5);
            assert!(insecure.set_up.is_some());
            let named =
                received(&Typed { cacert: Some(file.to_path_buf()), ..typed(url.clone()) }, 2);
            assert!(named.established == 2 && named.events > 0, "{named:?}");

            let error = visit(&typed(url), 2).unwrap_err().to_string();
            // A machine without authorities says so before it connects.
            assert!(error.contains("--cacert") && error.contains("--insecure"), "{error}");
        }
        let another = format!("wss://127.0.0.1:{}/", address.port());
        let error =
            visit(&Typed { cacert: Some(file.to_path_buf()), ..typed(another) }, 1).unwrap_err();
        assert!(error.to_string().contains("not valid for name"), "{error}");
    });
}

#[test]
fn missing_tls_and_a_wrong_file_are_reported() {
    undisturbed(|| {
        let address = serve(script(|mut peer| peer.say("HTTP/1.1 200 OK\r\n\r\n")));
        let url = format!("wss://localhost:{}/", address.port());
        let cacert = Some(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml").into());
        let error = visit(&Typed { cacert, ..typed(url) }, 1).unwrap_err();
        assert!(format!("{error:#}").contains("name a PEM file"), "{error:#}");

        // A TLS server answers plain text with an alert.
        let (address, _) = serve_tls(script(|_| Ok(())));
        let error = visit(&typed(format!("ws://{address}/")), 1).unwrap_err().to_string();
        assert!(error.contains("wss://"), "{error}");
    });
}
