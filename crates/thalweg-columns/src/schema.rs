use std::{collections::HashMap, fmt};

use crate::{
    TimeUnit,
    limits::{CELLS_MAX, COLUMNS_MAX, NAMES_BYTES_MAX},
};

/// The schema of a topic's rows: a name and a type per column. A declared schema never changes. Rows that do not fit widen an
/// inferred one ([`Columns::widened`]). Equal schemas have the same columns, regardless of the number of changes.
#[derive(Debug, Clone)]
pub struct Columns {
    pub(crate) shape: Shape,
    pub(crate) columns: Vec<Column>,
    /// The column of each member, for rows that are objects.
    pub(crate) by_member: HashMap<Box<[u8]>, usize>,
    pub(crate) is_declared: bool,
    pub(crate) changes: u32,
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// The column's name.
    pub name: String,
    /// The type of its values.
    pub kind: Kind,
    /// The unit of integers in a time column.
    pub unit: TimeUnit,
}

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
    /// Returns a column with the default unit.
    pub fn new(name: String, kind: Kind) -> Self {
        Self { name, kind, unit: TimeUnit::default() }
    }

    pub(crate) fn column_type(&self) -> ColumnType {
        ColumnType { kind: self.kind, unit: self.unit }
    }

    /// Returns the name of the type as in a declaration: `time_us` for a time column whose integers are microseconds.
    pub fn type_name(&self) -> &'static str {
        let named = DECLARED.iter().find(|(_, declared)| *declared == self.column_type());
        named.map_or("null", |(name, _)| name)
    }
}

/// The types for declarations, with their names. The first of two names of a type is its display name.
const DECLARED: [(&str, ColumnType); 10] = {
    const fn plain(kind: Kind) -> ColumnType {
        ColumnType { kind, unit: TimeUnit::Milliseconds }
    }
    const fn time(unit: TimeUnit) -> ColumnType {
        ColumnType { kind: Kind::Time, unit }
    }
    [
        ("bool", plain(Kind::Bool)),
        ("int", plain(Kind::Int)),
        ("double", plain(Kind::Double)),
        ("time", plain(Kind::Time)),
        ("time_s", time(TimeUnit::Seconds)),
        ("time_ms", time(TimeUnit::Milliseconds)),
        ("time_us", time(TimeUnit::Microseconds)),
        ("time_ns", time(TimeUnit::Nanoseconds)),
        ("string", plain(Kind::String)),
        ("json", plain(Kind::Json)),
    ]
};

/// The type of a column. Every type includes null.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Only nulls so far.
    Null,
    /// True or false.
    Bool,
    /// An integer of 64 bits.
    Int,
    /// A double.
    Double,
    /// An instant, in ms since 1970 (UTC). In JSON a string in RFC 3339; in a declared column also an integer of a [`TimeUnit`].
    Time,
    /// A string.
    String,
    /// Any value, as JSON text.
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Objects: a column per member.
    Objects,
    /// Arrays: a column per element.
    Arrays,
    /// One column for any values.
    Values,
}

/// The reason why a declaration of columns is invalid: one sentence with the remedy.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum DeclarationError {
    /// A declaration is not `name:type`.
    #[error("{0} is not a column: write name:type, as in speed:double")]
    NoType(String),
    /// The type is unknown.
    #[error(
        "{0} is not a column type: write bool, int, double, time, time_s, time_ms, time_us, time_ns, string or json"
    )]
    UnknownType(String),
    /// Two columns have the same name, or one has the name of the offset column.
    #[error(
        "two columns are named {0}: give each a name of its own (_offset is the event's offset)"
    )]
    Twice(String),
    /// The columns or their names exceed the limits.
    #[error(
        "there are no columns, too many, or too many bytes of names: declare 1 to {COLUMNS_MAX} columns with {NAMES_BYTES_MAX} bytes of names at most"
    )]
    TooMany,
}

/// The column of offsets, before all others.
pub(crate) const OFFSET: &str = "_offset";

/// The only column of rows that are neither objects nor arrays.
pub(crate) const VALUE: &str = "value";

impl Columns {
    /// Returns declared columns, each written `name:type`. Rows are objects with these members or arrays in this order.
    /// The columns ignore further members; a value that is not of its declared type is null.
    ///
    /// # Errors
    /// [`DeclarationError`].
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

    /// Returns a schema without columns, for a stream that ends before its first row.
    pub fn none() -> Self {
        let (columns, by_member) = (Vec::new(), HashMap::new());
        Self { shape: Shape::Objects, columns, by_member, is_declared: true, changes: 0 }
    }

    /// Returns one column of JSON, which fits every event.
    pub(crate) fn with_json(changes: u32) -> Self {
        let columns = vec![Column::new(VALUE.to_owned(), Kind::Json)];
        let by_member = HashMap::new();
        Self { shape: Shape::Values, columns, by_member, is_declared: false, changes }
    }

    /// Returns the approximate bytes of this many rows in a frame: 8 for each cell, including
    /// offsets and nulls, but not texts and bits.
    pub fn cell_bytes(&self, rows: usize) -> usize {
        rows.saturating_mul((1 + self.columns.len()) * 8)
    }

    /// Returns the number of changes.
    pub fn changes(&self) -> u32 {
        self.changes
    }

    /// Returns whether the columns are members of objects or elements of arrays. Events that are neither, and
    /// events of different shapes, have a single column, which has no name in the rows.
    pub fn are_of_rows(&self) -> bool {
        self.shape != Shape::Values
    }

    /// Returns the columns without the offset column.
    pub fn iter(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter()
    }
}

impl PartialEq for Columns {
    fn eq(&self, other: &Self) -> bool {
        // A column's name determines its member.
        self.shape == other.shape
            && self.is_declared == other.is_declared
            && self.columns == other.columns
    }
}

impl Eq for Columns {}

pub(crate) fn fits_limits(columns: &[Column]) -> bool {
    let names: usize = columns.iter().map(|column| column.name.len()).sum();
    columns.len() <= COLUMNS_MAX && names <= NAMES_BYTES_MAX
}

/// Returns whether a batch is within the limit of cells. One column always is, because it cannot be divided.
#[inline]
pub(crate) fn fits_cells(rows: usize, columns: usize) -> bool {
    columns <= 1 || rows.saturating_mul(columns) <= CELLS_MAX
}

/// Returns the name of the column of an array's element.
pub(crate) fn place_name(place: usize) -> String {
    format!("column{place}")
}

pub(crate) fn member_name(member: &str) -> String {
    let offset = if is_like_offset(member.as_bytes()) { "_" } else { "" };
    format!("{offset}{member}")
}

/// Returns whether a member's name looks like the offset column's: underscores and `offset`.
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
    fn wrong_declarations_are_described() {
        for (declarations, says) in [
            (&["speed"][..], "speed is not a column: write name:type"),
            (&[":int"], ":int is not a column"),
            (&["speed:float"], "float is not a column type: write bool, int"),
            (&["a:int", "a:double"], "two columns are named a"),
            (&["_offset:int"], "two columns are named _offset"),
            (&[], "there are no columns"),
        ] {
            let error = declared(declarations).unwrap_err().to_string();
            assert!(error.starts_with(says), "{error}");
        }
        let many: Vec<String> = (0..257).map(|number| format!("c{number}:int")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(declared(&many).unwrap_err(), DeclarationError::TooMany);
    }
}
