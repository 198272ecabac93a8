//! Splits the bytes of a streaming transport into messages. Pure; input may be cut anywhere.

mod lines;
mod scripts;
mod sse;
mod unread;

pub(crate) use unread::Malformed;

use crate::Transport;

#[derive(Debug)]
pub(crate) enum Deframer {
    Lines(lines::Lines),
    Sse(sse::Sse),
    Scripts(scripts::Scripts),
}

impl Deframer {
    /// Returns a deframer for a transport's response body; a WebSocket has its own frames.
    pub(crate) fn new(transport: Transport) -> Self {
        match transport {
            Transport::Sse => Self::Sse(sse::Sse::default()),
            Transport::ForeverFrame => Self::Scripts(scripts::Scripts::default()),
            _ => Self::Lines(lines::Lines::default()),
        }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        match self {
            Self::Lines(lines) => lines.unread.push(bytes),
            Self::Sse(sse) => sse.unread.push(bytes),
            Self::Scripts(scripts) => scripts.unread.push(bytes),
        }
    }

    pub(crate) fn next(&mut self) -> Result<Option<String>, Malformed> {
        match self {
            Self::Lines(lines) => lines.next(),
            Self::Sse(sse) => sse.next(),
            Self::Scripts(scripts) => scripts.next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};
    use thalweg_wire::{Close, Format, Gap, GapReason, Topic};

    use super::*;

    fn messages_of(transport: Transport, bytes: &[u8], cuts: &[usize]) -> Vec<String> {
        let mut deframer = Deframer::new(transport);
        let mut messages = Vec::new();
        let mut rest = bytes;
        for cut in cuts.iter().chain([&usize::MAX]) {
            let (piece, after) = rest.split_at((*cut).min(rest.len()));
            deframer.push(piece);
            while let Some(message) = deframer.next().unwrap() {
                messages.push(message);
            }
            rest = after;
        }
        messages
    }

    fn written(format: Format, texts: &[String]) -> Vec<u8> {
        let topic: Topic = "cars".parse().unwrap();
        let position: thalweg_wire::Position = "9f.7".parse().unwrap();
        let mut out = Vec::new();
        if format == Format::FOREVER_FRAME {
            thalweg_wire::format::forever_frame_document("abc", &mut out);
        }
        let ended = |out: &mut Vec<u8>| {
            if format == Format::FOREVER_FRAME {
                thalweg_wire::format::forever_frame_opening("abc", out);
            }
        };
        for text in texts {
            let mut events = Vec::new();
            thalweg_wire::event::push_text(text.as_bytes(), 1 << 20, &mut events).unwrap();
            let envelope = thalweg_wire::Envelope {
                topic: &topic,
                epoch: position.epoch,
                first: 7,
                last: 7,
                before: thalweg_wire::Before::Adjacent,
                offsets: None,
                keyed: None,
                events: &events,
            };
            format.batch(&envelope, &mut out);
            ended(&mut out);
        }
        let gap = Gap { topic: &topic, position, missed: None, reason: GapReason::Epoch };
        format.gap(&gap, &mut out);
        ended(&mut out);
        format.heartbeat(&mut out);
        ended(&mut out);
        format.close(Close { code: 1001, reason: "draining", reconnect: true }, &mut out);
        out
    }

    proptest! {
        #[test]
        fn messages_survive_any_cut(
            texts in vec(".{0,20}", 0..5),
            cuts in vec(0usize..60, 0..20),
        ) {
            for (transport, format) in [
                (Transport::HttpStreaming, Format::NDJSON),
                (Transport::Sse, Format::SSE),
                (Transport::ForeverFrame, Format::FOREVER_FRAME),
            ] {
                let messages = messages_of(transport, &written(format, &texts), &cuts);
                prop_assert_eq!(messages.len(), texts.len() + 3, "{:?}", transport);
                for (message, text) in messages.iter().zip(&texts) {
                    let read: serde_json::Value = serde_json::from_str(message).unwrap();
                    prop_assert_eq!(read["events"][0].as_str(), Some(&**text));
                }
            }
        }

        #[test]
        fn arbitrary_bytes_do_not_panic(
            bytes in vec(any::<u8>(), 0..200),
            cuts in vec(0usize..60, 0..9),
        ) {
            for transport in Transport::ALL {
                let mut deframer = Deframer::new(transport);
                for piece in bytes.chunks(cuts.len() + 1) {
                    deframer.push(piece);
                    while let Ok(Some(_)) = deframer.next() {}
                }
            }
        }
    }
}
