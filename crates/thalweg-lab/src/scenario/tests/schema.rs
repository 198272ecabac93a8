//! The tests generate `docs/scenario.schema.json` from the structures of a file, and compare both:
//!
//! ```sh
//! THALWEG_WRITE_DOCS=1 cargo test -p thalweg-lab --lib schema
//! ```

use crate::scenario::LIBRARY;
use crate::scenario::file::ScenarioFile;
use crate::scenario::quantity::{Axis, Quantity, Unit};
use crate::scenario::suite::SuiteFile;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::path::Path;
use std::{env, fs};

const SCHEMA: &str = "../../docs/scenario.schema.json";

impl<T: JsonSchema, U: Unit> JsonSchema for Axis<T, U> {
    fn schema_name() -> Cow<'static, str> {
        format!("AxisOf{}", T::schema_name()).into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let value = match U::OF {
            Some(_) => generator.subschema_for::<Quantity>(),
            None => generator.subschema_for::<T>(),
        };
        json_schema!({ "anyOf": [value, { "type": "array", "items": value, "minItems": 1 }] })
    }
}

pub(super) fn schema() -> Value {
    let mut generator = schemars::generate::SchemaSettings::draft2020_12().into_generator();
    let forms = [
        generator.subschema_for::<ScenarioFile>().to_value(),
        generator.subschema_for::<SuiteFile>().to_value(),
    ];
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A scenario of thalweg-lab bench",
        "anyOf": forms,
        "$defs": generator.take_definitions(true),
    });
    without_nulls(&mut schema);
    schema
}

/// TOML has no null: keys are left out instead.
fn without_nulls(schema: &mut Value) {
    let is_null = |value: &Value| value.is_null() || *value == json!({ "type": "null" });
    match schema {
        Value::Array(values) => values.iter_mut().for_each(without_nulls),
        Value::Object(fields) => {
            if fields.get("default").is_some_and(Value::is_null) {
                fields.remove("default");
            }
            if let Some(Value::Array(types)) = fields.get_mut("type") {
                types.retain(|name| name != "null");
                if let [only] = &types[..] {
                    fields["type"] = only.clone();
                }
            }
            if let Some(Value::Array(forms)) = fields.get_mut("anyOf") {
                forms.retain(|form| !is_null(form));
                if let [Value::Object(only)] = &mut forms[..] {
                    let only = std::mem::take(only);
                    fields.remove("anyOf");
                    fields.extend(only);
                }
            }
            fields.values_mut().for_each(without_nulls);
        }
        _ => {}
    }
}

#[test]
fn the_schema_is_not_stale() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(SCHEMA);
    let made = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
    if env::var_os("THALWEG_WRITE_DOCS").is_some() {
        fs::write(&path, &made).unwrap();
    }
    let there = fs::read_to_string(&path).unwrap_or_default();
    let remedy = "is stale: THALWEG_WRITE_DOCS=1 cargo test -p thalweg-lab --lib schema";
    assert!(there == made, "{} {remedy}", path.display());
}

#[test]
fn every_key_is_described() {
    let schema = schema();
    for (name, definition) in schema["$defs"].as_object().unwrap() {
        for (key, property) in definition["properties"].as_object().into_iter().flatten() {
            assert!(property["description"].is_string(), "{name}.{key}");
        }
    }
}

#[test]
fn every_scenario_of_the_library_has_the_shape() {
    let schema = schema();
    for (name, text) in LIBRARY {
        let file: Value = toml::from_str(text).unwrap();
        let form = if file.get("scenarios").is_some() { 1 } else { 0 };
        fits(&schema, &schema["anyOf"][form], &file, name).unwrap();
    }
}

#[test]
fn the_schema_rejects_wrong_keys_and_values() {
    let schema = schema();
    let check = |text: &str, expected: &str| {
        let file: Value = toml::from_str(text).unwrap();
        let found = fits(&schema, &schema["anyOf"][0], &file, "file").unwrap_err();
        assert_eq!(found, expected, "{text}");
    };
    let head = "name = 'mine'\ndrive = 'published-load'\n";
    check(&format!("{head}[[cells]]\nconections = 1"), "file.cells[0].conections is not known");
    check(&format!("{head}[[cells]]\nconnections = 'x'"), "file.cells[0].connections fits no form");
    check(&format!("{head}[[cells]]\nconnections = []"), "file.cells[0].connections fits no form");
    check("name = 'mine'\ndrive = 'post'", "file.drive fits no form");
    check("drive = 'published-load'", "file.name is missing");
    check("name = 'mine'\ndrive = 'published-load'\nrepeats = 1.5", "file.repeats is no integer");
}

/// Checks whether the value has the schema's shape; supports as much of JSON Schema as ours uses.
fn fits(root: &Value, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    let Value::Object(rules) = schema else { return Ok(()) };
    if let Some(reference) = rules.get("$ref").and_then(Value::as_str) {
        fits(root, root.pointer(&reference[1..]).unwrap(), value, at)?;
    }
    for forms in ["anyOf", "oneOf"].iter().filter_map(|key| rules.get(*key)?.as_array()) {
        if !forms.iter().any(|form| fits(root, form, value, at).is_ok()) {
            return Err(format!("{at} fits no form"));
        }
    }
    if rules.get("const").is_some_and(|constant| constant != value) {
        return Err(format!("{at} is another constant"));
    }
    if let Some(Value::Array(values)) = rules.get("enum")
        && !values.contains(value)
    {
        return Err(format!("{at} fits no form"));
    }
    if let Some(Value::String(kind)) = rules.get("type") {
        let is_it = match kind.as_str() {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_u64(),
            other => panic!("the schema has a type {other}"),
        };
        if !is_it {
            return Err(format!("{at} is no {kind}"));
        }
    }
    if let Value::Array(values) = value {
        if (values.len() as u64) < rules.get("minItems").and_then(Value::as_u64).unwrap_or(0) {
            return Err(format!("{at} is too short"));
        }
        for (index, value) in values.iter().enumerate() {
            let items = rules.get("items").unwrap_or(&Value::Null);
            fits(root, items, value, &format!("{at}[{index}]"))?;
        }
    }
    if let Value::Object(fields) = value {
        keys_fit(root, rules, fields, at)?;
    }
    Ok(())
}

fn keys_fit(
    root: &Value,
    rules: &Map<String, Value>,
    fields: &Map<String, Value>,
    at: &str,
) -> Result<(), String> {
    let required = rules.get("required").and_then(Value::as_array).into_iter().flatten();
    for key in required.filter_map(Value::as_str) {
        if !fields.contains_key(key) {
            return Err(format!("{at}.{key} is missing"));
        }
    }
    for (key, value) in fields {
        let at = format!("{at}.{key}");
        match rules.get("properties").and_then(|properties| properties.get(key)) {
            Some(schema) => fits(root, schema, value, &at)?,
            None if rules.get("additionalProperties") == Some(&json!(false)) => {
                return Err(format!("{at} is not known"));
            }
            None => {}
        }
    }
    Ok(())
}
