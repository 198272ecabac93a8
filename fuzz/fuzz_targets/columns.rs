//! Any published events become rows of columns, and Arrow's own reader reads the same values back.

#![no_main]

use arrow_ipc::reader::StreamReader;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use thalweg_columns::Columns;
use thalweg_wire::event::push_json;

#[path = "../../crates/thalweg-columns/tests/it/reading.rs"]
mod reading;

const EVENT_BYTES: usize = 4 << 10;

fuzz_target!(|batches: Vec<Vec<&[u8]>>| {
    let (mut inferred, mut first) = (None::<Columns>, 1);
    let declared =
        Columns::declared(["a:int", "b:double", "c:bool", "d:time", "e:string", "f:json"]);
    let declared = declared.expect("a declaration");
    for batch in &batches {
        let events: Vec<Vec<u8>> = batch.iter().filter_map(|text| event(text)).collect();
        let rows = events.join(&b',');
        if events.is_empty() {
            continue;
        }
        let mut out = Vec::new();
        let columns = match inferred.take() {
            None => Columns::infer(&rows),
            Some(before) => {
                let wider = before.widened(&rows);
                let fits = before.write_rows(first, &rows, &mut Vec::new());
                assert_eq!(fits.is_ok(), wider.is_none(), "what does not fit changes the schema");
                wider.unwrap_or(before)
            }
        };
        columns.write_schema(&[], &mut out);
        let unreadable = columns.write_rows(first, &rows, &mut out);
        assert_eq!(unreadable, Ok(0), "columns fit the rows that they are of");
        columns.write_end(Some(("thalweg.close", "{}")), &mut out);
        check(&out, first, &events);
        inferred = Some(columns);

        let mut out = Vec::new();
        declared.write_schema(&[], &mut out);
        declared.write_rows(first, &rows, &mut out).expect("declared columns fit everything");
        declared.write_end(None, &mut out);
        assert_eq!(count(&out), events.len());
        first += events.len() as u64;
    }
});

/// An event as the log keeps it.
fn event(text: &[u8]) -> Option<Vec<u8>> {
    let mut event = Vec::new();
    push_json(text, EVENT_BYTES, &mut event).ok().map(|_| event)
}

fn count(stream: &[u8]) -> usize {
    let reader = StreamReader::try_new(stream, None).expect("a schema");
    reader.map(|batch| batch.expect("a batch").num_rows()).sum()
}

fn check(stream: &[u8], first: u64, events: &[Vec<u8>]) {
    assert_eq!(count(stream), events.len());
    // serde_json rejects numbers beyond a double, which cannot be compared.
    let values = events.iter().map(|event| serde_json::from_slice(event));
    let Ok(values) = values.collect::<Result<Vec<Value>, _>>() else { return };
    let stream = reading::read(stream);
    let names: Vec<String> = stream.columns();
    let names: Vec<&str> =
        names.iter().map(|column| column.rsplit_once(':').map_or("", |(name, _)| name)).collect();
    for ((offset, cells), (at, event)) in stream.rows().into_iter().zip((first..).zip(&values)) {
        assert_eq!(offset, at);
        let is_whole = names == ["value"] && is_same(&cells[0], event);
        assert!(is_whole || is_row(&names, &cells, event), "{cells:?} of {event}");
    }
}

/// Whether cells are those of an object or array.
fn is_row(names: &[&str], cells: &[Value], event: &Value) -> bool {
    let member = |index: usize, name: &str| match event {
        Value::Array(elements) => elements.get(index),
        // A name like that of the offsets has one more underscore.
        Value::Object(members) if name.trim_start_matches('_') == "offset" && name.len() > 7 => {
            members.get(&name[1..])
        }
        Value::Object(members) => members.get(name),
        other => Some(other),
    };
    let all = names.iter().zip(cells).enumerate();
    all.into_iter()
        .all(|(index, (name, cell))| is_same(cell, member(index, name).unwrap_or(&Value::Null)))
}

/// Numbers are compared as doubles; an instant is another form of its text.
fn is_same(cell: &Value, value: &Value) -> bool {
    match (cell.as_f64(), value.as_f64()) {
        (Some(cell), Some(value)) => cell == value,
        _ => cell == value || (cell.get("ms").is_some() && value.is_string()),
    }
}
