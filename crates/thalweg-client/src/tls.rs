//! Trusted certificates, and offered protocols.

use std::{path::Path, sync::Arc};

use tokio_rustls::rustls::{
    self, CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
};

use crate::{Error, Options};

/// Returns the configuration for these options, without protocols (ALPN).
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

/// Returns the machine's authorities and those of a file.
fn roots(cacert: Option<&Path>) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    // A machine may hold unusable certificates beside usable ones.
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

/// Returns the reason why the certificate of `host` is rejected: one sentence with the remedy.
pub(crate) fn untrusted(host: &str, why: &CertificateError) -> String {
    use CertificateError::{
        BadSignature, Expired, ExpiredContext, NotValidForName, NotValidForNameContext,
        NotValidYet, NotValidYetContext, UnknownIssuer,
    };
    let why = match why {
        // An authority with the name of a trusted one looks the same in the error.
        UnknownIssuer | BadSignature => {
            "is not from a trusted authority: name its authority with a CA file \
                          (--cacert), or accept any certificate, for development (--insecure)"
                .to_owned()
        }
        Expired | ExpiredContext { .. } => {
            "has expired: renew it, or set the clock of this machine".to_owned()
        }
        NotValidYet | NotValidYetContext { .. } => {
            "is not valid yet: set the clocks of both machines".to_owned()
        }
        NotValidForName => format!("is not for {host}: connect with one of its names"),
        NotValidForNameContext { presented, .. } if presented.is_empty() => format!(
            "holds no names: make one with {host} as its subject's alternative name (openssl req \
             -addext subjectAltName=DNS:{host})"
        ),
        NotValidForNameContext { presented, .. } => {
            let names: Vec<&str> = presented.iter().map(|name| plain(name)).collect();
            format!("is for {} and not for {host}: connect with that name", names.join(", "))
        }
        // The verifier's own error, whose type is in no dependency of this crate.
        CertificateError::Other(error) if error.to_string().contains("CaUsedAsEndEntity") => {
            "is an authority's, and a server needs one of its own: make it with openssl req -x509 \
             -addext basicConstraints=critical,CA:FALSE, or accept any certificate, for \
             development (--insecure)"
                .to_owned()
        }
        why => format!("was not accepted ({why}): replace the server's certificate"),
    };
    format!("the certificate of {host} {why}")
}

/// Returns the name in `DnsName("a.example")`, the form of names in errors.
fn plain(name: &str) -> &str {
    let inside = name.split_once('(').and_then(|(_, inside)| inside.strip_suffix(')'));
    inside.unwrap_or(name).trim_matches('"')
}

/// A verifier that accepts any certificate, but makes the server prove that it holds the key.
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
