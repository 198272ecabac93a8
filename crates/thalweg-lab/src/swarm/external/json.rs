//! Finds one value in a JSON text without building the rest.
//!
//! What it passes by it does not check: in a text that is not JSON it may find
//! something or nothing.

use crate::scenario::Step;
use memchr::memchr2;

/// The value at the end of the path, as it is written.
#[inline]
pub(super) fn find<'a>(json: &'a [u8], path: &[Step]) -> Option<&'a [u8]> {
    let mut at = space(json, 0);
    for step in path {
        at = match (json.get(at)?, step) {
            (b'{', Step::Key(key) | Step::Either(key, _)) => member(json, at + 1, key.as_bytes())?,
            (b'[', Step::Index(index) | Step::Either(_, index)) => element(json, at + 1, *index)?,
            _ => return None,
        };
    }
    json.get(at..value_end(json, at)?).filter(|value| !value.is_empty())
}

/// Where the value of this key begins; of several, the first.
#[inline]
fn member(json: &[u8], mut at: usize, key: &[u8]) -> Option<usize> {
    loop {
        at = space(json, at);
        if json.get(at)? != &b'"' {
            return None;
        }
        let end = string_end(json, at)?;
        let written = &json[at + 1..end - 1];
        at = space(json, end);
        if json.get(at)? != &b':' {
            return None;
        }
        at = space(json, at + 1);
        // What is written with a backslash is something else when it is read.
        let is_it = match memchr::memchr(b'\\', written) {
            None => written == key,
            Some(_) => is_escaped(written, key),
        };
        if is_it {
            return Some(at);
        }
        at = space(json, value_end(json, at)?);
        if json.get(at)? != &b',' {
            return None;
        }
        at += 1;
    }
}

fn is_escaped(written: &[u8], key: &[u8]) -> bool {
    let quoted = [b"\"", written, b"\""].concat();
    serde_json::from_slice::<String>(&quoted).is_ok_and(|text| text.as_bytes() == key)
}

fn element(json: &[u8], mut at: usize, index: usize) -> Option<usize> {
    at = space(json, at);
    for _ in 0..index {
        at = space(json, value_end(json, at)?);
        if json.get(at)? != &b',' {
            return None;
        }
        at = space(json, at + 1);
    }
    (json.get(at)? != &b']').then_some(at)
}

/// Where the value that begins here ends.
#[inline]
fn value_end(json: &[u8], at: usize) -> Option<usize> {
    match json.get(at)? {
        b'"' => string_end(json, at),
        b'{' | b'[' => container_end(json, at),
        _ => {
            let is_end =
                |byte: &u8| matches!(byte, b',' | b']' | b'}' | b' ' | b'\t' | b'\r' | b'\n');
            Some(json[at..].iter().position(is_end).map_or(json.len(), |length| at + length))
        }
    }
}

fn container_end(json: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 0usize;
    loop {
        match json.get(at)? {
            b'"' => {
                at = string_end(json, at)?;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        at += 1;
        if depth == 0 {
            return Some(at);
        }
    }
}

/// Behind the quote that ends the string which begins here.
#[inline]
fn string_end(json: &[u8], at: usize) -> Option<usize> {
    let mut at = at + 1;
    loop {
        at += memchr2(b'"', b'\\', json.get(at..)?)?;
        if json[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

#[inline]
fn space(json: &[u8], at: usize) -> usize {
    let rest = json.get(at..).unwrap_or_default();
    let is_space = |byte: &&u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    at + rest.iter().take_while(is_space).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::JsonPath;
    use proptest::prelude::*;
    use serde_json::Value;

    fn at<'a>(json: &'a str, path: &str) -> Option<&'a str> {
        let path: JsonPath = path.parse().unwrap();
        find(json.as_bytes(), path.steps()).map(|found| std::str::from_utf8(found).unwrap())
    }

    #[test]
    fn values_are_found_where_they_are() {
        let json =
            r#" {"x":{"ts":1,"\"}":[2]}, "a" : [ {"b":"q\"]"} , [ 3 ,4] ,5 ],"e\u0061":6,"":7} "#;
        let check = |path, expected| assert_eq!(at(json, path), expected, "{path}");
        check("x.ts", Some("1"));
        check("ts", None);
        check("a[0].b", Some(r#""q\"]""#));
        check("/a/1/1", Some("4"));
        check("a[2]", Some("5"));
        check("a[3]", None);
        check("a.b", None);
        check("x[0]", None);
        check("ea", Some("6"));
        check("/", Some("7"));
        check("/a/0", Some(r#"{"b":"q\"]"}"#));
        assert_eq!(at("17", "$"), Some("17"));
        assert_eq!(at("[]", "[0]"), None);
        assert_eq!(at(r#"{"0":8}"#, "/0"), Some("8"));
        assert_eq!(at("", "$"), None);
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i32>().prop_map(Value::from),
            "[ab\"\\\\{}\\[\\],:é\n]{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec(("[ab01\"\\\\]{0,2}", inner), 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_same_as_a_parser_that_builds_everything(
            json in json(), pointer in "(/[ab01\"\\\\]{0,2}){1,4}", is_pretty in any::<bool>(),
        ) {
            let write = if is_pretty { serde_json::to_string_pretty } else { serde_json::to_string };
            let text = write(&json).unwrap();
            let found = at(&text, &pointer).map(|it| serde_json::from_str::<Value>(it).unwrap());
            prop_assert_eq!(found.as_ref(), json.pointer(&pointer));
        }

        #[test]
        fn any_bytes_are_an_answer(bytes in "[ab01\"\\\\{}\\[\\],: é]{0,40}", pointer in "(/[ab01]){0,4}") {
            if let Ok(path) = pointer.parse::<JsonPath>() {
                let _ = find(bytes.as_bytes(), path.steps());
                let _ = find(&[b"{\"a\":", bytes.as_bytes()].concat(), path.steps());
                let _ = find(&[b"[0,", bytes.as_bytes()].concat(), path.steps());
            }
        }
    }
}
