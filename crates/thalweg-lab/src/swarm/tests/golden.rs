//! Golden byte streams, `tests/golden/*/*.golden`: input and its results, which do not depend on how the input is cut.
//!
//! A line `# …` begins a case, `< …` is input, `> …` is a result. Bytes are written as they are, but for `\r`, `\n`, `\\`,
//! `\xHH`.

use std::path::Path;

/// Passes the bytes to `check` whole, byte by byte, and in two pieces, cut at every place.
pub(in crate::swarm) fn cut_everywhere(bytes: &[u8], mut check: impl FnMut(&[&[u8]])) {
    check(&[bytes]);
    check(&bytes.chunks(1).collect::<Vec<_>>());
    for cut in 1..bytes.len() {
        let (first, second) = bytes.split_at(cut);
        check(&[first, second]);
    }
}

/// Cuts the bytes into pieces of these lengths; the last piece is the rest.
pub(in crate::swarm) fn cut<'a>(bytes: &'a [u8], lengths: &[usize]) -> Vec<&'a [u8]> {
    let (mut pieces, mut rest) = (Vec::new(), bytes);
    for length in lengths {
        let (piece, behind) = rest.split_at((*length).min(rest.len()));
        pieces.push(piece);
        rest = behind;
    }
    pieces.push(rest);
    pieces
}

pub(in crate::swarm) fn check(folder: &str, mut run: impl FnMut(&[&[u8]]) -> Vec<String>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(folder);
    let mut cases = 0;
    for file in std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
        let text = std::fs::read_to_string(&file).unwrap();
        for case in text.split("\n# ").skip(1) {
            let mut lines = case.lines();
            let name = format!("{}: {}", file.display(), lines.next().unwrap_or_default());
            let (mut bytes, mut expected) = (Vec::new(), Vec::new());
            for line in lines.filter(|line| !line.is_empty()) {
                match line.split_once(' ') {
                    Some(("<", escaped)) => bytes.extend(unescaped(escaped)),
                    Some((">", text)) => expected.push(text),
                    _ => panic!("{name}: {line:?} is neither `< …` nor `> …`"),
                }
            }
            cut_everywhere(&bytes, |pieces| {
                assert_eq!(run(pieces), expected, "{name}, {pieces:?}");
            });
            cases += 1;
        }
    }
    assert!(cases > 0, "no case in {}", folder.display());
}

fn unescaped(text: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, behind @ ..] = rest {
        let (byte, behind) = match (first, behind) {
            (b'\\', [b'x', a, b, behind @ ..]) => {
                let digits = std::str::from_utf8(&[*a, *b]).unwrap().to_owned();
                (u8::from_str_radix(&digits, 16).unwrap(), behind)
            }
            (b'\\', [b'r', behind @ ..]) => (b'\r', behind),
            (b'\\', [b'n', behind @ ..]) => (b'\n', behind),
            (b'\\', [b'\\', behind @ ..]) => (b'\\', behind),
            (b'\\', _) => panic!("{text:?}: an escape that is none"),
            (byte, behind) => (*byte, behind),
        };
        bytes.push(byte);
        rest = behind;
    }
    bytes
}
