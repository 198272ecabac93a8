//! Compares three decoders on the same bytes: this crate's, tungstenite's and tokio-websockets'.
//!
//! This module corrects the two oracles where they differ from RFC 6455. The properties can then demand the same of all three:
//!
//! - tungstenite answers a forbidden close code by turning the close into one of 1002; that is a refusal. It has no 1014
//!   (registered with IANA).
//! - tungstenite accepts a padded length, which §5.2 forbids: see [`agree`].
//! - tokio-websockets does not notice a text whose last fragment is empty and whose last character is incomplete (§8.1).

use std::io::{self, Cursor, Read, Write};

use futures_util::{FutureExt, StreamExt};
use proptest::test_runner::TestCaseError;
use thalweg_wire::websocket::{Decoder, Message, ProtocolError};
use tungstenite::protocol::{Role, WebSocket, WebSocketConfig};

/// The longest message that any of the three decoders accepts.
pub(super) const LIMIT: u32 = 70_000;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Said {
    Text(String),
    Binary(Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(Option<u16>, String),
}

/// All messages until the end of the input, a close or a refusal.
#[derive(Debug, PartialEq)]
pub(super) struct Received<E> {
    pub(super) messages: Vec<Said>,
    pub(super) refusal: Option<E>,
}

/// Decodes `input` with this crate's decoder, in pieces of these lengths (repeated; 0 is an empty piece).
pub(super) fn ours(input: &[u8], piece_lens: &[usize]) -> Received<ProtocolError> {
    let mut decoder = Decoder::new(LIMIT);
    let mut messages = Vec::new();
    let mut rest = input;
    let mut refusal = None;
    for piece_len in piece_lens.iter().chain([&usize::MAX]).cycle() {
        let (piece, after) = rest.split_at(rest.len().min(*piece_len));
        rest = after;
        refusal = decoder.push(piece, &mut |said| messages.push(owned(said))).err();
        if refusal.is_some() || rest.is_empty() {
            break;
        }
    }
    Received { messages, refusal }
}

fn owned(message: Message<'_>) -> Said {
    match message {
        Message::Text(text) => Said::Text(text.to_owned()),
        Message::Binary(bytes) => Said::Binary(bytes.to_owned()),
        Message::Ping(bytes) => Said::Ping(bytes.to_owned()),
        Message::Pong(bytes) => Said::Pong(bytes.to_owned()),
        Message::Close { code, reason } => Said::Close(code, reason.to_owned()),
    }
}

/// Decodes `input` with tungstenite as `role`; returns the close code of its refusal.
pub(super) fn tungstenite(input: &[u8], role: Role) -> Received<u16> {
    let config = WebSocketConfig::default()
        .read_buffer_size(4096)
        .max_message_size(Some(LIMIT as usize))
        .max_frame_size(Some(LIMIT as usize));
    let mut socket = WebSocket::from_raw_socket(Pipe(Cursor::new(input)), role, Some(config));
    let mut messages = Vec::new();
    let refusal = loop {
        messages.push(match socket.read() {
            Ok(tungstenite::Message::Text(text)) => Said::Text(text.to_string()),
            Ok(tungstenite::Message::Binary(bytes)) => Said::Binary(bytes.into()),
            Ok(tungstenite::Message::Ping(bytes)) => Said::Ping(bytes.into()),
            Ok(tungstenite::Message::Pong(bytes)) => Said::Pong(bytes.into()),
            Ok(tungstenite::Message::Close(None)) => Said::Close(None, String::new()),
            Ok(tungstenite::Message::Close(Some(close))) => {
                let (code, reason) = (close.code.into(), close.reason.to_string());
                if (code, reason.as_str()) == (1002, "Protocol violation") {
                    break Some(1002);
                }
                Said::Close(Some(code), reason)
            }
            Ok(tungstenite::Message::Frame(frame)) => unreachable!("{frame:?} was read"),
            Err(error) => break tungstenite_close_code(&error),
        });
    };
    Received { messages, refusal }
}

fn tungstenite_close_code(error: &tungstenite::Error) -> Option<u16> {
    use tungstenite::error::ProtocolError::ResetWithoutClosingHandshake;
    match error {
        tungstenite::Error::ConnectionClosed
        | tungstenite::Error::Protocol(ResetWithoutClosingHandshake) => None,
        tungstenite::Error::Protocol(_) => Some(1002),
        tungstenite::Error::Utf8(_) => Some(1007),
        tungstenite::Error::Capacity(_) => Some(1009),
        other => panic!("tungstenite: {other}"),
    }
}

/// Input for tungstenite, whose answers are discarded.
struct Pipe<'a>(Cursor<&'a [u8]>);

impl Read for Pipe<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Pipe<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Decodes `input` with tokio-websockets as `role`; returns the close code of its refusal.
pub(super) fn tokio_websockets(input: &[u8], role: Role) -> Received<u16> {
    let stream = tokio::io::join(input, tokio::io::sink());
    let limits = tokio_websockets::Limits::default().max_payload_len(Some(LIMIT as usize));
    let mut socket = match role {
        Role::Server => tokio_websockets::ServerBuilder::new().limits(limits).serve(stream),
        Role::Client => tokio_websockets::ClientBuilder::new().limits(limits).take_over(stream),
    };
    let mut messages = Vec::new();
    let refusal = loop {
        // Neither end of the stream ever waits.
        match socket.next().now_or_never() {
            Some(Some(Ok(message))) => match owned_by_tokio(message) {
                Some(said) => messages.push(said),
                None => break Some(1007),
            },
            Some(Some(Err(error))) => break tokio_close_code(&error),
            Some(None) | None => break None,
        }
    };
    Received { messages, refusal }
}

/// `None` for a text that is not UTF-8.
fn owned_by_tokio(message: tokio_websockets::Message) -> Option<Said> {
    let close = message.as_close().map(|(code, reason)| (u16::from(code), reason.to_owned()));
    let (is_text, is_ping, is_pong) = (message.is_text(), message.is_ping(), message.is_pong());
    let payload = message.into_payload().to_vec();
    Some(match close {
        Some(_) if payload.is_empty() => Said::Close(None, String::new()),
        Some((code, reason)) => Said::Close(Some(code), reason),
        None if is_text => Said::Text(String::from_utf8(payload).ok()?),
        None if is_ping => Said::Ping(payload),
        None if is_pong => Said::Pong(payload),
        None => Said::Binary(payload),
    })
}

fn tokio_close_code(error: &tokio_websockets::Error) -> Option<u16> {
    use tokio_websockets::{Error, proto::ProtocolError::InvalidUtf8};
    match error {
        // The input ends inside a frame.
        Error::Io(_) => None,
        Error::Protocol(InvalidUtf8) => Some(1007),
        Error::Protocol(_) => Some(1002),
        Error::PayloadTooLong { .. } => Some(1009),
        other => panic!("tokio-websockets: {other}"),
    }
}

/// Checks that the oracles decode the same messages.
pub(super) fn agree(input: &[u8]) -> Result<(), TestCaseError> {
    let ours = ours(input, &[]);
    let tungstenite = tungstenite(input, Role::Server);
    let tokio = tokio_websockets(input, Role::Server);
    let refusal = ours.refusal.map(|error| error.close_code());

    proptest::prop_assert_eq!(&ours.messages, &tokio.messages);
    proptest::prop_assert_eq!(refusal.is_some(), tokio.refusal.is_some());

    // For a control frame, a length of more than one byte is either padded or too long.
    let may_be_padded = [ProtocolError::PaddedLength, ProtocolError::LongControl];
    if ours.refusal.is_some_and(|error| may_be_padded.contains(&error)) {
        let received_by_us = tungstenite.messages.get(..ours.messages.len());
        proptest::prop_assert_eq!(Some(&*ours.messages), received_by_us);
        return Ok(());
    }
    if matches!(ours.messages.last(), Some(Said::Close(Some(1014), _))) {
        proptest::prop_assert_eq!(tungstenite.refusal, Some(1002));
        return Ok(());
    }
    proptest::prop_assert_eq!(&ours.messages, &tungstenite.messages);
    proptest::prop_assert_eq!(refusal.is_some(), tungstenite.refusal.is_some());
    // A frame may have two errors, and the RFC does not define which to report.
    proptest::prop_assert!(
        refusal == tungstenite.refusal || refusal == tokio.refusal,
        "refused with {refusal:?}, not {:?} or {:?}",
        tungstenite.refusal,
        tokio.refusal
    );
    Ok(())
}
