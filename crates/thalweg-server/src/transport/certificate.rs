use std::{
    path::Path,
    sync::{Arc, PoisonError, RwLock},
};

use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

use crate::config::Tls;

/// The certificate and key of TLS. They can be loaded again while the server runs.
#[derive(Debug, Clone)]
pub(crate) struct Certificate {
    from: Tls,
    current: Arc<RwLock<Arc<ServerConfig>>>,
}

/// The names in a development certificate.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

impl Certificate {
    /// Loads the certificate, or creates it. The error is one sentence with the file and the problem.
    pub(crate) fn load(from: &Tls) -> Result<Self, String> {
        let current = Arc::new(RwLock::new(server_config(from)?));
        Ok(Self { from: from.clone(), current })
    }

    /// Loads the files again. Existing connections keep the old ones. Fails like [`Self::load`]; the old ones stay in use.
    pub(crate) fn reload(&self) -> Result<(), String> {
        if self.from == Tls::SelfSigned {
            // Each browser would have to accept a new one again.
            return Ok(());
        }
        let loaded = server_config(&self.from)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = loaded;
        Ok(())
    }

    /// Returns the configuration for new connections.
    pub(crate) fn current(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }
}

fn server_config(from: &Tls) -> Result<Arc<ServerConfig>, String> {
    let (chain, key) = match from {
        Tls::Files { cert, key } => (read_chain(cert)?, read_key(key)?),
        Tls::SelfSigned => self_signed()?,
    };
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be set up: {error}"))?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| format!("the certificate and the key cannot be used together: {error}"))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let wrong = |error| {
        format!("{}: {error}: a PEM file with the certificate chain is needed", path.display())
    };
    let chain = CertificateDer::pem_file_iter(path).map_err(wrong)?;
    let chain = chain.collect::<Result<Vec<_>, _>>().map_err(wrong)?;
    if chain.is_empty() {
        return Err(format!("{}: there is no certificate in it", path.display()));
    }
    Ok(chain)
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_file(path)
        .map_err(|error| format!("{}: {error}: a PEM file with the key is needed", path.display()))
}

fn self_signed() -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), String> {
    let names = LOOPBACK.map(str::to_owned).to_vec();
    let made = rcgen::generate_simple_self_signed(names)
        .map_err(|error| format!("no certificate could be made: {error}"))?;
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    Ok((vec![made.cert.into()], key))
}
