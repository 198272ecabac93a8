//! Tests which servers the client trusts.

use std::sync::Arc;

use thalweg_client::{Client, Error, Options};
use thalweg_testing::TemporaryPath;
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, crypto::ring, pki_types::PrivateKeyDer},
};

use crate::fake::{Fake, Peer, both};

const TOPICS: &str = r#"{"topics":[]}"#;

/// A certificate of an unknown authority, and a server that presents it.
fn identity() -> (String, TlsAcceptor) {
    let made =
        rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a usable certificate");
    let key =
        PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a usable certificate");
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("a usable certificate")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .expect("a usable certificate");
    (made.cert.pem(), TlsAcceptor::from(Arc::new(config)))
}

#[tokio::test]
async fn an_unknown_certificate_is_refused_unless_it_is_named() {
    let (pem, acceptor) = identity();
    let fake = Fake::start().await;
    let file = TemporaryPath::file("ca", &pem);
    let client = |options| Client::new(&fake.url("https"), options).unwrap();
    let server = async {
        assert!(acceptor.accept(fake.socket().await).await.is_err(), "the client must refuse");
        for _ in 0..2 {
            let socket = acceptor.accept(fake.socket().await).await.unwrap();
            let mut peer = Peer { socket, head: String::new() };
            peer.read_head().await;
            assert_eq!(peer.header("authorization"), "Bearer secret");
            peer.answer(200, "", TOPICS).await;
        }
    };
    let asking = async {
        let token = Some("secret".to_owned());
        let options = Options { cacert: Some(file.to_path_buf()), ..Options::default() };
        let insecure = Options { is_insecure: true, ..Options::default() };
        match client(Options::default()).topics().await {
            // On a machine without authorities creating the client fails.
            Err(Error::Untrusted(_)) => {}
            other => panic!("trusted: {other:?}"),
        }
        for options in [options, insecure] {
            let client = client(Options { token: token.clone(), ..options });
            assert!(client.topics().await.unwrap().is_empty());
        }
    };
    both(server, asking).await;
}

#[test]
fn a_file_without_certificates_is_refused() {
    let cacert = Some(std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")));
    let made = Client::new("https://localhost", Options { cacert, ..Options::default() });
    assert!(made.unwrap_err().to_string().contains("no certificate in it"));
}
