//! A connection to the server for requests.

use std::{convert::Infallible, io, sync::Arc};

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::{
    Request, Response,
    body::Incoming,
    client::conn::{http1, http2},
    header::{HOST, HeaderValue},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::{
    TlsConnector,
    rustls::{self, ClientConfig, pki_types::ServerName},
};

use crate::{Error, Http, limits::CONNECT_WAIT, target::Server, tls};

pub(crate) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// A connection. It lives as long as this handle and its answers.
#[derive(Debug)]
pub(crate) enum Link {
    Http1(http1::SendRequest<Body>),
    Http2(http2::SendRequest<Body>),
}

impl Link {
    /// Connects. An https server needs `tls`.
    pub(crate) async fn open(
        server: &Server,
        tls: Option<&ClientConfig>,
        http: Http,
    ) -> Result<Self, Error> {
        let opening = Self::open_unhurried(server, tls, http);
        timeout(CONNECT_WAIT, opening).await.unwrap_or_else(|_| {
            Err(Error::connection(&server.authority, "no connection within ten seconds"))
        })
    }

    async fn open_unhurried(
        server: &Server,
        tls: Option<&ClientConfig>,
        http: Http,
    ) -> Result<Self, Error> {
        let failed = |error: io::Error| Error::connection(&server.authority, error);
        let socket = TcpStream::connect((&*server.host, server.port)).await.map_err(failed)?;
        // Commands and acks are small, and the caller waits for each.
        socket.set_nodelay(true).map_err(failed)?;
        let Some(tls) = tls else {
            return Self::shake_hands(socket, http == Http::Http2).await;
        };
        let mut tls = tls.clone();
        let offers: &[&[u8]] = match http {
            Http::Negotiated => &[b"h2", b"http/1.1"],
            Http::Http1 => &[b"http/1.1"],
            Http::Http2 => &[b"h2"],
        };
        tls.alpn_protocols = offers.iter().map(|offer| offer.to_vec()).collect();
        let name = ServerName::try_from(server.host.clone())
            .map_err(|error| Error::connection(&server.authority, error))?;
        let socket = TlsConnector::from(Arc::new(tls))
            .connect(name, socket)
            .await
            .map_err(|error| tls_error(server, &error))?;
        let is_http2 = socket.get_ref().1.alpn_protocol() == Some(b"h2");
        if http == Http::Http2 && !is_http2 {
            return Err(Error::InvalidAnswer(format!(
                "{} does not support HTTP/2",
                server.authority
            )));
        }
        Self::shake_hands(socket, is_http2).await
    }

    async fn shake_hands<S>(socket: S, is_http2: bool) -> Result<Self, Error>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let failed = |error: hyper::Error| Error::connection("no HTTP connection", error);
        let io = TokioIo::new(socket);
        // The requests report the end of a connection, so the task need not.
        if is_http2 {
            let executor = TokioExecutor::new();
            let (sender, connection) = http2::handshake(executor, io).await.map_err(failed)?;
            tokio::spawn(connection);
            Ok(Self::Http2(sender))
        } else {
            let (sender, connection) = http1::handshake(io).await.map_err(failed)?;
            tokio::spawn(connection.with_upgrades());
            Ok(Self::Http1(sender))
        }
    }

    /// Sends a request, whose URI is a path; returns the head of its answer.
    pub(crate) async fn send(
        &mut self,
        server: &Server,
        mut request: Request<Body>,
    ) -> Result<Response<Incoming>, Error> {
        let answer = match self {
            Self::Http1(sender) => {
                let host = HeaderValue::from_str(&server.authority);
                request.headers_mut().insert(HOST, host.map_err(|_| unsayable(server))?);
                sender.ready().await.map_err(|error| cut(&error))?;
                sender.send_request(request).await
            }
            Self::Http2(sender) => {
                let scheme = if server.is_tls { "https" } else { "http" };
                let uri = format!("{scheme}://{}{}", server.authority, request.uri());
                *request.uri_mut() = uri.parse().map_err(|_| unsayable(server))?;
                sender.ready().await.map_err(|error| cut(&error))?;
                sender.send_request(request).await
            }
        };
        answer.map_err(|error| cut(&error))
    }

    pub(crate) fn is_open(&self) -> bool {
        match self {
            Self::Http1(sender) => !sender.is_closed(),
            Self::Http2(sender) => !sender.is_closed(),
        }
    }
}

fn unsayable(server: &Server) -> Error {
    Error::Url {
        url: server.authority.clone(),
        why: "it has characters that a request cannot contain".to_owned(),
    }
}

/// Returns the error of a connection that ended before its answer did.
pub(crate) fn cut(error: &hyper::Error) -> Error {
    let h2 = std::error::Error::source(error).and_then(|error| error.downcast_ref::<h2::Error>());
    if h2.is_some_and(|error| error.reason() == Some(h2::Reason::INADEQUATE_SECURITY)) {
        let message = "the server needs TLS: use https:// instead of http://";
        return Error::Tls(message.to_owned());
    }
    let cause = std::error::Error::source(error).map(ToString::to_string);
    Error::connection("the connection was cut", cause.unwrap_or_else(|| error.to_string()))
}

/// Returns the error of a failed handshake. A retry does not help if the certificate is untrusted.
fn tls_error(server: &Server, error: &io::Error) -> Error {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(why)) => {
            Error::Untrusted(tls::untrusted(&server.host, why))
        }
        Some(rustls::Error::InvalidMessage(_)) => Error::Tls(format!(
            "{} does not speak TLS: write http:// in place of https://",
            server.authority
        )),
        Some(rustls::Error::PeerIncompatible(why)) => Error::Tls(format!(
            "{} supports neither TLS 1.2 nor TLS 1.3 ({why:?}): enable one of them in the \
             server",
            server.authority
        )),
        _ => Error::connection(&server.authority, error),
    }
}
