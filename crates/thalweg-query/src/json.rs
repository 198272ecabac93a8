//! Rows as JSON.

use std::io::Write;

use thalweg_columns::Cell;

/// Appends a row as an array. Returns `false` if it exceeds `bytes_max`; then the row is incomplete.
pub(crate) fn write_row<'r>(
    cells: impl Iterator<Item = Cell<'r>>,
    bytes_max: usize,
    out: &mut Vec<u8>,
) -> bool {
    out.push(b'[');
    for (index, cell) in cells.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_cell(&cell, bytes_max, out);
        if out.len() > bytes_max {
            return false;
        }
    }
    out.push(b']');
    true
}

/// Appends a value. Writing to a `Vec` cannot fail.
fn write_cell(cell: &Cell<'_>, bytes_max: usize, out: &mut Vec<u8>) {
    match cell {
        Cell::Null => out.extend_from_slice(b"null"),
        Cell::Bool(value) => drop(write!(out, "{value}")),
        Cell::Int(number) => drop(write!(out, "{number}")),
        // The shortest text of the same double, 1e300 included. No cell is infinite (`expr::finite`).
        Cell::Double(number) => drop(write!(out, "{number:?}")),
        Cell::Time(ms) => match thalweg_columns::time_text(*ms) {
            Some(text) => {
                out.push(b'"');
                out.extend_from_slice(text.as_bytes());
                out.push(b'"');
            }
            None => out.extend_from_slice(b"null"),
        },
        Cell::String(text) => write_string(text, bytes_max, out),
        Cell::Json(text) => out.extend_from_slice(text.as_bytes()),
    }
}

/// Appends a string. Stops at `bytes_max`, because escapes make a text up to six times as long.
fn write_string(text: &str, bytes_max: usize, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(at) = find_special(rest) {
        out.extend_from_slice(&rest[..at]);
        match rest[at] {
            byte @ (b'"' | b'\\') => out.extend_from_slice(&[b'\\', byte]),
            byte => {
                let [high, low] = [byte >> 4, byte & 15].map(|digit| DIGITS[usize::from(digit)]);
                out.extend_from_slice(&[b'\\', b'u', b'0', b'0', high, low]);
            }
        }
        rest = &rest[at + 1..];
        if out.len() > bytes_max {
            return;
        }
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

/// Returns the index of the first byte that JSON escapes. Compares sixteen bytes together: one by one took three times
/// as long as other work of the same number of steps.
fn find_special(text: &[u8]) -> Option<usize> {
    let is_special = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
    let (chunks, rest) = text.as_chunks::<16>();
    let has_some = |chunk: &[u8; 16]| chunk.iter().fold(false, |any, byte| any | is_special(byte));
    let (from, found) = match chunks.iter().position(has_some) {
        Some(chunk) => (chunk * 16, chunks[chunk].iter().position(is_special)),
        None => (text.len() - rest.len(), rest.iter().position(is_special)),
    };
    Some(from + found?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_an_array() {
        let text = |text: &'static str| Cell::String(text.into());
        let cells = [
            Cell::Null,
            Cell::Bool(true),
            Cell::Int(-7),
            Cell::Double(1e300),
            Cell::Double(0.1),
            Cell::Time(1_657_746_248_000),
            Cell::Time(i64::MAX),
            text("a\"\\\n\u{1}ß"),
            Cell::Json("{\"b\":[1]}".into()),
        ];
        let mut out = Vec::new();
        assert!(write_row(cells.into_iter(), 1000, &mut out));
        let expected = r#"[null,true,-7,1e300,0.1,"2022-07-13T21:04:08Z",null,"a\"\\\u000a\u0001ß",{"b":[1]}]"#;
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        for at in 0..40 {
            for special in ['\u{1f}', '"', '\\', '\0'] {
                let (before, after) = ("ß".repeat(at), "é\u{7f} ".repeat(20));
                let expected = Some(before.len());
                assert_eq!(find_special(format!("{before}{special}{after}").as_bytes()), expected);
            }
            assert_eq!(find_special(&b"\x20!#[]\x7f\xff".repeat(at)), None);
        }
        let many = std::iter::repeat_with(|| text("abcdefgh")).take(1000);
        let mut out = Vec::new();
        assert!(!write_row(many, 100, &mut out) && out.len() < 120);
    }
}
