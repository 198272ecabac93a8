//! `LIKE`: `%` matches any text, `_` any character.

use crate::{limits::LIKE_CHARS_PER_STEP, meter::Meter};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LikePattern {
    parts: Vec<Part>,
    /// Whether case is ignored (`ILIKE`).
    ignores_case: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    One(char),
    Any,
    AnyText,
}

impl LikePattern {
    /// Returns a pattern. After the character `escape`, `%` and `_` stand for themselves. `None` if no character follows it.
    pub(crate) fn new(pattern: &str, escape: Option<char>, ignores_case: bool) -> Option<Self> {
        let mut parts = Vec::new();
        let mut characters = pattern.chars();
        while let Some(character) = characters.next() {
            let part = match character {
                _ if Some(character) == escape => Some(Part::One(characters.next()?)),
                '%' => (parts.last() != Some(&Part::AnyText)).then_some(Part::AnyText),
                '_' => Some(Part::Any),
                _ => Some(Part::One(character)),
            };
            parts.extend(part);
        }
        if ignores_case {
            let lower = |part| match part {
                Part::One(character) => Part::One(lower(character)),
                part => part,
            };
            parts = parts.into_iter().map(lower).collect();
        }
        Some(Self { parts, ignores_case })
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.parts.capacity() * size_of::<Part>()
    }

    /// Returns whether a text matches. The algorithm only goes back to the last `%`, and therefore examines at most
    /// text × pattern characters; `None` if the meter has fewer steps.
    pub(crate) fn is_match(&self, text: &str, meter: &Meter) -> Option<bool> {
        let mut looks = 0;
        let mut rest = text.chars();
        let mut at = 0;
        // After the last `%`: its place, and the unmatched text.
        let mut again: Option<(usize, std::str::Chars<'_>)> = None;
        loop {
            let before = rest.clone();
            let next = rest.next();
            looks += match next {
                Some(character) if self.ignores_case && !character.is_ascii() => LOWERED_LOOKS,
                _ => 1,
            };
            if looks >= LIKE_CHARS_PER_STEP {
                meter.spend(looks / LIKE_CHARS_PER_STEP).then_some(())?;
                looks %= LIKE_CHARS_PER_STEP;
            }
            match (self.parts.get(at), next) {
                (Some(Part::AnyText), _) => {
                    at += 1;
                    again = Some((at, before.clone()));
                    rest = before;
                }
                (Some(Part::Any), Some(_)) => at += 1,
                (Some(Part::One(expected)), Some(character))
                    if *expected
                        == if self.ignores_case { lower(character) } else { character } =>
                {
                    at += 1;
                }
                (None, None) => return Some(true),
                _ => {
                    let Some((behind, text)) = &mut again else { return Some(false) };
                    if text.next().is_none() {
                        return Some(false);
                    }
                    (at, rest) = (*behind, text.clone());
                }
            }
        }
    }
}

/// Cost of converting a non-ASCII character to lower case, in examined characters.
const LOWERED_LOOKS: u64 = 8;

/// Returns the lower case of a character; the first one if it has several.
fn lower(character: char) -> char {
    character.to_lowercase().next().unwrap_or(character)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{limits::Bounds, meter::Over};

    fn meter(steps: u64) -> Meter {
        Meter::new(&Bounds { row_steps: steps, ..Bounds::default() }, u64::MAX)
    }

    #[test]
    fn patterns_match_whole_texts() {
        for (pattern, text, expected) in [
            ("c0%", "c00777", true),
            ("c0", "c00777", false),
            ("%7_7", "c00777", true),
            ("%a%b%", "xxaxxbxx", true),
            ("%a%b%", "xxbxxaxx", false),
            ("_", "ß", true),
            ("", "", true),
            ("%", "", true),
            ("_%", "", false),
            ("C%", "c", false),
            ("10!%", "10%", true),
            ("10!%", "10x", false),
        ] {
            assert_eq!(
                LikePattern::new(pattern, Some('!'), false)
                    .map(|known| known.is_match(text, &meter(1_000))),
                Some(Some(expected)),
                "{text} LIKE {pattern}"
            );
        }
        let like = LikePattern::new("C%É", None, true).unwrap();
        assert_eq!(like.is_match("cxé", &meter(1_000)), Some(true));
        assert_eq!(LikePattern::new("abc!", Some('!'), false), None);
    }

    #[test]
    fn no_pattern_takes_more_than_its_length_times_the_text() {
        let (pattern, text) = ("%a".repeat(200), "a".repeat(150) + &"b".repeat(3000));
        let (plenty, like) = (meter(1_000_000), LikePattern::new(&pattern, None, false).unwrap());
        assert_eq!(like.is_match(&text, &plenty), Some(false));
        assert!(plenty.steps() < 400 * 3150 / LIKE_CHARS_PER_STEP, "{}", plenty.steps());
        let (pattern, text) = (format!("%{}b", "a".repeat(3000)), "a".repeat(1 << 16));
        let (few, like) = (meter(100_000), LikePattern::new(&pattern, None, false).unwrap());
        assert_eq!(like.is_match(&text, &few), None);
        assert_eq!((few.over(), few.steps()), (Some(Over::Steps), 100_000));
    }
}
