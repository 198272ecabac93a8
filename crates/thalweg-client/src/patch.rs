//! JSON Patch (RFC 6902) as servers use it: `add`, `remove`, `replace` and `move`. The time of a patch and the depth of
//! the resulting document are bounded, whatever the operations are.

use serde::Deserialize;
use serde_json::Value;

use crate::limits::{DOCUMENT_DEPTH_MAX, PATCH_MOVES_MAX, POINTER_DEPTH_MAX};

#[derive(Debug, Deserialize)]
struct Operation {
    op: String,
    path: String,
    #[serde(default)]
    from: String,
    #[serde(default)]
    value: Value,
}

/// Applies a patch to a document. Fails with one clause if the patch is invalid, an operation does not apply, or the patch is too much
/// work. The document is then unusable.
pub(crate) fn apply(document: &mut Value, patch: &str) -> Result<(), String> {
    let operations: Vec<Operation> =
        serde_json::from_str(patch).map_err(|error| error.to_string())?;
    let mut patching = Patching { document, moves: 0 };
    operations.into_iter().try_for_each(|operation| patching.execute(operation))
}

struct Patching<'a> {
    document: &'a mut Value,
    /// Array elements moved so far, to make room or to close gaps.
    moves: usize,
}

impl Patching<'_> {
    fn execute(&mut self, Operation { op, path, from, value }: Operation) -> Result<(), String> {
        match &*op {
            "add" => self.add(&path, value),
            "remove" => self.remove(&path).map(drop),
            "replace" => {
                let old = self.document.pointer_mut(checked(&path)?);
                *old.ok_or_else(|| nothing(&path))? = value;
                Ok(())
            }
            "move" => {
                let value = self.remove(&from)?;
                // A value that moves no deeper makes the document no deeper.
                if depth(&path) > depth(&from) {
                    self.check_depth(&value, depth(&path))?;
                }
                self.add(&path, value)
            }
            _ => Err(format!("unknown operation {op:?}")),
        }
    }

    fn add(&mut self, path: &str, value: Value) -> Result<(), String> {
        let Some((parent, name)) = checked(path)?.rsplit_once('/') else {
            *self.document = value;
            return Ok(());
        };
        match self.document.pointer_mut(parent) {
            Some(Value::Array(elements)) => {
                let at = match name {
                    "-" => elements.len(),
                    name => index(name, elements.len())?,
                };
                count(&mut self.moves, elements.len() - at)?;
                elements.insert(at, value);
            }
            Some(Value::Object(members)) => {
                members.insert(unescaped(name), value);
            }
            _ => return Err(nothing(parent)),
        }
        Ok(())
    }

    fn remove(&mut self, path: &str) -> Result<Value, String> {
        let (parent, name) = checked(path)?
            .rsplit_once('/')
            .ok_or("the path must name a member, not the document")?;
        match self.document.pointer_mut(parent) {
            Some(Value::Array(elements)) => {
                let last = elements.len().checked_sub(1).ok_or_else(|| nothing(path))?;
                let at = index(name, last)?;
                count(&mut self.moves, elements.len() - at)?;
                Ok(elements.remove(at))
            }
            Some(Value::Object(members)) => {
                members.remove(&unescaped(name)).ok_or_else(|| nothing(path))
            }
            _ => Err(nothing(parent)),
        }
    }

    /// Checks that a value may stand at this depth. Each visited value counts as moved.
    fn check_depth(&mut self, value: &Value, depth: usize) -> Result<(), String> {
        count(&mut self.moves, 1)?;
        if depth > DOCUMENT_DEPTH_MAX {
            return Err("the patch nests the document too deep".to_owned());
        }
        match value {
            Value::Array(elements) => {
                elements.iter().try_for_each(|element| self.check_depth(element, depth + 1))
            }
            Value::Object(members) => {
                members.values().try_for_each(|member| self.check_depth(member, depth + 1))
            }
            _ => Ok(()),
        }
    }
}

fn depth(pointer: &str) -> usize {
    pointer.bytes().filter(|byte| *byte == b'/').count()
}

/// Returns a pointer if it is a valid JSON Pointer (RFC 6901) within the limit of depth.
fn checked(pointer: &str) -> Result<&str, String> {
    match pointer.is_empty() || pointer.starts_with('/') {
        true if depth(pointer) <= POINTER_DEPTH_MAX => Ok(pointer),
        true => Err("a pointer reaches too deep".to_owned()),
        false => Err(format!("{pointer:?} is not a JSON Pointer")),
    }
}

fn unescaped(name: &str) -> String {
    name.replace("~1", "/").replace("~0", "~")
}

/// Returns the index of an element, at most `most`.
fn index(name: &str, most: usize) -> Result<usize, String> {
    let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
    let is_canonical = is_number && (name == "0" || !name.starts_with('0'));
    let at = name.parse().ok().filter(|at| is_canonical && *at <= most);
    at.ok_or_else(|| format!("no element {name:?}"))
}

fn count(moves: &mut usize, more: usize) -> Result<(), String> {
    *moves += more;
    match *moves <= PATCH_MOVES_MAX {
        true => Ok(()),
        false => Err("the patch moves too many elements".to_owned()),
    }
}

fn nothing(pointer: &str) -> String {
    format!("no value at {pointer:?}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(document: &Value, patch: &Value, expected: Option<&Value>) {
        let mut patched = document.clone();
        let applied = apply(&mut patched, &patch.to_string());
        match expected {
            Some(expected) => assert_eq!((applied, &patched), (Ok(()), expected), "{patch}"),
            None => assert!(applied.is_err(), "{patch}: {patched}"),
        }
    }

    #[test]
    fn operations_do_what_the_rfc_says() {
        let document = json!({"a": [1, 2, 3], "b/c": {"~": null}});
        let ok = |patch: Value, expected: Value| check(&document, &patch, Some(&expected));
        ok(
            json!([{"op": "add", "path": "/a/1", "value": 9}]),
            json!({"a": [1, 9, 2, 3], "b/c": {"~": null}}),
        );
        ok(
            json!([{"op": "add", "path": "/a/-", "value": 9}]),
            json!({"a": [1, 2, 3, 9], "b/c": {"~": null}}),
        );
        ok(json!([{"op": "remove", "path": "/b~1c/~0"}]), json!({"a": [1, 2, 3], "b/c": {}}));
        ok(json!([{"op": "replace", "path": "", "value": 7}]), json!(7));
        ok(json!([{"op": "add", "path": "", "value": [7]}]), json!([7]));
        ok(
            json!([{"op": "move", "from": "/a/0", "path": "/a/2"}]),
            json!({"a": [2, 3, 1], "b/c": {"~": null}}),
        );
        ok(
            json!([{"op": "move", "from": "/b~1c", "path": "/a/0"}]),
            json!({"a": [{"~": null}, 1, 2, 3]}),
        );
    }

    #[test]
    fn an_operation_that_does_not_apply_is_refused() {
        let document = json!({"a": [1]});
        for patch in [
            json!({}),
            json!([{"op": "copy", "from": "/a", "path": "/b"}]),
            json!([{"op": "test", "path": "/a", "value": [1]}]),
            json!([{"op": "add", "path": "a", "value": 1}]),
            json!([{"op": "add", "path": "/a/2", "value": 1}]),
            json!([{"op": "add", "path": "/a/01", "value": 1}]),
            json!([{"op": "add", "path": "/x/y", "value": 1}]),
            json!([{"op": "replace", "path": "/x", "value": 1}]),
            json!([{"op": "remove", "path": "/a/1"}]),
            json!([{"op": "remove", "path": ""}]),
            json!([{"op": "move", "from": "/a", "path": "/a/0"}]),
        ] {
            check(&document, &patch, None);
        }
    }

    /// A message of a few megabytes could otherwise cause minutes of work.
    #[test]
    fn a_patch_that_moves_too_much_is_refused() {
        let mut document = json!(vec![0; 100_000]);
        let operations =
            |count: usize| json!(vec![json!({"op": "add", "path": "/0", "value": 0}); count]);
        let mut patched = document.clone();
        assert_eq!(apply(&mut patched, &operations(150).to_string()), Ok(()));
        let too_many = apply(&mut document, &operations(200).to_string());
        assert_eq!(too_many, Err("the patch moves too many elements".to_owned()));
    }

    /// A document that grows by a hundred levels per operation would overflow the stack.
    #[test]
    fn a_document_stays_as_flat_as_recursion_allows() {
        let levels = |count: usize| "/0".repeat(count);
        let nested = (0..100).fold(json!([0]), |inner, _| json!([inner]));
        let deep = levels(POINTER_DEPTH_MAX + 1);
        check(&nested, &json!([{"op": "replace", "path": deep, "value": nested}]), None);
        let grow = json!({"op": "add", "path": levels(100), "value": nested});
        let lift = json!({"op": "add", "path": "/-", "value": 0});
        let sink = json!({"op": "move", "from": "/0", "path": format!("/1{}", levels(100))});
        let hook = json!({"op": "replace", "path": "/1", "value": nested});
        check(&nested, &json!([grow, lift, hook, sink]), None);
    }
}
