//! Writes JSON piece by piece.

pub(crate) fn push(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // Writing to a Vec cannot fail.
    let _ = std::io::Write::write_fmt(out, text);
}

pub(crate) fn separate(index: usize, out: &mut Vec<u8>) {
    if index > 0 {
        out.push(b',');
    }
}

pub(crate) fn join<'a>(items: impl Iterator<Item = &'a String>, out: &mut Vec<u8>) {
    for (index, item) in items.enumerate() {
        separate(index, out);
        out.extend_from_slice(item.as_bytes());
    }
}
