//! Arrow's own reader, with JSON as its output.

use arrow_array::{Array, RecordBatch, cast::AsArray, types};
use arrow_ipc::reader::StreamReader;
use arrow_schema::{DataType, Field, Schema};
use serde_json::{Value, json};

pub(crate) struct Stream {
    pub(crate) schema: Schema,
    pub(crate) batches: Vec<RecordBatch>,
}

/// Reads a whole stream; an invalid stream fails the test.
pub(crate) fn read(bytes: &[u8]) -> Stream {
    let reader = StreamReader::try_new(bytes, None).expect("a schema");
    let schema = Schema::clone(&reader.schema());
    let batches = reader.map(|batch| batch.expect("a batch")).collect();
    Stream { schema, batches }
}

impl Stream {
    /// Returns all rows: the offset of each, and its values by column.
    pub(crate) fn rows(&self) -> Vec<(u64, Vec<Value>)> {
        let rows = self.batches.iter().flat_map(|batch| {
            (0..batch.num_rows()).map(move |row| {
                let offset = batch.column(0).as_primitive::<types::Int64Type>().value(row);
                let columns = (1..batch.num_columns())
                    .map(|column| value(batch.column(column), batch.schema().field(column), row));
                (offset as u64, columns.collect())
            })
        });
        rows.collect()
    }

    /// Returns the columns without the offset column, as `name:type`.
    pub(crate) fn columns(&self) -> Vec<String> {
        let fields = self.schema.fields().iter().skip(1);
        fields.map(|field| format!("{}:{}", field.name(), field.data_type())).collect()
    }
}

fn value(array: &dyn Array, field: &Field, row: usize) -> Value {
    if array.is_null(row) || array.data_type() == &DataType::Null {
        return Value::Null;
    }
    match array.data_type() {
        DataType::Boolean => json!(array.as_boolean().value(row)),
        DataType::Int64 => json!(array.as_primitive::<types::Int64Type>().value(row)),
        DataType::Float64 => json!(array.as_primitive::<types::Float64Type>().value(row)),
        DataType::Timestamp(..) => {
            json!({ "ms": array.as_primitive::<types::TimestampMillisecondType>().value(row) })
        }
        DataType::Dictionary(..) => {
            let array = array.as_dictionary::<types::Int32Type>();
            let key = array.keys().value(row) as usize;
            json!(array.values().as_string::<i32>().value(key))
        }
        DataType::Utf8 => {
            assert_eq!(field.metadata()["thalweg.type"], "json");
            let text = array.as_string::<i32>().value(row);
            // This parser rejects some valid JSON: numbers beyond all doubles, half surrogate pairs.
            serde_json::from_str(text).unwrap_or_else(|_| json!({ "as written": text }))
        }
        other => panic!("{other}"),
    }
}
