//! How to get to an endpoint: its addresses, and whom to trust there.

use crate::scenario::Endpoint;
use crate::subject::dialect::HTTP_1;
use crate::subject::tls::AnyCertificate;
use crate::swarm::link::Link;
use crate::swarm::socket;
use anyhow::{Context, anyhow, bail};
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;

/// The addresses of an endpoint's host, in the order in which they are tried.
pub fn addresses(endpoint: &Endpoint) -> anyhow::Result<Vec<SocketAddr>> {
    let (host, port) = (endpoint.url.host(), endpoint.url.port());
    let found = (host, port).to_socket_addrs().map(Vec::from_iter).unwrap_or_default();
    if found.is_empty() {
        bail!("no address is known for {host}: check the name in the URL");
    }
    Ok(found)
}

/// The way to an endpoint.
#[derive(Debug)]
pub(super) struct Resolver {
    pub(super) addresses: Vec<SocketAddr>,
    /// The one that is tried, or was found to answer.
    current: usize,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

impl Resolver {
    pub(super) fn new(endpoint: &Endpoint) -> anyhow::Result<Resolver> {
        let host = endpoint.url.host();
        let tls = if endpoint.url.is_tls() {
            let name = ServerName::try_from(host.to_owned())
                .map_err(|_| anyhow!("{host} is no name that a certificate could have"))?;
            Some((Arc::new(config(endpoint)?), name))
        } else {
            None
        };
        Ok(Resolver { addresses: addresses(endpoint)?, current: 0, tls })
    }

    pub(super) fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.addresses[self.current]
    }

    /// Nobody is at the current address: whether there is another to be tried.
    pub(super) fn turn_to_next(&mut self) -> bool {
        let has_next = self.current + 1 < self.addresses.len();
        self.current += usize::from(has_next);
        has_next
    }

    /// Begins a connection. The `index` picks the source address.
    pub(super) fn dial(&self, index: usize) -> anyhow::Result<Link> {
        let socket = socket::dial(self.address(), index, 0)?;
        let session = match &self.tls {
            Some((config, name)) => Some(ClientConnection::new(Arc::clone(config), name.clone())?),
            None => None,
        };
        Ok(Link::over(socket, session))
    }
}

fn config(endpoint: &Endpoint) -> anyhow::Result<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .context("TLS cannot be set up")?;
    let mut config = if endpoint.insecure {
        let anyone = Arc::new(AnyCertificate::new(provider));
        builder.dangerous().with_custom_certificate_verifier(anyone).with_no_client_auth()
    } else {
        let roots = roots(endpoint.cacert.as_deref())?;
        builder.with_root_certificates(roots).with_no_client_auth()
    };
    config.alpn_protocols = vec![HTTP_1.as_bytes().to_vec()];
    // Every connection pays for a handshake of its own.
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// The machine's authorities, and those of a file.
fn roots(cacert: Option<&Path>) -> anyhow::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    // A machine may hold certificates that are of no use: the others still are.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(path) = cacert {
        let certificates: Result<Vec<_>, _> =
            CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
        let certificates = certificates
            .with_context(|| format!("--cacert {}: no PEM file of certificates", path.display()))?;
        if certificates.is_empty() {
            bail!("--cacert {}: it holds no certificate; name a PEM file", path.display());
        }
        for certificate in certificates {
            roots.add(certificate).with_context(|| {
                format!("--cacert {}: not the certificate of an authority", path.display())
            })?;
        }
    }
    if roots.is_empty() {
        bail!(
            "this machine has no certificate authorities: install ca-certificates, name one with \
             --cacert, or trust anyone with --insecure"
        );
    }
    Ok(roots)
}
