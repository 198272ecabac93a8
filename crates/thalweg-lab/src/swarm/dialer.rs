//! Dials a server: its addresses, and which certificates to trust.

use super::link::Link;
use super::socket;
use crate::scenario::{Endpoint, Settings};
use crate::subject::tls::{self, AnyCertificate, HTTP_1};
use anyhow::{Context, anyhow, bail};
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;

/// Limit of concurrent handshakes: below the listen backlog of all subjects of the lab.
const OPENING_MAX: usize = 256;
/// The same for a server that somebody else runs: below the listen backlog of most servers (100 with asyncio, 128 with many others).
/// Beyond the backlog the kernel drops connections and tries again after a second, which would count as the endpoint's set-up time.
const OPENING_EXTERNAL_MAX: usize = 64;
/// A TLS handshake is work for both sides: this many do not wait for each other.
const OPENING_TLS_MAX: usize = 32;

/// Returns the addresses of an endpoint's host, in the order in which they are tried. Fails if there are none.
pub fn addresses(endpoint: &Endpoint) -> anyhow::Result<Vec<SocketAddr>> {
    let (host, port) = (endpoint.url.host(), endpoint.url.port());
    let found = (host, port).to_socket_addrs().map(Vec::from_iter).unwrap_or_default();
    if found.is_empty() {
        bail!("no address is known for {host}: check the name in the URL");
    }
    Ok(found)
}

/// Receive buffer of a connection to an endpoint that reads slowly. With the kernel's own buffer of some MiB, the endpoint
/// would not notice for a long time.
const SLOW_BUFFER_BYTES: u32 = 16 * 1024;

#[derive(Clone, Debug)]
pub(super) struct Dialer {
    addresses: Vec<SocketAddr>,
    /// Index of the address that is tried, or was found to answer.
    current: usize,
    /// Whether the current address is known to answer.
    is_reached: bool,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    receive_buffer_bytes: u32,
    opening_max: usize,
}

impl Dialer {
    /// Returns a dialer for a subject, with a sample's settings. `protocol` is spoken inside TLS.
    pub(super) fn to_subject(
        address: SocketAddr,
        settings: &Settings,
        protocol: &str,
    ) -> anyhow::Result<Dialer> {
        let tls = settings.tls.then(|| tls::client_config(protocol)).transpose();
        let tls = tls.context("TLS cannot be set up")?.map(|config| (config, tls::server_name()));
        Ok(Dialer {
            addresses: vec![address],
            current: 0,
            is_reached: true,
            opening_max: if tls.is_some() { OPENING_TLS_MAX } else { OPENING_MAX },
            tls,
            receive_buffer_bytes: settings.receive_buffer_bytes,
        })
    }

    pub(super) fn to_endpoint(endpoint: &Endpoint) -> anyhow::Result<Dialer> {
        let host = endpoint.url.host();
        let tls = if endpoint.url.is_tls() {
            let name = ServerName::try_from(host.to_owned())
                .map_err(|_| anyhow!("{host} cannot be the name in a certificate"))?;
            Some((Arc::new(config(endpoint)?), name))
        } else {
            None
        };
        Ok(Dialer {
            addresses: addresses(endpoint)?,
            current: 0,
            is_reached: false,
            opening_max: if tls.is_some() { OPENING_TLS_MAX } else { OPENING_EXTERNAL_MAX },
            tls,
            receive_buffer_bytes: 0,
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.addresses[self.current]
    }

    pub(super) fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Returns how many connections may be opened at once: only one until an address is known to answer.
    pub(super) fn opening_max(&self) -> usize {
        if self.is_reached { self.opening_max } else { 1 }
    }

    /// Opens all due connections at once from now on.
    pub(super) fn open_all_at_once(&mut self) {
        self.opening_max = usize::MAX;
    }

    /// Notes that a connection has reached the server; returns whether it is the first.
    pub(super) fn reach(&mut self) -> bool {
        !std::mem::replace(&mut self.is_reached, true)
    }

    pub(super) fn is_reached(&self) -> bool {
        self.is_reached
    }

    /// Leaves an address without a server; returns whether there is another one to try.
    pub(super) fn turn_to_next(&mut self) -> bool {
        let has_next = self.current + 1 < self.addresses.len();
        self.current += usize::from(has_next);
        has_next
    }

    /// Dials a connection; one that `is_slow` gets a small receive buffer.
    pub(super) fn dial(&self, index: usize, is_slow: bool) -> io::Result<Link> {
        let buffer_bytes = if is_slow { SLOW_BUFFER_BYTES } else { self.receive_buffer_bytes };
        let socket = socket::dial(self.address(), index, buffer_bytes)?;
        let session = match &self.tls {
            Some((config, name)) => {
                let session = ClientConnection::new(Arc::clone(config), name.clone());
                Some(session.map_err(io::Error::other)?)
            }
            None => None,
        };
        Ok(Link::over(socket, session))
    }

    #[cfg(test)]
    pub(super) fn redirect(&mut self, addresses: Vec<SocketAddr>) {
        self.addresses = addresses;
    }
}

/// Returns the cause of an error inside TLS, with the remedy; `None` for other errors.
pub(super) fn tls_error(error: &io::Error) -> Option<String> {
    let cause = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>())?;
    Some(match cause {
        rustls::Error::InvalidCertificate(_) => {
            format!(
                "{error}; name its authority with --cacert, or accept any certificate with --insecure"
            )
        }
        rustls::Error::InvalidMessage(_) => {
            format!("{error}; if there is no TLS, write the URL with ws:// or http://")
        }
        _ => error.to_string(),
    })
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
    // Every connection has a full handshake.
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// Returns the machine's certificate authorities, and those of a file.
fn roots(cacert: Option<&Path>) -> anyhow::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    // A machine may have invalid certificates; the others remain usable.
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
             --cacert, or accept any certificate with --insecure"
        );
    }
    Ok(roots)
}
