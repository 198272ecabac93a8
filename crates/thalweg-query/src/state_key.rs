//! The key of a group in a keyed topic.

use std::fmt::Write;

use thalweg_columns::Cell;

use crate::limits::KEY_BYTES_MAX;

/// Writes the key of a group; different groups of a query have different keys. A single value is written as text, several values
/// as a JSON array, and so is a text that could be taken for NULL or for an array, or that has control characters. Returns `false` if the
/// key is too long.
pub(crate) fn write_state_key(values: &[Cell<'_>], out: &mut String) -> bool {
    out.clear();
    match values {
        // One character more shows that the key is too long.
        [Cell::String(text)] if is_plain(text) => out.extend(text.chars().take(KEY_BYTES_MAX + 1)),
        [Cell::Time(ms)] => push_time(*ms, "", out),
        [Cell::String(_)] | [] | [_, _, ..] => {
            for (index, value) in values.iter().enumerate() {
                out.push(if index == 0 { '[' } else { ',' });
                push_value(value, out);
            }
            out.push_str(if values.is_empty() { "[]" } else { "]" });
        }
        [only] => push_value(only, out),
    }
    out.len() <= KEY_BYTES_MAX
}

fn is_plain(text: &str) -> bool {
    !text.is_empty()
        && text != "null"
        && !text.starts_with('[')
        && !text.chars().take(KEY_BYTES_MAX).any(char::is_control)
}

/// Appends a value as JSON. Writing to a `String` cannot fail.
fn push_value(value: &Cell<'_>, out: &mut String) {
    match value {
        Cell::Null => out.push_str("null"),
        Cell::Bool(value) => drop(write!(out, "{value}")),
        Cell::Int(number) => drop(write!(out, "{number}")),
        Cell::Double(number) => {
            // -0.0 and 0.0 are one group, and an int that becomes a double keeps its key.
            let text = format!("{:?}", number + 0.0);
            out.push_str(text.strip_suffix(".0").unwrap_or(&text));
        }
        Cell::Time(ms) => push_time(*ms, "\"", out),
        Cell::String(text) => {
            out.push('"');
            push_escaped(text, 'u', |character| matches!(character, '"' | '\\'), out);
            out.push('"');
        }
        // A control character and its escape are different values of JSON, so the key needs an escape that JSON does not have.
        Cell::Json(text) => push_escaped(text, 'x', |_| false, out),
    }
}

/// Appends a time. One that has no text is written as a number, so that it differs from NULL.
fn push_time(ms: i64, quote: &str, out: &mut String) {
    let _ = match thalweg_columns::time_text(ms) {
        Some(text) => write!(out, "{quote}{text}{quote}"),
        None => write!(out, "{ms}"),
    };
}

/// Appends a text whose control characters are escaped with this letter, and other characters if `is_special`. Stops when the key is
/// too long.
fn push_escaped(text: &str, escape: char, is_special: impl Fn(char) -> bool, out: &mut String) {
    for character in text.chars() {
        if out.len() > KEY_BYTES_MAX {
            return;
        }
        match character {
            control if control.is_control() => {
                let _ = write!(out, "\\{escape}{:04x}", control as u32);
            }
            special if is_special(special) => out.extend(['\\', special]),
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn key(values: &[Cell<'_>]) -> Option<String> {
        let mut out = "before".to_owned();
        write_state_key(values, &mut out).then_some(out)
    }

    fn text(text: &str) -> Cell<'_> {
        Cell::String(text.into())
    }

    #[test]
    fn a_single_value_is_its_text() {
        for (value, expected) in [
            (text("c01"), "c01"),
            (text("two words"), "two words"),
            (text("null"), r#"["null"]"#),
            (text(""), r#"[""]"#),
            (text("[1]"), r#"["[1]"]"#),
            (text("a\n\"\\\u{85}"), r#"["a\u000a\"\\\u0085"]"#),
            (Cell::Null, "null"),
            (Cell::Int(-5), "-5"),
            (Cell::Double(-5.0), "-5"),
            (Cell::Double(-0.0), "0"),
            (Cell::Double(0.1), "0.1"),
            (Cell::Double(1e300), "1e300"),
            (Cell::Bool(true), "true"),
            (Cell::Time(1_657_746_248_000), "2022-07-13T21:04:08Z"),
            (Cell::Time(i64::MAX), "9223372036854775807"),
            (Cell::Json("[1,\"\u{7f}\"]".into()), "[1,\"\\x007f\"]"),
            (Cell::Json("[1,\"\\u007f\"]".into()), "[1,\"\\u007f\"]"),
        ] {
            assert_eq!(key(std::slice::from_ref(&value)).as_deref(), Some(expected), "{value:?}");
        }
    }

    #[test]
    fn several_values_are_an_array() {
        let time = Cell::Time(1_657_746_248_000);
        let values = [text("a\"b"), Cell::Null, Cell::Double(2.0), time, Cell::Json("[]".into())];
        let expected = r#"["a\"b",null,2,"2022-07-13T21:04:08Z",[]]"#;
        assert_eq!(key(&values).as_deref(), Some(expected));
        assert_eq!(key(&[]).as_deref(), Some("[]"));
    }

    #[test]
    fn different_groups_have_different_keys() {
        let texts = ["", "null", "[", "[\"\"]", "[\"null\"]", "a", "a\n", "a\\u000a", "[\"a\\n\"]"];
        let mut known: HashSet<String> = HashSet::from([key(&[Cell::Null]).expect("a key")]);
        for one in texts {
            assert!(known.insert(key(&[text(one)]).expect("a key")), "{one:?}");
        }
    }

    #[test]
    fn a_key_has_a_limit() {
        for (count, is_key) in [(KEY_BYTES_MAX, true), (KEY_BYTES_MAX + 1, false), (1 << 20, false)]
        {
            assert_eq!(key(&[text(&"a".repeat(count))]).is_some(), is_key, "{count}");
        }
        let mut out = String::new();
        assert!(!write_state_key(&[text(&"\n".repeat(1 << 20)), Cell::Null], &mut out));
        assert!(out.len() < 2 * KEY_BYTES_MAX, "no more is written than needed");
        assert!(!write_state_key(&[Cell::Json("7".repeat(1 << 20).into())], &mut out));
    }
}
