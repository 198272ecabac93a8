//! Published events: `{"seq":1,"due":98273,"crc":"0a1b2c3d","pad":"xxx…"}`, filled up to an exact size. `due` is the intended
//! time in µs of `CLOCK_MONOTONIC`, `crc` the CRC-32 of `seq`, `due` and `pad` as they are written.

const SEQ: &[u8] = b"{\"seq\":";
const DUE: &[u8] = b",\"due\":";
const CRC: &[u8] = b",\"crc\":\"";
const CRC_DIGITS: usize = 8;
const PAD: &[u8] = b"\",\"pad\":\"";
const END: &[u8] = b"\"}";

/// The content of an intact event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) seq: u64,
    pub(super) due_us: u64,
}

/// Appends the event, `bytes` long, or as short as possible if that is longer.
pub(super) fn write(out: &mut Vec<u8>, stamp: Stamp, bytes: usize) {
    let start = out.len();
    let (mut seq, mut due) = (itoa::Buffer::new(), itoa::Buffer::new());
    let (seq, due) = (seq.format(stamp.seq).as_bytes(), due.format(stamp.due_us).as_bytes());
    for part in [SEQ, seq, DUE, due, CRC] {
        out.extend_from_slice(part);
    }
    let crc_at = out.len();
    out.extend_from_slice(&[0; CRC_DIGITS]);
    out.extend_from_slice(PAD);
    let pad_at = out.len();
    out.resize((start + bytes).saturating_sub(END.len()).max(pad_at), b'x');
    let sum = checksum(seq, due, &out[pad_at..]);
    out.extend_from_slice(END);
    out[crc_at..crc_at + CRC_DIGITS].copy_from_slice(&hexadecimal(sum));
}

/// Returns the content of the event, if it is intact.
pub(super) fn read(event: &[u8]) -> Option<Stamp> {
    let (seq, rest) = digits(event.strip_prefix(SEQ)?);
    let (due, rest) = digits(rest.strip_prefix(DUE)?);
    let (crc, rest) = rest.strip_prefix(CRC)?.split_at_checked(CRC_DIGITS)?;
    let pad = rest.strip_prefix(PAD)?.strip_suffix(END)?;
    (crc == hexadecimal(checksum(seq, due, pad)))
        .then_some(Stamp { seq: number(seq)?, due_us: number(due)? })
}

/// Returns the number of an event that begins in this form, and the text after number and time; for others `None` and the whole text.
pub(super) fn number_of(event: &[u8]) -> (Option<u64>, &[u8]) {
    let numbered = || {
        let (seq, rest) = digits(event.strip_prefix(SEQ)?);
        let (_, rest) = digits(rest.strip_prefix(DUE)?);
        Some((number(seq)?, rest))
    };
    numbered().map_or((None, event), |(seq, rest)| (Some(seq), rest))
}

/// Parses a number in decimal digits; `None` if it is malformed, or beyond 2^64.
pub(super) fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, digit| {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

fn digits(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|byte| !byte.is_ascii_digit());
    bytes.split_at(end.unwrap_or(bytes.len()))
}

fn checksum(seq: &[u8], due: &[u8], pad: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for part in [seq, due, pad] {
        hasher.update(part);
    }
    hasher.finalize()
}

fn hexadecimal(sum: u32) -> [u8; CRC_DIGITS] {
    std::array::from_fn(|index| {
        let nibble = sum >> (4 * (CRC_DIGITS - 1 - index)) & 0xF;
        b"0123456789abcdef"[nibble as usize]
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn events_have_the_wanted_size_and_carry_their_stamp(
            seq in 1u64..1 << 53, due_us in 0u64..1 << 53, bytes in 96usize..20_000,
        ) {
            let mut out = b"before".to_vec();
            write(&mut out, Stamp { seq, due_us }, bytes);
            let event = &out[6..];
            prop_assert_eq!(event.len(), bytes);
            prop_assert_eq!(read(event), Some(Stamp { seq, due_us }));
            prop_assert!(serde_json::from_slice::<serde_json::Value>(event).is_ok());
        }

        #[test]
        fn a_changed_byte_shows(at in 0usize..128) {
            let mut event = Vec::new();
            write(&mut event, Stamp { seq: 17, due_us: 1_234_567 }, 128);
            event[at] ^= 1;
            prop_assert_eq!(read(&event), None);
        }
    }
}
