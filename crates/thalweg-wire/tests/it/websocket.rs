//! Tests the codec case by case, and against tungstenite and tokio-websockets.

mod clients;
mod conformance;
mod garbage;
mod received;

use ::tungstenite::{handshake::derive_accept_key, protocol::Role};
use base64::{Engine, engine::general_purpose::STANDARD};
use clients::{conversation, message};
use proptest::{collection::vec, prelude::*};
use received::{Received, Said, agree, ours, tokio_websockets, tungstenite};
use thalweg_wire::websocket::{accept_key, close, ping, pong, text_header};

use crate::arbitrary::config;

fn piece_lens() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![
        Just(vec![]),
        Just(vec![1; 200]),
        vec(0..20_usize, 1..20),
        vec(0..2000_usize, 1..20),
    ]
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn messages_of_a_client_are_received(
        said in conversation(),
        frame_len in 1..2000_usize,
        piece_lens in piece_lens(),
    ) {
        let expected = Received { messages: said.messages(), refusal: None };
        for input in [said.by_tungstenite(), said.by_tokio_websockets(frame_len)] {
            prop_assert_eq!(&ours(&input, &piece_lens), &expected);
        }
    }

    #[test]
    fn messages_of_the_server_are_received(
        texts in vec(message(), 0..4),
        payload in vec(any::<u8>(), 0..200),
        code in 3000..5000_u16,
        reason in "[a-zé🐦]{0,60}",
    ) {
        let mut frames = Vec::new();
        let mut expected = Vec::new();
        for text in texts {
            let Said::Text(text) = text else { continue };
            text_header(text.len(), &mut frames);
            frames.extend(text.as_bytes());
            expected.push(Said::Text(text));
        }
        ping(&payload, &mut frames);
        pong(&payload, &mut frames);
        close(code, &reason, &mut frames);

        let sent = payload[..payload.len().min(125)].to_vec();
        expected.extend([Said::Ping(sent.clone()), Said::Pong(sent)]);
        for mut received in [tungstenite(&frames, Role::Client), tokio_websockets(&frames, Role::Client)] {
            prop_assert_eq!(received.refusal, None);
            let last = received.messages.pop();
            prop_assert_eq!(&received.messages, &expected);
            let Some(Said::Close(Some(received_code), received_reason)) = last else {
                return Err(TestCaseError::fail(format!("{last:?} is no close")));
            };
            prop_assert_eq!(received_code, code);
            prop_assert!(reason.starts_with(&received_reason));
            prop_assert!(received_reason.len() >= reason.len().min(120));
        }
    }

    #[test]
    fn garbage_is_judged_as_by_others(input in garbage::frames()) {
        agree(&garbage::to_the_end(input))?;
    }

    #[test]
    fn damage_is_judged_as_by_others(
        input in garbage::damaged(conversation().prop_map(|said| said.by_tungstenite())),
    ) {
        agree(&garbage::to_the_end(input))?;
    }

    #[test]
    fn damaged_garbage_is_judged_as_by_others(input in garbage::damaged(garbage::frames())) {
        agree(&garbage::to_the_end(input))?;
    }

    #[test]
    fn cuts_change_nothing(input in garbage::damaged(garbage::frames()), piece_lens in piece_lens()) {
        prop_assert_eq!(ours(&input, &piece_lens), ours(&input, &[]));
    }

    #[test]
    fn a_key_is_answered_as_by_tungstenite(nonce: [u8; 16]) {
        let key = STANDARD.encode(nonce);
        prop_assert_eq!(accept_key(&key), Ok(derive_accept_key(key.as_bytes())));
    }
}
