//! A host of an upstream: its connections, which are kept while they are in use.

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

/// A connection that requests can be sent on, one after the other.
type Connection = SendRequest<Empty<Bytes>>;

/// Where requests of one upstream go, and nowhere else.
pub(super) struct Host {
    name: String,
    port: u16,
    tls: Option<Arc<ClientConfig>>,
    /// Connections without a request, and since when, in µs. Never more than fetches at a time.
    idle: RefCell<Vec<(Connection, u64)>>,
}

/// Why there is no response.
#[derive(Debug)]
pub(super) enum HostError {
    /// There is no connection.
    Connect(io::Error),
    /// The connection ended, or what came is not HTTP.
    Http(hyper::Error),
}

impl Host {
    /// `tls` is for https.
    pub(super) fn new(url: &UpstreamUrl, tls: Option<Arc<ClientConfig>>) -> Self {
        let tls = tls.filter(|_| url.is_tls);
        Self { name: plain_name(url), port: url.port, tls, idle: RefCell::default() }
    }

    /// Whether it is the one that a URL names.
    pub(super) fn is_of(&self, url: &UpstreamUrl) -> bool {
        let Self { name, port, tls, .. } = self;
        tls.is_some() == url.is_tls && *port == url.port && *name == plain_name(url)
    }

    /// Sends a request. The connection comes back with the head of its response: whoever has read
    /// the whole body returns it with [`Self::keep`].
    ///
    /// # Errors
    /// When there is no response.
    pub(super) async fn send(
        &self,
        request: &Request<()>,
        now_us: u64,
    ) -> Result<(Response<Incoming>, Connection), HostError> {
        if let Some(mut connection) = self.take_idle(now_us) {
            // Its host may have closed it just now: then a new one is tried, once.
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
    pub(super) fn keep(&self, connection: Connection, now_us: u64) {
        self.idle.borrow_mut().push((connection, now_us));
    }

    /// Ends connections that were not used for long.
    pub(super) fn sweep(&self, now_us: u64) {
        self.idle.borrow_mut().retain(|(connection, since_us)| {
            !connection.is_closed() && !is_stale(*since_us, now_us)
        });
    }

    /// The one that was used last: the others may then be given up.
    fn take_idle(&self, now_us: u64) -> Option<Connection> {
        loop {
            let (connection, since_us) = self.idle.borrow_mut().pop()?;
            if !connection.is_closed() && !is_stale(since_us, now_us) {
                return Some(connection);
            }
        }
    }

    async fn connect(&self) -> Result<Connection, HostError> {
        let socket = TcpStream::connect((&*self.name, self.port)).await;
        let socket = socket.map_err(HostError::Connect)?;
        // A request is small and waited for.
        let _ = socket.set_nodelay(true);
        let Some(tls) = &self.tls else { return shake_hands(socket).await };
        let name = ServerName::try_from(self.name.clone());
        let name = name.map_err(|error| HostError::Connect(io::Error::other(error)))?;
        let connector = TlsConnector::from(Arc::clone(tls));
        shake_hands(connector.connect(name, socket).await.map_err(HostError::Connect)?).await
    }
}

async fn shake_hands<S>(socket: S) -> Result<Connection, HostError>
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let mut http = http1::Builder::new();
    http.max_buf_size(UPSTREAM_BUFFER_BYTES);
    let (sender, connection) =
        http.handshake(TokioIo::new(socket)).await.map_err(HostError::Http)?;
    // The request learns how the connection ended.
    drop(spawn_local(connection));
    Ok(sender)
}

/// An IPv6 address without its brackets.
fn plain_name(url: &UpstreamUrl) -> String {
    url.host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase()
}

fn without_body(request: &Request<()>) -> Request<Empty<Bytes>> {
    request.clone().map(|()| Empty::new())
}

fn is_stale(since_us: u64, now_us: u64) -> bool {
    Duration::from_micros(now_us.saturating_sub(since_us)) > UPSTREAM_IDLE
}
