//! Conversations, and their bytes from other client implementations.

use std::io::{self, Read, Write};

use futures_util::{FutureExt, SinkExt};
use proptest::{collection::vec, prelude::*};
use tokio_websockets::{ClientBuilder, CloseCode, Config};
use tungstenite::protocol::{
    Role, WebSocket,
    frame::{
        CloseFrame, Frame,
        coding::{Data, OpCode},
    },
};

use super::received::{LIMIT, Said};

#[derive(Debug, Clone)]
pub(super) struct Conversation {
    turns: Vec<Turn>,
    close: Option<Said>,
}

/// A message and the control frames that interrupt it.
#[derive(Debug, Clone)]
struct Turn {
    message: Said,
    /// After this many bytes of the message a frame ends and control frames follow, except after the last fragment.
    cuts: Vec<(usize, Vec<Said>)>,
}

impl Conversation {
    /// Returns the messages in the order of their completion.
    pub(super) fn messages(&self) -> Vec<Said> {
        let turns = self.turns.iter().flat_map(|turn| {
            let controls = turn.cuts.iter().flat_map(|(_, controls)| controls.clone());
            controls.chain([turn.message.clone()])
        });
        turns.chain(self.close.clone()).collect()
    }

    pub(super) fn by_tungstenite(&self) -> Vec<u8> {
        let frames = self.turns.iter().flat_map(Turn::frames);
        let close = self.close.iter().map(control_frame);
        let mut client = WebSocket::from_raw_socket(Written(Vec::new()), Role::Client, None);
        for frame in frames.chain(close) {
            client.send(tungstenite::Message::Frame(frame)).expect("a vector takes it");
        }
        client.into_inner().0
    }

    /// Writes the conversation with tokio-websockets' client, in frames of up to `frame_len` bytes; control frames
    /// precede the message that they would interrupt.
    pub(super) fn by_tokio_websockets(&self, frame_len: usize) -> Vec<u8> {
        let stream = tokio::io::join(tokio::io::empty(), Vec::new());
        let config = Config::default().frame_size(frame_len);
        let mut client = ClientBuilder::new().config(config).take_over(stream);
        for message in self.messages() {
            let message = match message {
                Said::Text(text) => tokio_websockets::Message::text(text),
                Said::Binary(bytes) => tokio_websockets::Message::binary(bytes),
                Said::Ping(bytes) => tokio_websockets::Message::ping(bytes),
                Said::Pong(bytes) => tokio_websockets::Message::pong(bytes),
                Said::Close(code, reason) => {
                    let code = code.map(|code| CloseCode::try_from(code).expect("a valid code"));
                    tokio_websockets::Message::close(code, &reason)
                }
            };
            let sent = client.send(message).now_or_never().expect("a vector never waits");
            sent.expect("a vector takes it");
        }
        client.into_inner().into_inner().1
    }
}

impl Turn {
    fn frames(&self) -> Vec<Frame> {
        let (mut opcode, mut rest) = match &self.message {
            Said::Text(text) => (Data::Text, text.as_bytes()),
            Said::Binary(bytes) => (Data::Binary, &**bytes),
            control => unreachable!("{control:?} is no message"),
        };
        let mut frames = Vec::new();
        for (len, controls) in &self.cuts {
            let (fragment, after) = rest.split_at(rest.len().min(*len));
            frames.push(Frame::message(fragment.to_vec(), OpCode::Data(opcode), false));
            frames.extend(controls.iter().map(control_frame));
            rest = after;
            opcode = Data::Continue;
        }
        frames.push(Frame::message(rest.to_vec(), OpCode::Data(opcode), true));
        frames
    }
}

fn control_frame(said: &Said) -> Frame {
    match said {
        Said::Ping(bytes) => Frame::ping(bytes.clone()),
        Said::Pong(bytes) => Frame::pong(bytes.clone()),
        Said::Close(code, reason) => {
            Frame::close(code.map(|code| CloseFrame { code: code.into(), reason: reason.into() }))
        }
        message => unreachable!("{message:?} is no control frame"),
    }
}

struct Written(Vec<u8>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Written {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Ok(0)
    }
}

pub(super) fn conversation() -> impl Strategy<Value = Conversation> {
    let cuts = vec((prop_oneof![0..5_usize, 0..500_usize], vec(ping_or_pong(), 0..3)), 0..4);
    let turn = (message(), cuts).prop_map(|(message, cuts)| Turn { message, cuts });
    (vec(turn, 0..6), proptest::option::of(close()))
        .prop_map(|(turns, close)| Conversation { turns, close })
}

/// A text or binary message up to the limit; lengths at which the header changes its form are frequent.
pub(super) fn message() -> impl Strategy<Value = Said> {
    let len = prop_oneof![
        8 => 0..20_usize,
        4 => 120..130_usize,
        1 => 65_530..65_540_usize,
        1 => LIMIT as usize - 2..=LIMIT as usize,
    ];
    prop_oneof![
        (vec(any::<char>(), 1..9), len.clone())
            .prop_map(|(chars, len)| Said::Text(text(&chars, len))),
        (any::<[u8; 7]>(), len)
            .prop_map(|(bytes, len)| Said::Binary(bytes.into_iter().cycle().take(len).collect())),
    ]
}

fn text(chars: &[char], len: usize) -> String {
    let mut text = String::new();
    for char in chars.iter().cycle() {
        if text.len() + char.len_utf8() > len {
            break;
        }
        text.push(*char);
    }
    text
}

fn ping_or_pong() -> impl Strategy<Value = Said> {
    let payload = || vec(any::<u8>(), 0..=125);
    prop_oneof![payload().prop_map(Said::Ping), payload().prop_map(Said::Pong)]
}

fn close() -> impl Strategy<Value = Said> {
    let code = prop_oneof![1000..=1003_u16, 1007..=1014_u16, 3000..=4999_u16];
    prop_oneof![
        Just(Said::Close(None, String::new())),
        (code, vec(any::<char>(), 0..40), 0..=123_usize).prop_map(|(code, chars, len)| {
            let reason = if chars.is_empty() { String::new() } else { text(&chars, len) };
            Said::Close(Some(code), reason)
        }),
    ]
}
