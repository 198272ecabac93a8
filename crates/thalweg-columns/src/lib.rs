//! Rows of events as columns: names, types, and the Arrow IPC stream. Pure: no I/O, no clock, no runtime.
//!
//! ```text
//! limits      every bound, with its reason
//! schema      names and types: declared, or inferred from rows
//! infer       rows → schema
//! change      changes that make a schema fit one more row
//! visit       values of rows of any type
//! json        validated JSON, value by value; json/number its numbers
//! words       text, eight bytes at a time
//! decimal     decimal fractions as the nearest double
//! time        instants: RFC 3339, and numbers of a unit
//! unescape    JSON strings with escapes
//! column      the values of one column
//! cells       one value of a row
//! member      parts of a JSON value
//! cell_reader some columns of a row, value by value
//! dictionary  distinct strings
//! rows        rows → columns
//! message     flatbuffers of Arrow's format: Schema, DictionaryBatch, RecordBatch
//! ipc         columns → messages of a stream
//! ```
//!
//! Rows are valid JSON values joined by commas, without insignificant whitespace: objects (a column for each member),
//! arrays (a column for each element), or anything else (one column).
//!
//! ```
//! use thalweg_columns::Columns;
//!
//! let rows = br#"{"id":7,"speed":73.1},{"id":8,"speed":null}"#;
//! let columns = Columns::infer(rows);
//! let mut stream = Vec::new();
//! columns.write_schema(&[("thalweg.epoch", "9f3c21")], &mut stream);
//! assert!(columns.write_rows(1042, rows, &mut stream).is_ok());
//! columns.write_end(None, &mut stream);
//! assert!(columns.widened(br#"{"id":"seven"}"#).is_some(), "id is no longer a number");
//! ```

mod cell_reader;
mod cells;
mod change;
mod column;
mod decimal;
mod dictionary;
mod infer;
mod ipc;
mod json;
pub mod limits;
mod member;
mod message;
mod rows;
mod schema;
mod time;
mod unescape;
mod visit;
mod words;

pub use cell_reader::{CellReader, Wanted};
pub use cells::Cell;
pub use change::Change;
pub use member::{as_kind as json_as_kind, element as json_element, member as json_member};
pub use rows::Misfit;
pub use schema::{Column, Columns, DeclarationError, Kind};
pub use time::{
    TimeUnit, date, days_since_1970, in_range as time_in_range,
    parse_instant_or_date as parse_time_or_date_ms, parse_ms as parse_time_ms, text as time_text,
};
