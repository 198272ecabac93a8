//! The client's side of TLS. It accepts any certificate, because the server is tested.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme, StreamOwned,
};
use thalweg_testing::is_timeout;

use super::{Duplex, Patience, Raw, connect};

pub(crate) struct TlsClient(StreamOwned<ClientConnection, TcpStream>);

impl TlsClient {
    /// Connects with a handshake that offers these protocols.
    pub(crate) fn connect(address: SocketAddr, protocols: &[&str]) -> Self {
        let provider = Arc::new(default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions of TLS")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anybody))
            .with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        let name = ServerName::try_from("localhost").expect("a name");
        let connection = ClientConnection::new(Arc::new(config), name).expect("a client");
        let mut stream = StreamOwned::new(connection, connect(address));
        let patience = Patience::new();
        stream.sock.set_read_timeout(Some(patience.slice())).expect("set a read timeout");
        shake_hands(&mut stream, patience);
        Self(stream)
    }

    pub(crate) fn raw(address: SocketAddr) -> Raw {
        Raw::over(Self::connect(address, &["http/1.1"]))
    }

    pub(crate) fn protocol(&self) -> Option<String> {
        self.0.conn.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned())
    }

    pub(crate) fn certificate(&self) -> Vec<u8> {
        let chain = self.0.conn.peer_certificates().expect("a certificate");
        chain[0].as_ref().to_vec()
    }
}

impl Read for TlsClient {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for TlsClient {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

impl Duplex for TlsClient {
    fn tcp(&self) -> &TcpStream {
        &self.0.sock
    }
}

fn shake_hands(stream: &mut StreamOwned<ClientConnection, TcpStream>, mut patience: Patience) {
    while stream.conn.is_handshaking() {
        match stream.conn.complete_io(&mut stream.sock) {
            Err(error) if is_timeout(&error) => patience.check("the end of a handshake"),
            done => drop(done.expect("shake hands")),
        }
    }
}

#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        default_provider().signature_verification_algorithms.supported_schemes()
    }
}
