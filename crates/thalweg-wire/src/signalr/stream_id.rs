use std::num::NonZeroU32;

use serde_json::value::RawValue;

/// The invocation id of a stream, which each of its items repeats: a whole number, because all official clients number
/// their invocations. All streams with the same number share their frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StreamId(
    /// The number plus one, so that an `Option` takes no more memory.
    NonZeroU32,
);

impl StreamId {
    /// Parses the id of an invocation, a JSON string; `None` if it is not a whole number below 2³² − 1 without leading zeros.
    pub fn parse(id: &RawValue) -> Option<Self> {
        let digits = id.get().strip_prefix('"')?.strip_suffix('"')?;
        let is_canonical = digits == "0" || !digits.starts_with(['0', '+']);
        let number: u32 = digits.parse().ok().filter(|_| is_canonical)?;
        number.checked_add(1).and_then(NonZeroU32::new).map(Self)
    }

    /// Returns the number.
    pub fn number(self) -> u32 {
        self.0.get() - 1
    }

    pub(super) fn len(self) -> usize {
        self.number().checked_ilog10().map_or(1, |digits| digits as usize + 1)
    }

    pub(super) fn write(self, out: &mut Vec<u8>) {
        crate::position::write_decimal(self.number().into(), out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_number_in_one_spelling() {
        let parse = |json: &str| {
            let id: &RawValue = serde_json::from_str(json).unwrap();
            StreamId::parse(id).map(StreamId::number)
        };
        for number in [0, 1, 9, 10, 16, 4_294_967_294] {
            assert_eq!(parse(&format!("\"{number}\"")), Some(number));
        }
        for json in [
            "\"\"",
            "\"00\"",
            "\"01\"",
            "\"+1\"",
            "\"-1\"",
            "\"4294967295\"",
            "\"a\"",
            "1",
            "\"\\u0031\"",
        ] {
            assert_eq!(parse(json), None, "{json}");
        }
    }

    #[test]
    fn the_length_of_an_epoch_is_the_number_of_its_digits() {
        for number in ["0", "9", "10", "4294967294"] {
            let json = format!("\"{number}\"");
            let id = StreamId::parse(serde_json::from_str(&json).unwrap()).unwrap();
            let mut out = Vec::new();
            id.write(&mut out);
            assert_eq!((out.as_slice(), out.len()), (number.as_bytes(), id.len()));
        }
    }
}
