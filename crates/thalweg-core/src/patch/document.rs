use std::borrow::Cow;

use thalweg_wire::event::string_len;

use super::{NoPatch, PatchBudget, number};

/// The places of a JSON text's values, in the order of the text: an object or array comes before its contents, the
/// name of a member before its value.
#[derive(Debug, PartialEq)]
pub(super) struct JsonDocument<'a> {
    json: &'a [u8],
    nodes: Vec<Node>,
}

/// A value's index among the nodes.
pub(super) type Index = usize;

pub(super) const ROOT: Index = 0;

#[derive(Debug, Clone, Copy, PartialEq)]
struct Node {
    start: u32,
    end: u32,
    /// The first node after the value and its contents.
    after: u32,
}

/// Maximum nesting depth of a document that is patched. JSON readers have a limit, and a patch adds levels.
const DEPTH_MAX: usize = 100;

/// The kind of a value, as far as patches distinguish them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Object,
    Array,
    Scalar,
}

/// An object or array whose end is not read yet.
struct Open {
    index: usize,
    /// The likeness of the value after the object or array.
    like_next: Likeness,
}

/// Values of an earlier document that are probably equal to the next value, the most probable one first. All
/// of them are siblings, at the same depth as the next value.
#[derive(Debug, Clone, Copy, Default)]
struct Likeness {
    first: usize,
    end: usize,
}

impl<'a> JsonDocument<'a> {
    /// Reads a JSON text. If `like` has an equal value at the same place, the value is copied from there.
    pub(super) fn read<F: FnMut() -> bool>(
        json: &'a [u8],
        like: Option<&JsonDocument<'_>>,
        budget: &mut PatchBudget<F>,
    ) -> Result<Self, NoPatch> {
        if u32::try_from(json.len()).is_err() {
            return Err(NoPatch::TooLarge);
        }
        // A value takes about ten bytes, with its comma, colon or bracket.
        let nodes = Vec::with_capacity(like.map_or(json.len() / 8, |like| like.nodes.len() + 64));
        let mut all = Self { json, nodes };
        let mut likeness = Likeness { first: 0, end: like.map_or(0, |like| like.nodes.len()) };
        let mut open: Vec<Open> = Vec::new();
        let mut at = 0;
        while let Some(&byte) = json.get(at) {
            match byte {
                b',' | b':' => {
                    at += 1;
                    continue;
                }
                b'}' | b']' => {
                    at += 1;
                    let after = all.nodes.len() as u32;
                    let closed = open.pop().ok_or(NoPatch::Unsafe)?;
                    let node = &mut all.nodes[closed.index];
                    (node.end, node.after) = (at as u32, after);
                    likeness = closed.like_next;
                    continue;
                }
                _ => {}
            }
            let alike = like.filter(|_| likeness.first < likeness.end);
            let behind = Likeness {
                first: alike.map_or(0, |like| like.nodes[likeness.first].after as usize),
                end: likeness.end,
            };
            if let Some(like) = alike
                && let Some(end) = all.take(at, like, likeness.first, budget)?
            {
                (at, likeness) = (end, behind);
                continue;
            }
            let inside = Likeness { first: likeness.first + 1, end: behind.first };
            likeness = behind;
            let start = at;
            match byte {
                b'{' | b'[' => {
                    if open.len() == DEPTH_MAX {
                        return Err(NoPatch::Unsafe);
                    }
                    open.push(Open { index: all.nodes.len(), like_next: behind });
                    likeness = inside;
                    at += 1;
                }
                b'"' => {
                    let (len, has_escapes) = string_len(&json[at..]);
                    at += len;
                    if has_escapes && !has_whole_characters(&json[start..at]) {
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
            let after = all.nodes.len() as u32 + 1;
            all.nodes.push(Node { start: start as u32, end: at as u32, after });
            budget.spend(size_of::<Node>() + at - start)?;
        }
        if all.nodes.is_empty() || !open.is_empty() {
            return Err(NoPatch::Unsafe);
        }
        Ok(all)
    }

    /// Copies a value with its contents from `like`, if the text has an equal value here. Returns the end of
    /// the value.
    fn take<F: FnMut() -> bool>(
        &mut self,
        at: usize,
        like: &JsonDocument<'_>,
        index: Index,
        budget: &mut PatchBudget<F>,
    ) -> Result<Option<usize>, NoPatch> {
        let text = like.text(index);
        let end = at + text.len();
        budget.spend(text.len())?;
        // The value must also end here, because a number might continue.
        if self.json.get(at..end) != Some(text) || !self.json.get(end).is_none_or(is_end) {
            return Ok(None);
        }
        let node = like.nodes[index];
        let nodes = &like.nodes[index..node.after as usize];
        budget.spend(size_of_val(nodes))?;
        let (moved, renumbered) = (
            (at as u32).wrapping_sub(node.start),
            (self.nodes.len() as u32).wrapping_sub(index as u32),
        );
        self.nodes.extend(nodes.iter().map(|node| Node {
            start: node.start.wrapping_add(moved),
            end: node.end.wrapping_add(moved),
            after: node.after.wrapping_add(renumbered),
        }));
        Ok(Some(end))
    }

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

    /// Returns the elements of an array, or the names and values of an object in turn.
    pub(super) fn children(&self, index: Index) -> impl Iterator<Item = Index> {
        let end = self.nodes[index].after as usize;
        let first = Some(index + 1).filter(|first| *first < end);
        std::iter::successors(first, move |child| {
            Some(self.nodes[*child].after as usize).filter(|next| *next < end)
        })
    }

    /// Returns an object's members: the unparsed name with its quotes, and the value.
    pub(super) fn members(&self, index: Index) -> impl Iterator<Item = (&'a [u8], Index)> {
        let mut children = self.children(index);
        std::iter::from_fn(move || Some((self.text(children.next()?), children.next()?)))
    }
}

pub(super) fn unquoted(string: &[u8]) -> Option<Cow<'_, str>> {
    let inner = string.get(1..string.len().checked_sub(1)?)?;
    if memchr::memchr(b'\\', inner).is_none() {
        return std::str::from_utf8(inner).ok().map(Cow::Borrowed);
    }
    serde_json::from_slice(string).ok().map(Cow::Owned)
}

/// Returns the length of the number or word at the beginning of `json`, in bytes.
fn scalar_len(json: &[u8]) -> usize {
    json.iter().position(is_end).unwrap_or(json.len()).max(1)
}

/// Returns whether a value cannot continue with this byte.
fn is_end(byte: &u8) -> bool {
    matches!(byte, b',' | b'}' | b']' | b':')
}

/// Returns whether no escape of a string is half of a surrogate pair (RFC 8259 §8.2). Readers change or
/// reject such an escape.
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

fn surrogate(string: &[u8], at: usize) -> Option<u16> {
    let digits = string.get(at..at + 6)?.strip_prefix(b"\\u")?;
    let unit = u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    (0xd800..0xe000).contains(&unit).then_some(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incomplete_character_is_found() {
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
