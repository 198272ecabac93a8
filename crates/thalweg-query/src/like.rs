//! `LIKE`: `%` is any text, `_` any character.

use crate::limits::LIKE_STEPS_MAX;

/// A pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LikePattern {
    parts: Vec<Part>,
    /// Whether capitals count as the same (`ILIKE`).
    ignores_case: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    One(char),
    Any,
    AnyText,
}

impl LikePattern {
    /// `escape`: the character behind which `%` and `_` are themselves, if there is one. `None` if no character follows it.
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

    /// Whether a text is like it. It goes back to the last `%` only, and takes text × pattern steps at most; `None` if that is
    /// too many.
    pub(crate) fn is_match(&self, text: &str) -> Option<bool> {
        let mut steps = LIKE_STEPS_MAX + 4 * text.len();
        let mut rest = text.chars();
        let mut at = 0;
        // Behind the last `%`: its place, and the text that it has not taken yet.
        let mut again: Option<(usize, std::str::Chars<'_>)> = None;
        loop {
            steps = steps.checked_sub(1)?;
            let before = rest.clone();
            let next = rest.next();
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

/// Of the few characters whose small letter is several, the first.
fn lower(character: char) -> char {
    character.to_lowercase().next().unwrap_or(character)
}

#[cfg(test)]
mod tests {
    use super::*;

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
                LikePattern::new(pattern, Some('!'), false).map(|known| known.is_match(text)),
                Some(Some(expected)),
                "{text} LIKE {pattern}"
            );
        }
        assert!(LikePattern::new("C%É", None, true).unwrap().is_match("cxé") == Some(true));
        assert_eq!(LikePattern::new("abc!", Some('!'), false), None);
    }

    #[test]
    fn no_pattern_takes_more_than_its_length_times_the_text() {
        let (pattern, text) = ("%a".repeat(200), "a".repeat(150) + &"b".repeat(3000));
        assert_eq!(LikePattern::new(&pattern, None, false).unwrap().is_match(&text), Some(false));
        let (pattern, text) = (format!("%{}b", "a".repeat(3000)), "a".repeat(1 << 20));
        assert_eq!(LikePattern::new(&pattern, None, false).unwrap().is_match(&text), None);
    }
}
