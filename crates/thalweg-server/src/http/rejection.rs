//! Rejects connections: sends the reason, in the shortest form of their protocol, and closes them.

use std::sync::Arc;

use rustls::ServerConfig;
use thalweg_wire::ErrorCode;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;

use super::{
    context::Http,
    preface::{PREFACE, begins_with_preface},
    respond,
};
use crate::{config::REJECTION_WAIT, refusal::Refusal};

/// An empty SETTINGS, which comes first (RFC 9113 §3.4).
const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];

/// The type, the flags and the stream of a GOAWAY, then the last stream served: none. Every request may therefore be
/// repeated (RFC 9113 §6.8).
const GOAWAY: [u8; 10] = [7, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// Bytes of a GOAWAY's payload before its text: the last stream, the reason.
const GOAWAY_FIXED_BYTES: usize = 8;

/// Reasons (RFC 9113 §7).
const NO_ERROR: u32 = 0;
const INADEQUATE_SECURITY: u32 = 12;

/// Sends a connection the reason for its rejection, over TLS if `tls` is given, and closes it.
pub(crate) async fn reject(
    socket: std::net::TcpStream,
    tls: Option<Arc<ServerConfig>>,
    refused: &Refusal,
) {
    let Ok(stream) = TcpStream::from_std(socket) else { return };
    let telling = async {
        match tls {
            None => {
                // A client that sends nothing gets an answer too.
                let begun = timeout(REJECTION_WAIT / 2, begins_with_preface(&stream)).await;
                let is_http2 = begun.unwrap_or(Ok(false)).ok()?;
                write_answer(stream, is_http2.then_some(NO_ERROR), refused).await
            }
            Some(tls) => {
                let stream = TlsAcceptor::from(tls).accept(stream).await.ok()?;
                let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                write_answer(stream, is_http2.then_some(NO_ERROR), refused).await
            }
        }
    };
    // The server does not wait longer.
    let _ = timeout(REJECTION_WAIT, telling).await;
}

/// Tells a client without TLS on a TLS port to use https.
pub(super) async fn point_to_https(http: &Http, stream: TcpStream) {
    let code = ErrorCode::BadParameter;
    http.shard.counts.count_refused(code);
    let message = "this port speaks HTTPS: use https:// instead of http://";
    reject_after_peek(stream, INADEQUATE_SECURITY, &Refusal::new(code, message)).await;
}

/// Refuses a client that has just begun a request, because the server drains.
pub(super) async fn refuse_draining(http: &Http, stream: TcpStream) {
    let refused = Refusal::draining();
    http.shard.counts.count_refused(refused.code);
    reject_after_peek(stream, NO_ERROR, &refused).await;
}

/// Sends the refusal to a client that has already sent something. Over HTTP/2 it has a reason code.
async fn reject_after_peek(stream: TcpStream, reason: u32, refused: &Refusal) {
    let mut first = [0; 3];
    let telling = async {
        stream.peek(&mut first).await.ok()?;
        let is_http2 = PREFACE.starts_with(&first);
        write_answer(stream, is_http2.then_some(reason), refused).await
    };
    let _ = timeout(REJECTION_WAIT, telling).await;
}

/// Tries to tell a client that its head did not arrive in time, with a single write: the client may not be reading.
pub(super) async fn refuse_slow(http: &Http, mut stream: impl AsyncWrite + Unpin) {
    let code = ErrorCode::SlowRequest;
    http.shard.counts.count_refused(code);
    let message = "the request's header did not arrive in time: send it without pauses";
    let answer = respond::bare(&Refusal::new(code, message));
    let _ = stream.write(&answer).await;
}

async fn write_answer(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    http2_reason: Option<u32>,
    refused: &Refusal,
) -> Option<()> {
    let answer = match http2_reason {
        None => respond::bare(refused),
        Some(reason) => goaway(reason, &refused.message),
    };
    stream.write_all(&answer).await.ok()?;
    stream.shutdown().await.ok()?;
    // Reads what the client still sends: otherwise closing would reset the connection, and the answer would be lost.
    let mut buffer = [0; 1024];
    while stream.read(&mut buffer).await.ok()? > 0 {}
    Some(())
}

fn goaway(reason: u32, message: &str) -> Vec<u8> {
    let length = ((GOAWAY_FIXED_BYTES + message.len()) as u32).to_be_bytes();
    [&SETTINGS, &length[1..], &GOAWAY, &reason.to_be_bytes(), message.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goaway_has_settings_and_one_frame_with_the_reason() {
        let bytes = goaway(INADEQUATE_SECURITY, "gone");
        let (settings, goaway) = bytes.split_at(9);
        assert_eq!(settings, [0, 0, 0, 4, 0, 0, 0, 0, 0]);
        assert_eq!(goaway[..9], [0, 0, 12, 7, 0, 0, 0, 0, 0]);
        assert_eq!(goaway[9..17], [0, 0, 0, 0, 0, 0, 0, 12]);
        assert_eq!(&goaway[17..], b"gone");
    }
}
