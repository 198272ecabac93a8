//! Certificates that `thalweg tail` and upstreams accept, and the error for others.

use std::fs;
use std::process::{Command, Stdio};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use serde_json::json;
use thalweg_testing::TemporaryPath;

use crate::harness::{Server, Transport, thalweg};

/// The files of a certificate, removed at the end.
struct Made(TemporaryPath);

impl Made {
    /// Creates a certificate, signed by itself or by its own authority.
    fn new(name: &str, names: &[&str], change: impl Fn(&mut CertificateParams)) -> Self {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("names");
        change(&mut params);
        let key = KeyPair::generate().expect("a key");
        let cert = params.self_signed(&key).expect("a certificate");
        Self::files(name, &cert.pem(), &key.serialize_pem())
    }

    fn files(name: &str, cert: &str, key: &str) -> Self {
        let folder = TemporaryPath::folder(name);
        fs::write(folder.join("cert.pem"), cert).expect("write it");
        fs::write(folder.join("key.pem"), key).expect("write it");
        Self(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.inside(name)
    }

    fn serve(&self) -> Server {
        Server::start(&["--tls-cert", &self.path("cert.pem"), "--tls-key", &self.path("key.pem")])
    }

    /// Returns the output of a `tail` that trusts `ca`, at its end.
    fn said(&self, ca: &str) -> String {
        let server = self.serve();
        let url = format!("https://localhost:{}/v1/topics/t", server.address.port());
        let arguments = ["tail", &url, "--cacert", ca, "--from", "earliest", "--count", "1"];
        let mut tail = thalweg(&arguments);
        let (status, said) = tail.end();
        assert_eq!(status.code(), Some(1), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        said
    }

    /// Publishes with a `pub` that trusts `ca`.
    fn published(&self, ca: &str) {
        let server = self.serve();
        let url = format!("https://localhost:{}/v1/topics/t", server.address.port());
        let mut publishing = thalweg(&["pub", &url, "--cacert", ca]);
        publishing.give("1\n");
        let (status, said) = publishing.end();
        assert!(status.success(), "{said}");
    }
}

const HERE: &[&str] = &["localhost"];

/// A certificate like that of `openssl req -x509` by default.
#[test]
fn an_authoritys_certificate_as_the_servers_is_named_with_the_remedy() {
    let own = Made::new("authority", HERE, |params| {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    });
    let said = own.said(&own.path("cert.pem"));
    assert!(said.contains("localhost") && said.contains("CA:FALSE"), "{said}");
    assert!(!said.contains("OtherError"), "{said}");
}

/// A certificate like that of `openssl req -x509` with options.
#[test]
fn a_self_signed_certificate_that_is_no_authoritys_is_trusted_by_name() {
    let own = Made::new("own", HERE, |params| params.is_ca = IsCa::ExplicitNoCa);
    own.published(&own.path("cert.pem"));
}

/// Upstreams are verified with the certificates of this machine.
#[test]
fn an_upstream_over_https_is_asked_if_it_is_trusted() {
    let own = Made::new("upstream", HERE, |params| params.is_ca = IsCa::ExplicitNoCa);
    let upstream = own.serve();
    let port = upstream.address.port();
    let other = Made::new("no-upstream", HERE, |params| params.is_ca = IsCa::ExplicitNoCa);
    let begin = |trusted: &Made| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        command.arg("serve").env("SSL_CERT_FILE", trusted.path("cert.pem"));
        let flag = format!("list=https://localhost:{port}/v1/topics");
        Server::start_by(&mut command, &["--upstream", &flag], Stdio::piped())
    };
    let server = begin(&own);
    let mut subscriber = server.subscribe(Transport::Sse, "/list");
    subscriber.confirmed();
    assert_eq!(subscriber.envelope().events, [json!({"topics": []})]);
    let server = begin(&other);
    let mut subscriber = server.subscribe(Transport::Sse, "/list");
    subscriber.confirmed();
    server.await_metric("thalweg_upstream_errors_total", |errors| errors >= 1.0);
}

#[test]
fn a_certificate_error_has_a_remedy() {
    let check = |made: &Made, ca: &str, words: &[&str]| {
        let said = made.said(ca);
        for word in words {
            assert!(said.contains(word), "{word}: {said}");
        }
        assert!(!said.contains(['{', '[']), "{said}");
    };
    let good = Made::new("good", HERE, |_| {});
    let other = Made::new("other", &["elsewhere.example"], |_| {});
    let nameless = Made::new("nameless", &[], |_| {});
    let old = Made::new("old", HERE, |params| params.not_after = date_time_ymd(2020, 1, 1));
    let new = Made::new("new", HERE, |params| params.not_before = date_time_ymd(2999, 1, 1));
    check(&good, &other.path("cert.pem"), &["a trusted authority", "--cacert"]);
    check(&other, &other.path("cert.pem"), &["is for elsewhere.example and not for localhost"]);
    check(&nameless, &nameless.path("cert.pem"), &["holds no names", "subjectAltName"]);
    check(&old, &old.path("cert.pem"), &["has expired: renew it"]);
    check(&new, &new.path("cert.pem"), &["not valid yet", "clock"]);
    // A chain of two with a trusted authority is the usual case.
    let authority_key = KeyPair::generate().expect("a key");
    let mut authority = CertificateParams::new(Vec::new()).expect("no names");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_cert = authority.self_signed(&authority_key).expect("a certificate");
    let issuer = Issuer::new(authority, authority_key);
    let key = KeyPair::generate().expect("a key");
    let names = vec!["localhost".to_owned()];
    let leaf = CertificateParams::new(names).and_then(|params| params.signed_by(&key, &issuer));
    let leaf = leaf.expect("a certificate").pem();
    let made = Made::files("chain", &leaf, &key.serialize_pem());
    fs::write(made.path("ca.pem"), authority_cert.pem()).expect("write it");
    made.published(&made.path("ca.pem"));
}
