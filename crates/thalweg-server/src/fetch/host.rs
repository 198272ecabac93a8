//! A host of an upstream, with its kept connections.

use std::{cell::RefCell, io, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Empty;
use hyper::{
    body::Incoming,
    client::conn::http1::{self, SendRequest},
};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    task::spawn_local,
};
use tokio_rustls::TlsConnector;

use crate::config::{UPSTREAM_BUFFER_BYTES, UPSTREAM_IDLE, UpstreamUrl};

/// A connection for requests, one after the other.
type UpstreamConnection = SendRequest<Empty<Bytes>>;

/// The only destination of an upstream's requests.
pub(super) struct UpstreamHost {
    name: String,
    port: u16,
    tls: Option<Arc<ClientConfig>>,
    /// Idle connections, and since when, in µs. At most as many as fetches in flight.
    idle: RefCell<Vec<(UpstreamConnection, u64)>>,
}

#[derive(Debug)]
pub(super) enum HostError {
    Connect(io::Error),
    /// The connection ended, or its bytes are not HTTP.
    Http(hyper::Error),
}

impl UpstreamHost {
    /// Returns the host of a URL. `tls` is only used for https.
    pub(super) fn new(url: &UpstreamUrl, tls: Option<Arc<ClientConfig>>) -> Self {
        let tls = tls.filter(|_| url.is_tls);
        Self { name: plain_name(url), port: url.port, tls, idle: RefCell::default() }
    }

    pub(super) fn is_of(&self, url: &UpstreamUrl) -> bool {
        let Self { name, port, tls, .. } = self;
        tls.is_some() == url.is_tls && *port == url.port && *name == plain_name(url)
    }

    /// Sends a request. Returns the head of its response, and the connection, which the caller passes to [`Self::keep`] after
    /// the body. Fails if there is no response.
    pub(super) async fn send(
        &self,
        request: &Request<()>,
        now_us: u64,
    ) -> Result<(Response<Incoming>, UpstreamConnection), HostError> {
        if let Some(mut connection) = self.take_idle(now_us) {
            // The host may just have closed it: then a new connection is tried, once.
            if connection.ready().await.is_ok()
                && let Ok(response) = connection.send_request(without_body(request)).await
            {
                return Ok((response, connection));
            }
        }
        let mut connection = self.connect().await?;
        let response = connection.send_request(without_body(request)).await;
        Ok((response.map_err(HostError::Http)?, connection))
    }

    /// Keeps a connection for the next request.
    pub(super) fn keep(&self, connection: UpstreamConnection, now_us: u64) {
        self.idle.borrow_mut().push((connection, now_us));
    }

    /// Closes idle connections.
    pub(super) fn sweep(&self, now_us: u64) {
        self.idle.borrow_mut().retain(|(connection, since_us)| {
            !connection.is_closed() && !is_stale(*since_us, now_us)
        });
    }

    /// Returns the last used connection, so that the others can expire.
    fn take_idle(&self, now_us: u64) -> Option<UpstreamConnection> {
        loop {
            let (connection, since_us) = self.idle.borrow_mut().pop()?;
            if !connection.is_closed() && !is_stale(since_us, now_us) {
                return Some(connection);
            }
        }
    }

    async fn connect(&self) -> Result<UpstreamConnection, HostError> {
        let socket = TcpStream::connect((&*self.name, self.port)).await;
        let socket = socket.map_err(HostError::Connect)?;
        // A request is small, and urgent.
        let _ = socket.set_nodelay(true);
        let Some(tls) = &self.tls else { return shake_hands(socket).await };
        let name = ServerName::try_from(self.name.clone());
        let name = name.map_err(|error| HostError::Connect(io::Error::other(error)))?;
        let connector = TlsConnector::from(Arc::clone(tls));
        shake_hands(connector.connect(name, socket).await.map_err(HostError::Connect)?).await
    }
}

async fn shake_hands<S>(socket: S) -> Result<UpstreamConnection, HostError>
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let mut http = http1::Builder::new();
    http.max_buf_size(UPSTREAM_BUFFER_BYTES);
    let (sender, connection) =
        http.handshake(TokioIo::new(socket)).await.map_err(HostError::Http)?;
    // The request reports how the connection ended.
    drop(spawn_local(connection));
    Ok(sender)
}

/// Returns an IPv6 address without its brackets.
fn plain_name(url: &UpstreamUrl) -> String {
    url.host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase()
}

fn without_body(request: &Request<()>) -> Request<Empty<Bytes>> {
    request.clone().map(|()| Empty::new())
}

fn is_stale(since_us: u64, now_us: u64) -> bool {
    Duration::from_micros(now_us.saturating_sub(since_us)) > UPSTREAM_IDLE
}
