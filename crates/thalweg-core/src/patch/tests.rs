use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};

use super::*;

fn operations(before: &Value, after: &Value) -> Result<String, NoPatch> {
    let (before, after) = (before.to_string(), after.to_string());
    let budget = PatchBudget::new(usize::MAX / 2, || false);
    let operations = between(before.as_bytes(), after.as_bytes(), budget)?;
    Ok(String::from_utf8(operations).unwrap())
}

fn check(before: &Value, after: &Value, expected: &str) {
    let operations = operations(before, after).unwrap();
    assert_eq!(operations, expected);
    assert_eq!(patched(before, &operations), read(after));
}

/// Returns the document as a reader reads it: its numbers may differ from the written ones.
fn read(document: &Value) -> Value {
    serde_json::from_str(&document.to_string()).expect("JSON")
}

fn patched(before: &Value, operations: &str) -> Value {
    let patch: json_patch::Patch =
        serde_json::from_str(&format!("[{operations}]")).expect("a patch");
    let mut patched = read(before);
    json_patch::patch(&mut patched, &patch).expect("a patch of this document");
    patched
}

#[test]
fn a_patch_has_all_changes() {
    check(&json!({"a": 1}), &json!({"a": 1}), "");
    let (before, after) = (json!({"score": [0, 0], "b": "x"}), json!({"score": [1, 0], "b": "x"}));
    check(&before, &after, r#"{"op":"replace","path":"/score/0","value":1}"#);
    check(&json!({"a": 1}), &json!({"b": 1, "a": 1}), r#"{"op":"add","path":"/b","value":1}"#);
    check(
        &json!({"a": 1, "b": [1, 2, 3, 4, 5, 6, 7]}),
        &json!({"b": [1, 2, 3, 4, 5, 6, 7]}),
        r#"{"op":"remove","path":"/a"}"#,
    );
    // Null is a value, and an array may change in its middle. RFC 7396 can express neither.
    check(
        &json!({"a": 1, "b": 2}),
        &json!({"a": null, "b": 2}),
        r#"{"op":"replace","path":"/a","value":null}"#,
    );
    let (before, after) =
        (json!([1, 2, 3, 4, 5, 6, 7, 8, 9]), json!([1, 2, 3, 4, 0, 5, 6, 7, 8, 9]));
    check(&before, &after, r#"{"op":"add","path":"/4","value":0}"#);
    let long = "x".repeat(80);
    let (before, after) = (json!({"a": long, "/~\"\n": 1}), json!({"a": long, "/~\"\n": 2}));
    check(&before, &after, r#"{"op":"replace","path":"/~1~0\"\u000a","value":2}"#);
}

#[test]
fn elements_with_an_id_are_known_by_it() {
    let player = |id: u64, goals: u64| json!({"id": id, "goals": goals, "name": "n".repeat(80)});
    let before = json!([player(1, 0), player(2, 0), player(3, 0), player(4, 0)]);
    let moved = json!([player(2, 0), player(3, 0), player(4, 0), player(1, 0)]);
    check(&before, &moved, r#"{"op":"move","from":"/0","path":"/3"}"#);
    let back = json!([player(4, 0), player(1, 0), player(2, 0), player(3, 0)]);
    check(&before, &back, r#"{"op":"move","from":"/3","path":"/0"}"#);
    let gone = json!([player(1, 0), player(3, 1), player(4, 0)]);
    check(
        &before,
        &gone,
        r#"{"op":"remove","path":"/1"},{"op":"replace","path":"/1/goals","value":1}"#,
    );
    let twice = json!([player(1, 0), player(1, 1)]);
    assert_eq!(patched(&before, &operations(&before, &twice).unwrap()), twice);
}

#[test]
fn documents_smaller_than_their_patch_are_replaced() {
    check(
        &json!({"a": [1, 2, 3], "b": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}),
        &json!({"a": [4, 5, 6], "b": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}),
        r#"{"op":"replace","path":"/a","value":[4,5,6]}"#,
    );
    let (before, after) = (r#"{"a":1}"#, r#"{"b":2}"#);
    let budget = PatchBudget::new(after.len(), || false);
    assert_eq!(between(before.as_bytes(), after.as_bytes(), budget), Err(NoPatch::TooLarge));
}

#[test]
fn an_object_with_a_name_twice_is_replaced() {
    let before = r#"{"x":{"a":1,"a":2},"pad":"pppppppppppppppppppppppppppp"}"#;
    let after = r#"{"x":{"a":3,"\u0061":2},"pad":"pppppppppppppppppppppppppppp"}"#;
    let budget = PatchBudget::new(1000, || false);
    let operations = between(before.as_bytes(), after.as_bytes(), budget).unwrap();
    let expected = r#"{"op":"replace","path":"/x","value":{"a":3,"\u0061":2}}"#;
    assert_eq!(String::from_utf8(operations).unwrap(), expected);
}

#[test]
fn a_number_that_readers_change_is_no_matter_of_a_patch() {
    let budget = || PatchBudget::new(1000, || false);
    let (plain, large) = (b"[1,2,3]", b"[1,2,123456789012345678901234567890]");
    assert_eq!(between(plain, large, budget()), Err(NoPatch::Unsafe));
    assert_eq!(between(large, plain, budget()), Err(NoPatch::Unsafe));
}

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        any::<f64>()
            .prop_filter_map("finite", |number| number.is_finite().then(|| Value::from(number))),
        "[a-c/~\"\\\\\n]{0,3}".prop_map(Value::from),
    ]
}

fn document() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(4, 40, 6, |inner| {
        let player =
            (0..6_u64, inner.clone()).prop_map(|(id, value)| json!({"id": id, "value": value}));
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::from),
            vec(player, 0..6).prop_map(Value::from),
            prop::collection::btree_map("[a-c/~\"]{0,2}", inner, 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None, cases: 2000, ..ProptestConfig::default()
    })]

    #[test]
    fn a_patch_makes_the_one_of_the_other(before in document(), after in document()) {
        let operations = operations(&before, &after).unwrap();
        prop_assert_eq!(patched(&before, &operations), read(&after));
    }

    #[test]
    fn a_document_is_read_beside_another_as_alone(a in document(), b in document(), c in document()) {
        let mut budget = PatchBudget::new(0, || false);
        let texts = [json!([a, [b, a], c, 1]), json!([c, [b, a, c], b, 12]), a, b, c];
        let texts = texts.map(|document| document.to_string());
        for (text, other) in texts.iter().flat_map(|text| texts.iter().map(move |other| (text, other))) {
            let other = JsonDocument::read(other.as_bytes(), None, &mut budget);
            let alone = JsonDocument::read(text.as_bytes(), None, &mut budget);
            prop_assert_eq!(JsonDocument::read(text.as_bytes(), other.as_ref().ok(), &mut budget), alone);
        }
    }
}
