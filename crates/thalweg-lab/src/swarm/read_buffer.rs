//! The buffer through which all connections are read.

use super::link::{Link, LinkRead, RECORD_BYTES_MAX, received};
use super::socket::read_behind;
use std::io;

/// Bytes asked for in one read. Larger reads leave the second-level cache.
pub(super) const READ_BYTES: usize = 256 * 1024;
/// A longer part of a frame stays where it is and grows there; a shorter one is copied in front of the next read.
const CARRY_BYTES_MAX: usize = 64 * 1024;

#[derive(Debug)]
pub(super) struct ReadBuffer {
    bytes: Vec<u8>,
    /// Bytes before they are decrypted; empty without TLS.
    encrypted: Vec<u8>,
}

impl ReadBuffer {
    pub(super) fn new() -> ReadBuffer {
        let bytes = vec![0; CARRY_BYTES_MAX + READ_BYTES + RECORD_BYTES_MAX];
        ReadBuffer { bytes, encrypted: Vec::new() }
    }

    /// Reads once, at most `room` bytes, up to [`READ_BYTES`]. `parse` gets the bytes of `carry` and new ones, and returns the number
    /// consumed; the rest is carried over.
    pub(super) fn read<E: From<io::Error>>(
        &mut self,
        link: &mut Link,
        carry: &mut Vec<u8>,
        room: usize,
        parse: impl FnOnce(&[u8]) -> Result<usize, E>,
    ) -> Result<LinkRead, E> {
        let held = carry.len();
        if held > CARRY_BYTES_MAX {
            return self.read_long(link, carry, room, parse);
        }
        let ReadBuffer { bytes, encrypted } = self;
        let received = link.receive(&mut bytes[held..], room, encrypted)?;
        let LinkRead::Bytes { length: length @ 1.., .. } = received else {
            return Ok(received);
        };
        bytes[..held].copy_from_slice(carry);
        let bytes = &bytes[..held + length];
        let rest = &bytes[parse(bytes)?..];
        // A waiting connection must not hold spare memory.
        *carry = rest.to_vec();
        Ok(received)
    }

    /// Reads after a long part of a frame, in place.
    fn read_long<E: From<io::Error>>(
        &mut self,
        link: &mut Link,
        carry: &mut Vec<u8>,
        room: usize,
        parse: impl FnOnce(&[u8]) -> Result<usize, E>,
    ) -> Result<LinkRead, E> {
        carry.reserve(room + RECORD_BYTES_MAX);
        let held = carry.len();
        let received = match link {
            Link::Plain(socket) if room == READ_BYTES => {
                let room = carry.capacity() - held;
                received(read_behind(socket, carry)?, room)
            }
            _ => {
                carry.resize(held + room + RECORD_BYTES_MAX, 0);
                let received = link.receive(&mut carry[held..], room, &mut self.encrypted);
                let length = match received {
                    Ok(LinkRead::Bytes { length, .. }) => length,
                    _ => 0,
                };
                carry.truncate(held + length);
                received?
            }
        };
        let LinkRead::Bytes { length: 1.., .. } = received else {
            return Ok(received);
        };
        let used = parse(carry)?;
        if carry.len() - used <= CARRY_BYTES_MAX {
            *carry = carry[used..].to_vec();
        } else {
            carry.drain(..used);
        }
        Ok(received)
    }
}
