use std::{collections::HashMap, fmt};

use crate::{
    TimeUnit,
    limits::{CELLS_MAX, COLUMNS_MAX, NAMES_BYTES_MAX},
};

/// The schema of a topic's rows: a name and a type for each column.
///
/// It is declared and never changes, or it is inferred from rows and may be widened by others
/// ([`Columns::widened`]).
/// Equal ones have the same columns, however often they were widened.
#[derive(Debug, Clone)]
pub struct Columns {
    pub(crate) shape: Shape,
    pub(crate) columns: Vec<Column>,
    /// Of rows that are objects, the column of each member.
    pub(crate) by_member: HashMap<Box<[u8]>, usize>,
    pub(crate) is_declared: bool,
    /// How often it was widened.
    pub(crate) changes: u32,
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// What its values are.
    pub kind: Kind,
    /// The unit that integers of a column of times count.
    pub unit: TimeUnit,
}

/// The declared type of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ColumnType {
    pub(crate) kind: Kind,
    pub(crate) unit: TimeUnit,
}

impl From<Kind> for ColumnType {
    fn from(kind: Kind) -> Self {
        Self { kind, unit: TimeUnit::default() }
    }
}

impl Column {
    /// A column of which no unit is declared.
    pub fn new(name: String, kind: Kind) -> Self {
        Self { name, kind, unit: TimeUnit::default() }
    }

    pub(crate) fn column_type(&self) -> ColumnType {
        ColumnType { kind: self.kind, unit: self.unit }
    }

    /// The name of its type, as in a declaration: `time_us` for a column of times whose integers are microseconds.
    pub fn type_name(&self) -> &'static str {
        let named = DECLARED.iter().find(|(_, declared)| *declared == self.column_type());
        named.map_or("null", |(name, _)| name)
    }
}

/// The types that can be declared, and what they are called. The first of two names of a type is that which is told.
const DECLARED: [(&str, ColumnType); 10] = {
    const fn of(kind: Kind) -> ColumnType {
        ColumnType { kind, unit: TimeUnit::Milliseconds }
    }
    const fn time(unit: TimeUnit) -> ColumnType {
        ColumnType { kind: Kind::Time, unit }
    }
    [
        ("bool", of(Kind::Bool)),
        ("int", of(Kind::Int)),
        ("double", of(Kind::Double)),
        ("time", of(Kind::Time)),
        ("time_s", time(TimeUnit::Seconds)),
        ("time_ms", time(TimeUnit::Milliseconds)),
        ("time_us", time(TimeUnit::Microseconds)),
        ("time_ns", time(TimeUnit::Nanoseconds)),
        ("string", of(Kind::String)),
        ("json", of(Kind::Json)),
    ]
};

/// The type of a column. Each may be null.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Nothing else was seen yet.
    Null,
    /// True or false.
    Bool,
    /// An integer of 64 bits.
    Int,
    /// A double.
    Double,
    /// An instant, in ms since 1970 (UTC). In JSON a string in RFC 3339; declared, also an integer of a [`TimeUnit`].
    Time,
    /// A string.
    String,
    /// Anything, as JSON text.
    Json,
}

/// What the rows are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Objects: a column for each member.
    Objects,
    /// Arrays: a column for each place.
    Arrays,
    /// One column of whatever comes.
    Values,
}

/// Why columns cannot be declared so: one sentence with the remedy.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum DeclarationError {
    /// Not `name:type`.
    #[error("{0} is no column: write name:type, as in speed:double")]
    NoType(String),
    /// Not a type.
    #[error(
        "{0} is no type of a column: it is one of bool, int, double, time, time_s, time_ms, time_us, time_ns, string and json"
    )]
    UnknownType(String),
    /// A name that there is already, or that the offsets have.
    #[error(
        "two columns are named {0}: give each a name of its own (_offset is the event's offset)"
    )]
    Twice(String),
    /// More than there may be.
    #[error(
        "a topic has 1 to {COLUMNS_MAX} columns, with names of {NAMES_BYTES_MAX} bytes at most"
    )]
    TooMany,
}

/// The column of offsets, before all others.
pub(crate) const OFFSET: &str = "_offset";

/// The only column of rows that are neither objects nor arrays.
pub(crate) const VALUE: &str = "value";

impl Columns {
    /// Columns as they are declared, each `name:type`. Rows may be objects with these members or
    /// arrays in this order. What a row has besides is left out, and what cannot be read as declared
    /// is null.
    ///
    /// # Errors
    /// When one of them is not as said.
    pub fn declared<'a>(
        declarations: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, DeclarationError> {
        let mut columns: Vec<Column> = Vec::new();
        for declaration in declarations {
            let no_type = || DeclarationError::NoType(declaration.to_owned());
            let (name, kind) = declaration.rsplit_once(':').ok_or_else(no_type)?;
            if name.is_empty() {
                return Err(no_type());
            }
            let declared = DECLARED.iter().find(|(known, _)| *known == kind);
            let (_, ColumnType { kind, unit }) =
                declared.ok_or_else(|| DeclarationError::UnknownType(kind.to_owned()))?;
            if name == OFFSET || columns.iter().any(|column| column.name == name) {
                return Err(DeclarationError::Twice(name.to_owned()));
            }
            columns.push(Column { name: name.to_owned(), kind: *kind, unit: *unit });
        }
        if columns.is_empty() || !fits_limits(&columns) {
            return Err(DeclarationError::TooMany);
        }
        let by_member = columns.iter().enumerate();
        let by_member =
            by_member.map(|(index, column)| (column.name.as_bytes().into(), index)).collect();
        Ok(Self { shape: Shape::Objects, columns, by_member, is_declared: true, changes: 0 })
    }

    /// No columns, for a stream that ends before there are any.
    pub fn none() -> Self {
        let (columns, by_member) = (Vec::new(), HashMap::new());
        Self { shape: Shape::Objects, columns, by_member, is_declared: true, changes: 0 }
    }

    /// One column of JSON: it fits every event.
    pub(crate) fn of_json(changes: u32) -> Self {
        let columns = vec![Column::new(VALUE.to_owned(), Kind::Json)];
        let by_member = HashMap::new();
        Self { shape: Shape::Values, columns, by_member, is_declared: false, changes }
    }

    /// Bytes that so many rows take in a frame, about: 8 for each cell, the offsets' too. A column
    /// takes them also where a row has nothing for it. Texts, and bits, are not counted.
    pub fn cell_bytes(&self, rows: usize) -> usize {
        rows.saturating_mul((1 + self.columns.len()) * 8)
    }

    /// How often it was widened.
    pub fn changes(&self) -> u32 {
        self.changes
    }

    /// Whether they are those of objects or arrays. Events that are something else, or are not all alike, are in one
    /// column that none of them names.
    pub fn are_of_rows(&self) -> bool {
        self.shape != Shape::Values
    }

    /// The columns, without that of the offsets.
    pub fn iter(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter()
    }
}

impl PartialEq for Columns {
    fn eq(&self, other: &Self) -> bool {
        // What members a column is of follows from its name.
        self.shape == other.shape
            && self.is_declared == other.is_declared
            && self.columns == other.columns
    }
}

impl Eq for Columns {}

/// Whether there are no more columns, nor longer names, than a schema may have.
pub(crate) fn fits_limits(columns: &[Column]) -> bool {
    let names: usize = columns.iter().map(|column| column.name.len()).sum();
    columns.len() <= COLUMNS_MAX && names <= NAMES_BYTES_MAX
}

/// Whether a batch has no more cells than it may. One column is all that there can be less.
#[inline]
pub(crate) fn fits_cells(rows: usize, columns: usize) -> bool {
    columns <= 1 || rows.saturating_mul(columns) <= CELLS_MAX
}

/// The name of the column of an array's place.
pub(crate) fn place_name(place: usize) -> String {
    format!("column{place}")
}

/// The name of the column of a member.
pub(crate) fn member_name(member: &str) -> String {
    let offset = if is_like_offset(member.as_bytes()) { "_" } else { "" };
    format!("{offset}{member}")
}

/// Whether a member's name could be taken for the column of the offsets: underscores and `offset`.
pub(crate) fn is_like_offset(name: &[u8]) -> bool {
    name.strip_suffix(b"offset")
        .is_some_and(|before| !before.is_empty() && before.iter().all(|byte| *byte == b'_'))
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = DECLARED.iter().find(|(_, declared)| declared.kind == *self);
        out.write_str(named.map_or("null", |(name, _)| name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(declarations: &[&str]) -> Result<Vec<String>, DeclarationError> {
        let columns = Columns::declared(declarations.iter().copied())?;
        Ok(columns.iter().map(|column| format!("{}={}", column.name, column.type_name())).collect())
    }

    #[test]
    fn columns_are_declared_by_name_and_type() {
        let columns = declared(&["in_use:int", "speed:double", "a:b:time"]).unwrap();
        assert_eq!(columns, ["in_use=int", "speed=double", "a:b=time"]);
        let times = declared(&["a:time_s", "b:time_ms", "c:time_us", "d:time_ns"]).unwrap();
        assert_eq!(times, ["a=time_s", "b=time", "c=time_us", "d=time_ns"]);
    }

    #[test]
    fn what_is_wrong_with_a_declaration_is_said() {
        for (declarations, says) in [
            (&["speed"][..], "speed is no column: write name:type"),
            (&[":int"], ":int is no column"),
            (&["speed:float"], "float is no type of a column: it is one of bool, int"),
            (&["a:int", "a:double"], "two columns are named a"),
            (&["_offset:int"], "two columns are named _offset"),
            (&[], "a topic has 1 to 256 columns"),
        ] {
            let error = declared(declarations).unwrap_err().to_string();
            assert!(error.starts_with(says), "{error}");
        }
        let many: Vec<String> = (0..257).map(|number| format!("c{number}:int")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(declared(&many).unwrap_err(), DeclarationError::TooMany);
    }
}
