//! Whom to trust, and which protocols to offer.

use std::{path::Path, sync::Arc};

use tokio_rustls::rustls::{
    self, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
};

use crate::{Error, Options};

/// The configuration for these options, without protocols (ALPN).
pub(crate) fn config(options: &Options) -> Result<ClientConfig, Error> {
    let provider = Arc::new(ring::default_provider());
    let wrong = |error: rustls::Error| Error::Certificates(error.to_string());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(wrong)?;
    if options.is_insecure {
        let verifier = Arc::new(TrustAnyone { provider });
        let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
        return Ok(builder.with_no_client_auth());
    }
    Ok(builder.with_root_certificates(roots(options.cacert.as_deref())?).with_no_client_auth())
}

/// The machine's authorities, and those of a file.
fn roots(cacert: Option<&Path>) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    // A machine may hold certificates that are of no use: the others still are.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(path) = cacert {
        let wrong = |why: String| Error::Certificates(format!("{}: {why}", path.display()));
        let certificates =
            CertificateDer::pem_file_iter(path).map_err(|error| wrong(error.to_string()))?;
        let before = roots.len();
        for certificate in certificates {
            let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
            roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
        }
        if roots.len() == before {
            return Err(wrong("no certificate in it: name a PEM file".to_owned()));
        }
    }
    if roots.is_empty() {
        return Err(Error::Certificates(
            "this machine has no certificate authorities: install ca-certificates, or name a CA \
             file"
                .to_owned(),
        ));
    }
    Ok(roots)
}

/// Takes any certificate, but still has the server prove that it holds its key.
#[derive(Debug)]
struct TrustAnyone {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for TrustAnyone {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
