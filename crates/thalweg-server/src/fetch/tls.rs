//! Trusted certificates: the machine's authorities.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore, crypto::ring};

/// Returns the configuration for https upstreams. Fails when this machine has no authorities.
pub(super) fn config() -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    // A machine may hold unusable certificates beside usable ones.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        let remedy = "install ca-certificates, or name a file of them with SSL_CERT_FILE";
        return Err(format!(
            "an upstream uses https, and this machine has no certificate authorities: {remedy}"
        ));
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
