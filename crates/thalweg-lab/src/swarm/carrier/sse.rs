//! Server-Sent Events (WHATWG HTML §9.2.5), as Thalweg's wire writes them: one
//! `data:` line per frame, line feeds only.

use super::{CarrierError, Step};

pub(super) fn step(bytes: &[u8], searched: usize) -> Result<Step<'_>, CarrierError> {
    let mut message = None;
    let mut line_start = 0;
    // Lines behind the first are short: only the first is worth not searching
    // twice.
    let mut fresh = searched.min(bytes.len());
    loop {
        let Some(length) = memchr::memchr(b'\n', &bytes[fresh..]) else {
            let searched = if line_start == 0 { bytes.len() } else { 0 };
            return Ok(Step::Incomplete { searched });
        };
        let line = &bytes[line_start..fresh + length];
        line_start = fresh + length + 1;
        fresh = line_start;
        if line.is_empty() {
            return Ok(match message {
                Some(message) => Step::Message(message, line_start),
                None => Step::Nothing(line_start),
            });
        }
        if let Some(data) = line.strip_prefix(b"data:")
            && message.replace(data).is_some()
        {
            return Err(CarrierError("an SSE frame with two data lines is not Thalweg's wire"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_with_and_without_names() {
        let check = |bytes: &'static str, expected| {
            assert_eq!(step(bytes.as_bytes(), 0), Ok(expected), "{bytes:?}");
        };
        check("data:x\nid:1.2\n\nrest", Step::Message(b"x", 15));
        check("data:x\n\n", Step::Message(b"x", 8));
        check("event:gap\ndata:{}\nid:1.2\n\n", Step::Message(b"{}", 26));
        check(":comment\n\n", Step::Nothing(10));
        check("data:x", Step::Incomplete { searched: 6 });
        check("data:x\nid", Step::Incomplete { searched: 0 });
        assert!(step(b"data:x\ndata:y\n\n", 0).is_err());
    }
}
