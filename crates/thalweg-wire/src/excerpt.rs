//! Excerpts of a peer's text for error messages.
//!
//! If a message repeated the whole text, a client could decide the length of answers: a name of 1 MB would come back
//! escaped, and therefore even longer.

use std::fmt;

use crate::limits::QUOTED_CHARS_MAX;

/// A peer's text, cut to [`QUOTED_CHARS_MAX`] characters; `…` stands for the rest. `Debug` quotes and escapes the text,
/// `Display` prints it unchanged.
#[derive(Clone, Copy)]
pub struct Excerpt<'a>(pub &'a str);

impl Excerpt<'_> {
    fn shown(&self) -> (&str, bool) {
        match self.0.char_indices().nth(QUOTED_CHARS_MAX) {
            Some((end, _)) => (&self.0[..end], true),
            None => (self.0, false),
        }
    }
}

impl fmt::Display for Excerpt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shown, is_cut) = self.shown();
        f.write_str(shown)?;
        f.write_str(if is_cut { "…" } else { "" })
    }
}

impl fmt::Debug for Excerpt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shown, is_cut) = self.shown();
        fmt::Debug::fmt(shown, f)?;
        f.write_str(if is_cut { "…" } else { "" })
    }
}

/// Returns the message of a `serde_json` error, with the text that it quotes cut to an excerpt.
pub fn told(error: &serde_json::Error) -> String {
    let said = error.to_string();
    let begin = said.find(['`', '"']).map(|at| at + 1);
    // The peer's text may contain the same words, but serde's own come last.
    let end = said.rfind(", expected").map(|at| at - 1);
    match begin.zip(end).filter(|(begin, end)| begin < end) {
        Some((begin, end)) => {
            let (before, quoted, after) = (&said[..begin], &said[begin..end], &said[end..]);
            format!("{before}{}{after}", Excerpt(quoted))
        }
        None => said,
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let (whole, long) = ("ü".repeat(64), "ü".repeat(65));
        assert_eq!(
            format!("{} {:?}", Excerpt(&whole), Excerpt("a\"b\n")),
            format!("{whole} \"a\\\"b\\n\"")
        );
        assert_eq!(
            format!("{} {:?}", Excerpt(&long), Excerpt(&long)),
            format!("{whole}… \"{whole}\"…")
        );
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Fields {
        #[expect(dead_code, reason = "only its errors are looked at")]
        list: Vec<u8>,
    }

    #[test]
    fn quotations_of_serde_are_cut_and_its_own_words_are_not() {
        for (name, shown) in [("short", "short"), ("x, expected y", "x, expected y")] {
            let error = serde_json::from_str::<Fields>(&format!(r#"{{"{name}":1}}"#)).unwrap_err();
            let expected = format!("unknown field `{shown}`, expected `list` at line 1 column ");
            assert!(told(&error).starts_with(&expected), "{}", told(&error));
        }
        let long = "`, expected \"".replace('"', "'").repeat(100_000);
        for text in [format!(r#"{{"{long}":1}}"#), format!(r#"{{"list":"{long}"}}"#)] {
            let error = serde_json::from_str::<Fields>(&text).unwrap_err();
            let told = told(&error);
            assert!(told.len() < 200 && told.contains('…'), "{told}");
            assert!(told.contains(", expected ") && told.contains(" at line 1 column "), "{told}");
        }
        for text in ["", "{", "{}", r#"{"list":3}"#, r#"{"list":[-1]}"#, r#""x""#] {
            let error = serde_json::from_str::<Fields>(text).unwrap_err();
            assert_eq!(told(&error), error.to_string());
        }
    }
}
