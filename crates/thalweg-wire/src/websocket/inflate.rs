use std::cell::Cell;

use flate2::{Decompress, FlushDecompress, Status};

use super::ProtocolError;

/// Bytes that make a message a complete deflate stream: the end of the flush, which its sender omitted (RFC 7692
/// §7.2.2), and an empty last block. A message that ends inside a block has these bytes in the wrong place.
const END: [u8; 6] = [0, 0, 0xff, 0xff, 3, 0];

/// Capacity that a thread keeps for its next message.
const RETAINED_BYTES_MAX: usize = 1 << 16;

thread_local! {
    /// An inflater has tables and a window of 32 KiB. No message refers to an earlier one, so one inflater serves all
    /// connections of a thread.
    static INFLATER: Cell<Option<Inflater>> = const { Cell::new(None) };
}

struct Inflater {
    inflate: Decompress,
    /// The largest buffer so far; the inflated message is at its front.
    plain: Vec<u8>,
}

/// Passes the inflated message to `take`; overwrites `deflated`. Fails with [`ProtocolError::TooBig`] as soon as the message
/// exceeds `bytes_max`, and uses no more memory than that.
pub(super) fn inflated<T>(
    deflated: &mut Vec<u8>,
    bytes_max: u32,
    take: impl FnOnce(&[u8]) -> T,
) -> Result<T, ProtocolError> {
    deflated.extend_from_slice(&END);
    // Taken, not borrowed: `take` may call this function again.
    let mut inflater = INFLATER.take().unwrap_or_else(Inflater::new);
    let outcome = inflater.inflate(deflated, bytes_max).map(|len| take(&inflater.plain[..len]));
    if inflater.plain.len() > RETAINED_BYTES_MAX {
        inflater.plain = Vec::new();
    }
    INFLATER.set(Some(inflater));
    outcome
}

impl Inflater {
    fn new() -> Self {
        Self { inflate: Decompress::new(false), plain: Vec::new() }
    }

    fn inflate(&mut self, mut input: &[u8], bytes_max: u32) -> Result<usize, ProtocolError> {
        let too_big = ProtocolError::TooBig { message_bytes_max: bytes_max };
        // One more byte shows that a message is too long.
        let room_max = bytes_max as usize + 1;
        let mut len = 0;
        let mut has_ended = false;
        self.inflate.reset(false);
        loop {
            if len == self.plain.len().min(room_max) {
                if len == room_max {
                    return Err(too_big);
                }
                self.grow(room_max);
            }
            let room = self.plain.len().min(room_max);
            let (total_in, total_out) = (self.inflate.total_in(), self.inflate.total_out());
            let status = self
                .inflate
                .decompress(input, &mut self.plain[len..room], FlushDecompress::None)
                .map_err(|_| ProtocolError::NotDeflate)?;
            let taken = (self.inflate.total_in() - total_in) as usize;
            let made = (self.inflate.total_out() - total_out) as usize;
            input = &input[taken..];
            len += made;
            match status {
                Status::StreamEnd if len == room_max => return Err(too_big),
                Status::StreamEnd if input.is_empty() => return Ok(len),
                // A sender may mark its block as the last one, if an empty block follows (RFC 7692 §7.2.3.4). Accept
                // this once: each further last block would cost a reset for two bytes.
                Status::StreamEnd if !has_ended => {
                    has_ended = true;
                    self.inflate.reset(false);
                }
                Status::StreamEnd => return Err(ProtocolError::NotDeflate),
                Status::Ok | Status::BufError if taken + made > 0 || len == room => {}
                Status::Ok | Status::BufError => return Err(ProtocolError::NotDeflate),
            }
        }
    }

    fn grow(&mut self, room_max: usize) {
        let room = (self.plain.len() * 2).max(4096).min(room_max);
        self.plain.reserve_exact(room - self.plain.len());
        self.plain.resize(room, 0);
    }
}

#[cfg(test)]
mod tests {
    use flate2::{Compress, Compression, FlushCompress};

    use super::*;

    /// Returns zeros, compressed as far as deflate can, as no honest sender does.
    fn bomb(plain_len: usize) -> Vec<u8> {
        let mut compress = Compress::new(Compression::new(9), false);
        let mut deflated = Vec::with_capacity(plain_len / 500 + 100);
        let zeros = vec![0; plain_len];
        compress.compress_vec(&zeros, &mut deflated, FlushCompress::Sync).expect("deflates");
        assert!(deflated.len() < plain_len / 500 + 50);
        deflated.truncate(deflated.len() - 4);
        deflated
    }

    #[test]
    fn a_bomb_is_refused_before_it_has_gone_off() {
        let mut inflater = Inflater::new();
        let mut deflated = bomb(50_000_000);
        deflated.extend(END);
        let refusal = Err(ProtocolError::TooBig { message_bytes_max: 10_000 });
        assert_eq!(inflater.inflate(&deflated, 10_000), refusal);
        assert!(inflater.plain.capacity() <= 10_001);
    }

    #[test]
    fn the_limit_is_the_longest_message() {
        let mut deflated = bomb(10_000);
        deflated.extend(END);
        let mut inflater = Inflater::new();
        assert_eq!(inflater.inflate(&deflated, 10_000), Ok(10_000));
        let refusal = Err(ProtocolError::TooBig { message_bytes_max: 9_999 });
        assert_eq!(inflater.inflate(&deflated, 9_999), refusal);
        assert_eq!(inflater.inflate(&deflated, 10_000), Ok(10_000));
    }

    #[test]
    fn memory_of_a_large_message_is_given_back() {
        let len = inflated(&mut bomb(1_000_000), 1_000_000, <[u8]>::len);
        assert_eq!(len, Ok(1_000_000));
        let inflater = INFLATER.take().expect("it was put back");
        assert!(inflater.plain.capacity() <= RETAINED_BYTES_MAX);
    }

    #[test]
    fn one_message_may_be_inflated_within_another() {
        let outer = inflated(&mut bomb(60_000), 60_000, |outer| {
            let inner = inflated(&mut vec![0], 10, <[u8]>::len);
            (outer.len(), inner)
        });
        assert_eq!(outer, Ok((60_000, Ok(0))));
    }
}
