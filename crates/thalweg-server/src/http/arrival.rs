//! A new socket: detects its client's HTTP version, with or without TLS.

use std::{future::Future, io, mem::MaybeUninit, rc::Rc, sync::Arc};

use rustls::ServerConfig;
use socket2::SockRef;
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use super::{
    context::Http,
    http1, http2,
    preface::begins_with_preface,
    rejection::{point_to_https, refuse_draining, refuse_slow},
};
use crate::shard::Arrival;

/// Serves one socket until it ends or is taken over for a subscriber.
pub(crate) async fn serve_connection(http: Rc<Http>, arrival: Arrival) {
    let Arrival { socket, permit, open: _open } = arrival;
    let _serving = http.shard.serve();
    let Ok(stream) = TcpStream::from_std(socket) else { return };
    let Some(tls) = http.shared.tls.as_ref().filter(|_| !permit.is_admin()) else {
        match first_bytes(&http, begins_with_preface(&stream)).await {
            FirstBytes::InTime(Ok(true)) => http2::serve(&http, stream, permit).await,
            FirstBytes::InTime(Ok(false)) => http1::serve(&http, stream, permit).await,
            FirstBytes::Late if has_begun(&stream) => {
                refuse_slow(&http, stream).await;
            }
            FirstBytes::Draining if has_begun(&stream) => refuse_draining(&http, stream).await,
            // The client has sent no byte: browsers connect in advance.
            FirstBytes::InTime(Err(_)) | FirstBytes::Late | FirstBytes::Draining => {}
        }
        return;
    };
    match first_bytes(&http, begin_tls(stream, tls.current())).await {
        FirstBytes::InTime(Ok(Spoken::Tls(stream))) => {
            if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
                http2::serve(&http, *stream, permit).await;
            } else {
                http1::serve(&http, *stream, permit).await;
            }
        }
        FirstBytes::InTime(Ok(Spoken::Clear(stream))) => {
            http.shard.counts.tls_failures.add(1);
            point_to_https(&http, stream).await;
        }
        FirstBytes::InTime(Err(_)) | FirstBytes::Late => http.shard.counts.tls_failures.add(1),
        FirstBytes::Draining => {}
    }
}

/// The first bytes of a client on a TLS port.
enum Spoken {
    Tls(Box<TlsStream<TcpStream>>),
    /// An HTTP method instead of a TLS record.
    Clear(TcpStream),
}

async fn begin_tls(stream: TcpStream, tls: Arc<ServerConfig>) -> io::Result<Spoken> {
    let mut first = [0];
    // No record begins with a letter (RFC 8446 §5.1).
    if stream.peek(&mut first).await? > 0 && first[0].is_ascii_uppercase() {
        return Ok(Spoken::Clear(stream));
    }
    let stream = TlsAcceptor::from(tls).accept(stream).await?;
    Ok(Spoken::Tls(Box::new(stream)))
}

/// The result of waiting for the first bytes of a connection.
enum FirstBytes<T> {
    InTime(T),
    Late,
    /// The server drains, and does not wait for the first bytes.
    Draining,
}

async fn first_bytes<T>(http: &Http, begin: impl Future<Output = T>) -> FirstBytes<T> {
    let drain = http.shard.drain();
    if http.shard.is_draining() {
        return FirstBytes::Draining;
    }
    tokio::select! {
        first = timeout(http.limits().header_timeout, begin) => {
            first.map_or(FirstBytes::Late, FirstBytes::InTime)
        }
        () = drain => FirstBytes::Draining,
    }
}

/// Returns whether unread bytes have arrived.
fn has_begun(stream: &TcpStream) -> bool {
    let mut first = [MaybeUninit::uninit()];
    SockRef::from(stream).peek(&mut first).is_ok_and(|bytes| bytes > 0)
}
