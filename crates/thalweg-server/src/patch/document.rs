use std::borrow::Cow;

use super::{Budget, NoPatch, number};

/// Where the values of a JSON text are. In the order of the text: an object or array comes
/// before what is in it; the name of a member before its value.
#[derive(Debug)]
pub(super) struct Document<'a> {
    json: &'a [u8],
    nodes: Vec<Node>,
}

/// A value's place among the nodes.
pub(super) type Index = usize;

/// The whole document.
pub(super) const ROOT: Index = 0;

#[derive(Debug, Clone, Copy)]
struct Node {
    start: u32,
    end: u32,
    /// The first node behind it and all that is in it.
    after: u32,
}

/// Levels of a document that is patched: readers have a bound, and a patch adds some.
const DEPTH_MAX: usize = 100;

/// What a value is, as far as a patch asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Object,
    Array,
    Scalar,
}

impl<'a> Document<'a> {
    pub(super) fn read<F: FnMut() -> bool>(
        json: &'a [u8],
        budget: &mut Budget<F>,
    ) -> Result<Self, NoPatch> {
        if u32::try_from(json.len()).is_err() {
            return Err(NoPatch::TooLarge);
        }
        let mut nodes: Vec<Node> = Vec::new();
        let mut open: Vec<usize> = Vec::new();
        let mut at = 0;
        while let Some(&byte) = json.get(at) {
            let start = at;
            match byte {
                b',' | b':' => {
                    at += 1;
                    continue;
                }
                b'}' | b']' => {
                    at += 1;
                    let after = nodes.len() as u32;
                    let closed = open.pop().ok_or(NoPatch::Unsafe)?;
                    (nodes[closed].end, nodes[closed].after) = (at as u32, after);
                    continue;
                }
                b'{' | b'[' => {
                    if open.len() == DEPTH_MAX {
                        return Err(NoPatch::Unsafe);
                    }
                    open.push(nodes.len());
                    at += 1;
                }
                b'"' => {
                    at += string_len(&json[at..]);
                    if !has_whole_characters(&json[start..at]) {
                        return Err(NoPatch::Unsafe);
                    }
                }
                _ => {
                    at += scalar_len(&json[at..]);
                    if !number::survives(&json[start..at]) {
                        return Err(NoPatch::Unsafe);
                    }
                }
            }
            let after = nodes.len() as u32 + 1;
            nodes.push(Node { start: start as u32, end: at as u32, after });
            budget.spend(size_of::<Node>() + at - start)?;
        }
        if nodes.is_empty() || !open.is_empty() {
            return Err(NoPatch::Unsafe);
        }
        Ok(Self { json, nodes })
    }

    /// A value's text.
    pub(super) fn text(&self, index: Index) -> &'a [u8] {
        let node = self.nodes[index];
        &self.json[node.start as usize..node.end as usize]
    }

    pub(super) fn kind(&self, index: Index) -> Kind {
        match self.json[self.nodes[index].start as usize] {
            b'{' => Kind::Object,
            b'[' => Kind::Array,
            _ => Kind::Scalar,
        }
    }

    /// What is in an array; of an object, names and values in turn.
    pub(super) fn children(&self, index: Index) -> impl Iterator<Item = Index> {
        let end = self.nodes[index].after as usize;
        let first = Some(index + 1).filter(|first| *first < end);
        std::iter::successors(first, move |child| {
            Some(self.nodes[*child].after as usize).filter(|next| *next < end)
        })
    }

    /// An object's members: name (as it stands, with its quotes) and value.
    pub(super) fn members(&self, index: Index) -> impl Iterator<Item = (&'a [u8], Index)> {
        let mut children = self.children(index);
        std::iter::from_fn(move || Some((self.text(children.next()?), children.next()?)))
    }
}

/// The text that a JSON string stands for.
pub(super) fn unquoted(string: &[u8]) -> Option<Cow<'_, str>> {
    let inner = string.get(1..string.len().checked_sub(1)?)?;
    if memchr::memchr(b'\\', inner).is_none() {
        return std::str::from_utf8(inner).ok().map(Cow::Borrowed);
    }
    serde_json::from_slice(string).ok().map(Cow::Owned)
}

/// Bytes of the string that `json` begins with, with its quotes.
fn string_len(json: &[u8]) -> usize {
    let mut at = 1;
    while let Some(found) = json.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        at += found;
        if json[at] == b'"' {
            return at + 1;
        }
        at += 2;
    }
    json.len()
}

/// Bytes of the number or word that `json` begins with.
fn scalar_len(json: &[u8]) -> usize {
    let is_end = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b':');
    json.iter().position(is_end).unwrap_or(json.len()).max(1)
}

/// Whether no escape of a string is half of a surrogate pair (RFC 8259 §8.2): readers change it, or
/// refuse it.
fn has_whole_characters(string: &[u8]) -> bool {
    let mut at = 0;
    while let Some(found) = string.get(at..).and_then(|rest| memchr::memchr(b'\\', rest)) {
        at += found;
        at += match surrogate(string, at) {
            None => 2,
            Some(0xd800..0xdc00) if matches!(surrogate(string, at + 6), Some(0xdc00..0xe000)) => 12,
            Some(_) => return false,
        };
    }
    true
}

/// The half of a surrogate pair that is escaped at this place, if one is.
fn surrogate(string: &[u8], at: usize) -> Option<u16> {
    let digits = string.get(at..at + 6)?.strip_prefix(b"\\u")?;
    let unit = u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    (0xd800..0xe000).contains(&unit).then_some(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_character_is_found() {
        let check = |string: &str, expected| {
            assert_eq!(has_whole_characters(string.as_bytes()), expected, "{string}");
        };
        for whole in ["", "é", r#"\n\"\\u"#, r"\ud83d\ude00", r"x\uD83D\uDE00\u00e9", r"\\ud83d"] {
            check(whole, true);
        }
        for half in
            [r"\ud83d", r"\ude00", r"\ud83dx", r"\ud83d\n", r"\ude00\ud83d", r"\ud83d\ud83d\ude00"]
        {
            check(half, false);
        }
    }
}
