//! Parts of a JSON value.

use std::borrow::Cow;

use crate::{Cell, Kind, cells::as_declared, json::Reader, unescape::unescape};

/// Returns the JSON of an object's member. `None`: the value is not an object, or has no such member. The last of several
/// members with the same name counts. The JSON must be valid, without whitespace between tokens.
pub fn member<'a>(json: &'a str, name: &str) -> Option<&'a str> {
    let mut reader = Reader::new(json.as_bytes());
    let mut goes_on = reader.peek() == Some(b'{') && reader.opens(b'}');
    let mut found = None;
    while goes_on {
        let (other, has_escapes) = reader.string();
        let is_it = match has_escapes {
            false => other == name.as_bytes(),
            true => unescape(other).is_some_and(|other| other == name),
        };
        reader.take(b':');
        let from = reader.at();
        reader.skip();
        if is_it {
            found = json.get(from..reader.at());
        }
        goes_on = reader.goes_on();
    }
    found
}

/// Returns the JSON of an array's element, from 0 on. `None`: the value is not an array, or has fewer elements.
pub fn element(json: &str, place: usize) -> Option<&str> {
    let mut reader = Reader::new(json.as_bytes());
    let mut goes_on = reader.peek() == Some(b'[') && reader.opens(b']');
    for _ in 0..place {
        if !goes_on {
            return None;
        }
        reader.skip();
        goes_on = reader.goes_on();
    }
    let from = reader.at();
    goes_on.then(|| reader.skip()).and_then(|()| json.get(from..reader.at()))
}

/// Returns a JSON value, read like a value of a column that is declared with this type; `None` if the type has no such value.
pub fn as_kind(json: &str, kind: Kind) -> Option<Cell<'_>> {
    if kind == Kind::Json {
        return Some(if json == "null" { Cell::Null } else { Cell::Json(Cow::Borrowed(json)) });
    }
    as_declared(kind.into(), Reader::new(json.as_bytes()).value(), json.as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found_by_name_and_place() {
        let json = r#"{"a":{"b":[1,"]",{}]},"a\u0062":"x","":0,"c":1,"c":null}"#;
        for (name, expected) in [
            ("a", Some(r#"{"b":[1,"]",{}]}"#)),
            ("ab", Some("\"x\"")),
            ("", Some("0")),
            ("c", Some("null")),
            ("A", None),
            ("b", None),
        ] {
            assert_eq!(member(json, name), expected, "{name}");
        }
        for (place, expected) in [(0, Some("1")), (1, Some("\"]\"")), (2, Some("{}")), (3, None)] {
            assert_eq!(element(r#"[1,"]",{}]"#, place), expected, "{place}");
        }
        for json in ["", "{}", "[]", "7", "null", "\"a\"", "true"] {
            assert_eq!((member(json, "a"), element(json, 0)), (None, None), "{json}");
        }
    }
}
