//! Finds one value in a JSON text without building the rest. Text after the value is not read, and text before it is hardly checked, so a
//! text that is not JSON may have a value or none.

use crate::scenario::PathStep;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// A value that is no object, array or null.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scalar {
    Whole(u64),
    Float(f64),
    Text(String),
}

impl Scalar {
    /// Returns whether the value is written like this, with or without quotes.
    pub(super) fn is(&self, text: &str) -> bool {
        match self {
            Scalar::Whole(number) => number.to_string() == text,
            Scalar::Float(number) => number.to_string() == text,
            Scalar::Text(value) => value == text,
        }
    }

    /// Returns the value as an integer, also if it is written as a string.
    pub(super) fn whole(&self) -> Option<u64> {
        match self {
            Scalar::Whole(number) => Some(*number),
            Scalar::Float(_) => None,
            Scalar::Text(text) => text.parse().ok(),
        }
    }
}

/// Returns the value at the end of the path; `None` also for an object, an array or null.
pub(super) fn find(json: &[u8], path: &[PathStep]) -> Option<Scalar> {
    let mut found = None;
    // A walk that has found the value stops reading, which the parser reports as an error.
    let _ = Walk { path, found: &mut found }
        .deserialize(&mut serde_json::Deserializer::from_slice(json));
    found
}

/// The path to the wanted value from the value that comes next.
struct Walk<'a> {
    path: &'a [PathStep],
    found: &'a mut Option<Scalar>,
}

impl Walk<'_> {
    fn take<E>(self, scalar: impl FnOnce() -> Scalar) -> Result<(), E> {
        if self.path.is_empty() {
            *self.found = Some(scalar());
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        value.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    /// Takes the first of several members with the same name.
    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let Some((PathStep::Key(key) | PathStep::Either(key, _), path)) = self.path.split_first()
        else {
            return Ok(());
        };
        while let Some(is_it) = members.next_key_seed(Is(key))? {
            if is_it {
                return members.next_value_seed(Walk { path, found: self.found });
            }
            members.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        let Some((PathStep::Index(index) | PathStep::Either(_, index), path)) =
            self.path.split_first()
        else {
            return Ok(());
        };
        for _ in 0..*index {
            if elements.next_element::<IgnoredAny>()?.is_none() {
                return Ok(());
            }
        }
        elements.next_element_seed(Walk { path, found: self.found }).map(drop)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        self.take(|| Scalar::Whole(number))
    }

    /// Takes a negative number, which is neither a time nor the number of an event, as a text.
    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        self.take(|| Scalar::Text(number.to_string()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        self.take(|| Scalar::Float(number))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.take(|| Scalar::Text(value.to_string()))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.take(|| Scalar::Text(text.to_owned()))
    }
}

/// Whether a key is this one.
struct Is<'a>(&'a str);

impl<'de> DeserializeSeed<'de> for Is<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, key: D) -> Result<bool, D::Error> {
        key.deserialize_str(self)
    }
}

impl Visitor<'_> for Is<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<bool, E> {
        Ok(key == self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::JsonPath;
    use proptest::prelude::*;
    use serde_json::Value;

    fn at(json: &str, path: &str) -> Option<Scalar> {
        find(json.as_bytes(), path.parse::<JsonPath>().unwrap().steps())
    }

    #[test]
    fn values_are_found_where_they_are() {
        let json =
            r#" {"x":{"ts":1,"\"}":[2]}, "a" : [ {"b":"q\"]"} , [ 3 ,4] ,5 ],"e\u0061":6,"":7.5} "#;
        let check = |path, expected| assert_eq!(at(json, path), expected, "{path}");
        check("x.ts", Some(Scalar::Whole(1)));
        check("ts", None);
        check("a[0].b", Some(Scalar::Text("q\"]".to_owned())));
        check("/a/1/1", Some(Scalar::Whole(4)));
        check("a[2]", Some(Scalar::Whole(5)));
        check("a[3]", None);
        check("a.b", None);
        check("x[0]", None);
        check("x", None);
        check("ea", Some(Scalar::Whole(6)));
        check("/", Some(Scalar::Float(7.5)));
        assert_eq!(at("17", "$"), Some(Scalar::Whole(17)));
        assert_eq!(at(r#"{"code":-1}"#, "code"), Some(Scalar::Text("-1".to_owned())));
        assert_eq!(at("[]", "[0]"), None);
        assert_eq!(at(r#"{"0":8}"#, "/0"), Some(Scalar::Whole(8)));
        assert_eq!(at("", "$"), None);
        // The JSON may be incomplete.
        assert_eq!(at(r#"{"a":1,"b":"#, "a"), Some(Scalar::Whole(1)));
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<u32>().prop_map(Value::from),
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
            let expected = match json.pointer(&pointer) {
                Some(Value::Number(number)) => number.as_u64().map(Scalar::Whole),
                Some(Value::String(text)) => Some(Scalar::Text(text.clone())),
                _ => None,
            };
            prop_assert_eq!(at(&text, &pointer), expected);
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
