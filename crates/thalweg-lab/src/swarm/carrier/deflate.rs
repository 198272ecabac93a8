//! Compression. The server chooses whether messages of a WebSocket (permessage-deflate, RFC 7692) refer to earlier ones (context
//! takeover). If they do not, a connection keeps no state. Sent messages have no context, so one compressor serves all
//! connections. The body of a response (gzip, RFC 1952) is one stream with its own context.

use super::{CarrierError, MESSAGE_BYTES_MAX, too_long, wrong};
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use std::cell::RefCell;

/// The extension that a WebSocket offers, as browsers do: a message from the server may refer to earlier ones.
pub(in crate::swarm) const EXTENSION: &str = "permessage-deflate";

#[derive(Debug)]
pub(in crate::swarm) enum Inflate {
    /// Each message is compressed by itself.
    Alone,
    /// With earlier messages as context.
    InContext(Decompress),
}

/// The coding that is offered for a response.
pub(in crate::swarm) const GZIP: &str = "gzip";
/// The end of every compressed message, which is not sent (RFC 7692 §7.2.1).
const TAIL: &[u8] = &[0x00, 0x00, 0xFF, 0xFF];
/// 2^15 bytes, the largest window that there is.
const WINDOW_BITS: u8 = 15;
/// A body is inflated in pieces of this size.
const PIECE_BYTES: usize = 64 << 10;

const BROKEN: CarrierError = wrong("compressed bytes that cannot be inflated");

thread_local! {
    static INFLATE: RefCell<Decompress> = RefCell::new(Decompress::new(false));
    static DEFLATE: RefCell<Compress> = RefCell::new(Compress::new(Compression::fast(), false));
}

impl Inflate {
    /// Returns the form of the messages for the extension that a server has chosen. The error says what is wrong with the extension.
    pub(in crate::swarm) fn from_chosen(chosen: &str) -> Result<Inflate, String> {
        let mut words = chosen.split(';').map(str::trim);
        if words.next() != Some(EXTENSION) {
            return Err(format!("it wants the extension {chosen}, which was not offered"));
        }
        let mut has_context = true;
        for word in words {
            match word.split('=').next().unwrap_or_default().trim() {
                "server_no_context_takeover" => has_context = false,
                "client_no_context_takeover" | "server_max_window_bits" => {}
                other => {
                    return Err(format!("its {EXTENSION} has {other}, which was not offered"));
                }
            }
        }
        Ok(if has_context { Inflate::in_context() } else { Inflate::Alone })
    }

    fn in_context() -> Inflate {
        Inflate::InContext(Decompress::new(false))
    }

    pub(super) fn message(&mut self, message: &[u8]) -> Result<Vec<u8>, CarrierError> {
        match self {
            Inflate::Alone => INFLATE.with_borrow_mut(|inflate| {
                inflate.reset(false);
                inflated(inflate, message)
            }),
            Inflate::InContext(inflate) => inflated(inflate, message),
        }
    }
}

fn inflated(inflate: &mut Decompress, message: &[u8]) -> Result<Vec<u8>, CarrierError> {
    let mut out = Vec::new();
    for input in [message, TAIL] {
        let left = inflate_into(inflate, input, &mut out, |out| match out.len() {
            ..=MESSAGE_BYTES_MAX => Ok(()),
            _ => Err(too_long()),
        })?;
        if left.is_some() {
            // The last block is marked as final (§7.2.3.4), so the next message begins with a new state.
            inflate.reset(false);
            break;
        }
    }
    Ok(out)
}

pub(in crate::swarm) fn deflate(message: &[u8], out: &mut Vec<u8>) {
    DEFLATE.with_borrow_mut(|deflate| {
        deflate.reset();
        let (mut rest, begun) = (message, out.len());
        loop {
            out.reserve(message.len() / 2 + 64);
            let before = deflate.total_in();
            // Compression stops only at a full buffer.
            let _ = deflate.compress_vec(rest, out, FlushCompress::Sync);
            rest = &rest[(deflate.total_in() - before) as usize..];
            if rest.is_empty() && out.len() < out.capacity() {
                break;
            }
        }
        if out[begun..].ends_with(TAIL) {
            out.truncate(out.len() - TAIL.len());
        }
    });
}

/// The body of one response, of any number of members (RFC 1952 §2.2).
#[derive(Debug)]
pub(in crate::swarm) struct Gunzip(Decompress);

impl Gunzip {
    pub(in crate::swarm) fn new() -> Gunzip {
        Gunzip(Decompress::new_gzip(WINDOW_BITS))
    }

    /// Passes on the inflated bytes in bounded pieces.
    pub(in crate::swarm) fn inflate<E: From<CarrierError>>(
        &mut self,
        mut bytes: &[u8],
        mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut out = Vec::with_capacity(PIECE_BYTES);
        loop {
            let left = inflate_into(&mut self.0, bytes, &mut out, |out| {
                take(out)?;
                out.clear();
                Ok::<(), E>(())
            })?;
            let Some(left) = left else { break };
            self.0 = Decompress::new_gzip(WINDOW_BITS);
            bytes = &bytes[bytes.len() - left..];
            if bytes.is_empty() {
                break;
            }
        }
        if out.is_empty() { Ok(()) } else { take(&out) }
    }
}

/// Inflates the input up to the end of its stream; returns how many bytes are left. `make_room` may empty a full
/// output, which otherwise grows.
fn inflate_into<E: From<CarrierError>>(
    inflate: &mut Decompress,
    mut input: &[u8],
    out: &mut Vec<u8>,
    mut make_room: impl FnMut(&mut Vec<u8>) -> Result<(), E>,
) -> Result<Option<usize>, E> {
    loop {
        if out.len() == out.capacity() {
            make_room(out)?;
            if out.len() == out.capacity() {
                let more = out.len().max(input.len() * 2).max(256);
                out.reserve_exact(more.min(MESSAGE_BYTES_MAX + 1 - out.len()));
            }
        }
        let (before_in, before_out) = (inflate.total_in(), out.len());
        let status = inflate.decompress_vec(input, out, FlushDecompress::Sync);
        let taken = (inflate.total_in() - before_in) as usize;
        input = &input[taken..];
        match status {
            Err(_) => return Err(BROKEN.into()),
            Ok(Status::StreamEnd) => return Ok(Some(input.len())),
            Ok(_) if input.is_empty() && out.len() < out.capacity() => return Ok(None),
            Ok(_) if taken > 0 || out.len() > before_out || out.len() == out.capacity() => {}
            Ok(_) => return Err(BROKEN.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    proptest! {
        #[test]
        fn deflated_messages_inflate(
            words in prop::collection::vec("[a-c]{0,40}", 0..200),
            cuts in prop::collection::vec(1usize..97, 0..40),
        ) {
            let message = words.concat().into_bytes();
            let mut sent = b"before".to_vec();
            deflate(&message, &mut sent);
            prop_assert!(sent.starts_with(b"before") && !sent.ends_with(TAIL));
            for mut inflate in [Inflate::Alone, Inflate::in_context()] {
                // An inflater with context also accepts messages without context.
                for _ in 0..2 {
                    prop_assert_eq!(inflate.message(&sent[6..]).unwrap(), message.clone());
                }
            }

            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), Compression::default());
            gzip.write_all(&message).unwrap();
            // A second member.
            let bytes = gzip.finish().unwrap().repeat(2);
            let (mut gunzip, mut received) = (Gunzip::new(), Vec::new());
            for piece in crate::swarm::tests::golden::cut(&bytes, &cuts) {
                let taken = gunzip.inflate(piece, |piece| {
                    received.extend_from_slice(piece);
                    Ok::<(), CarrierError>(())
                });
                prop_assert_eq!(taken, Ok(()));
            }
            prop_assert_eq!(received, message.repeat(2));
        }

        #[test]
        fn malformed_deflate_does_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            for mut inflate in [Inflate::Alone, Inflate::in_context()] {
                let _ = inflate.message(&bytes);
                let _ = inflate.message(&bytes);
            }
            let _ = Gunzip::new().inflate(&bytes, |_| Ok::<(), CarrierError>(()));
        }
    }

    #[test]
    fn a_bomb_is_bounded() {
        let mut bomb = Vec::new();
        deflate(&vec![0; MESSAGE_BYTES_MAX + MESSAGE_BYTES_MAX / 2], &mut bomb);
        assert!(bomb.len() < 1 << 20);
        assert_eq!(Inflate::Alone.message(&bomb).err(), Some(too_long()));
        assert_eq!(Inflate::in_context().message(&bomb).err(), Some(too_long()));
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(&vec![0; 10 << 20]).unwrap();
        let mut pieces = Vec::new();
        let taken = Gunzip::new().inflate(&gzip.finish().unwrap(), |piece| {
            pieces.push(piece.len());
            Ok::<(), CarrierError>(())
        });
        assert_eq!((taken, pieces.iter().sum::<usize>()), (Ok(()), 10 << 20));
        assert!(pieces.iter().all(|bytes| *bytes <= 2 * PIECE_BYTES), "{pieces:?}");
    }

    #[test]
    fn extensions_that_were_not_offered_are_refused() {
        let refused = |chosen: &str| Inflate::from_chosen(chosen).err().unwrap_or_default();
        let alone = "permessage-deflate; server_no_context_takeover; client_no_context_takeover";
        for chosen in [alone, &format!("{alone}; server_max_window_bits=10")] {
            assert!(matches!(Inflate::from_chosen(chosen), Ok(Inflate::Alone)), "{chosen}");
        }
        for chosen in [EXTENSION, "permessage-deflate; client_no_context_takeover"] {
            assert!(matches!(Inflate::from_chosen(chosen), Ok(Inflate::InContext(_))), "{chosen}");
        }
        assert!(refused(&format!("{alone}; client_max_window_bits=9")).contains("client_max_"));
        assert!(refused("x-webkit-deflate-frame").contains("was not offered"));
    }

    /// A server keeps its compressor from message to message.
    #[test]
    fn a_message_may_refer_to_those_before() {
        let mut deflate = Compress::new(Compression::default(), false);
        let mut inflate = Inflate::in_context();
        let text = "a message that is the same but for its number: ";
        for number in 0..9 {
            let message = format!("{text}{number}");
            let mut sent = Vec::with_capacity(1024);
            deflate.compress_vec(message.as_bytes(), &mut sent, FlushCompress::Sync).unwrap();
            sent.truncate(sent.len() - TAIL.len());
            assert_eq!(inflate.message(&sent), Ok(message.into_bytes()));
            assert!(number == 0 || sent.len() < 20, "{} bytes", sent.len());
            assert!(number == 0 || Inflate::Alone.message(&sent).is_err());
        }
    }
}
