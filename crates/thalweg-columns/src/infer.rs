use std::collections::HashMap;

use crate::{
    Column, Columns, Kind,
    cells::{instant, utf8},
    decimal::EXACT_MAX,
    json::{Reader, Value},
    limits::{CHANGES_MAX, COLUMNS_MAX, INFERRED_BYTES},
    schema::{Shape, VALUE, fits_cells, fits_limits, member_name, place_name},
    unescape::unescape,
    visit::{Place, Visitor, visit},
};

impl Columns {
    /// Returns columns that fit `rows`: at least one JSON value, joined by commas.
    ///
    /// An integer of 64 bits is an int, another number a double, a string with an instant ([`crate::parse_time_ms`]) a
    /// time. A column with values of several types has the narrowest type for all of them: int and double give double,
    /// time and string give string, anything else gives JSON. JSON also holds numbers that exceed a double, and strings
    /// with half a surrogate pair, which are not text.
    pub fn infer(rows: &[u8]) -> Self {
        let mut seen = Seen::default();
        match seen.take(rows) {
            Ok(()) if seen.fits_cells() => seen.into_columns(0),
            Ok(()) | Err(Mixed) => Self::with_json(0),
        }
    }

    /// Infers columns from the newest of `batches`, up to about [`INFERRED_BYTES`] of rows. The newest batch is last.
    pub fn infer_from<'a>(batches: impl DoubleEndedIterator<Item = &'a [u8]>) -> Option<Self> {
        let mut sample: Vec<&[u8]> = Vec::new();
        let mut bytes = 0;
        for rows in batches.rev() {
            if bytes > INFERRED_BYTES {
                break;
            }
            bytes += rows.len();
            sample.push(rows);
        }
        sample.reverse();
        (!sample.is_empty()).then(|| {
            let mut seen = Seen::default();
            let taken = seen.take(&sample.join(&b','.to_owned()));
            taken.map_or_else(|Mixed| Self::with_json(0), |()| seen.into_columns(0))
        })
    }

    /// Returns columns that fit both `rows` and all rows that these columns fit; `None` if these columns already fit. (An int
    /// that becomes a double no longer fits integers beyond 2^53, so a batch with these is widened again instead of rounded.)
    pub fn widened(&self, rows: &[u8]) -> Option<Self> {
        let is_json = self.shape == Shape::Values
            && self.columns.first().is_some_and(|column| column.kind == Kind::Json);
        if self.is_declared || is_json {
            return None;
        }
        let columns = self.columns.clone();
        let columns = columns.into_iter().map(|column| SeenColumn { column, is_large: false });
        let mut seen = Seen {
            shape: Some(self.shape),
            columns: columns.collect(),
            by_member: self.by_member.clone(),
            rows: 0,
        };
        let changes = self.changes + 1;
        let wider = match seen.take(rows) {
            Ok(()) if changes < CHANGES_MAX && seen.fits_cells() => seen.into_columns(changes),
            Ok(()) | Err(Mixed) => Self::with_json(changes),
        };
        (wider != *self).then_some(wider)
    }
}

/// Some rows are objects or arrays and others are not, or a member's name is not text.
struct Mixed;

#[derive(Default)]
struct Seen {
    shape: Option<Shape>,
    columns: Vec<SeenColumn>,
    by_member: HashMap<Box<[u8]>, usize>,
    rows: usize,
}

struct SeenColumn {
    column: Column,
    /// Whether the column has an integer that a double does not hold exactly.
    is_large: bool,
}

impl Seen {
    fn take(&mut self, rows: &[u8]) -> Result<(), Mixed> {
        visit(rows, self)
    }

    fn fits_cells(&self) -> bool {
        fits_cells(self.rows, self.columns.len())
    }

    fn into_columns(self, changes: u32) -> Columns {
        // Without rows every column fits.
        let Some(shape) = self.shape else { return Columns::with_json(changes) };
        let exact = |SeenColumn { column, is_large }| match column.kind {
            Kind::Double if is_large => Column { kind: Kind::Json, ..column },
            _ => column,
        };
        let columns: Vec<Column> = self.columns.into_iter().map(exact).collect();
        match fits_limits(&columns) {
            true => {
                let by_member = self.by_member;
                Columns { shape, columns, by_member, is_declared: false, changes }
            }
            false => Columns::with_json(changes),
        }
    }

    /// Returns the column of a value; `None` if its member's name is not text and cannot name a column.
    fn index_of(&mut self, place: Place<'_>) -> Option<usize> {
        let add = |columns: &mut Vec<SeenColumn>, name| {
            columns.push(SeenColumn { column: Column::new(name, Kind::Null), is_large: false });
            columns.len() - 1
        };
        match place {
            Place::Whole if self.columns.is_empty() => {
                Some(add(&mut self.columns, VALUE.to_owned()))
            }
            Place::Whole => Some(0),
            Place::Element(index) => {
                while self.columns.len() <= index {
                    let name = place_name(self.columns.len());
                    add(&mut self.columns, name);
                }
                Some(index)
            }
            Place::Member(name, has_escapes) => {
                let said = if has_escapes { unescape(name)? } else { utf8(name) };
                if let Some(index) = self.by_member.get(said.as_bytes()) {
                    return Some(*index);
                }
                let index = add(&mut self.columns, member_name(&said));
                self.by_member.insert(said.as_bytes().into(), index);
                Some(index)
            }
        }
    }
}

impl Visitor for Seen {
    type Error = Mixed;

    fn begin(&mut self, shape: Shape) -> Result<(), Mixed> {
        self.rows += 1;
        if *self.shape.get_or_insert(shape) == shape { Ok(()) } else { Err(Mixed) }
    }

    fn value(&mut self, place: Place<'_>, reader: &mut Reader<'_>) -> Result<(), Mixed> {
        let index = self.index_of(place).ok_or(Mixed)?;
        if self.columns.len() > COLUMNS_MAX {
            // All values go to one column of JSON.
            return Err(Mixed);
        }
        let seen = &mut self.columns[index];
        let (kind, is_large) = kind_of(reader.value());
        seen.is_large |= is_large;
        seen.column.kind = seen.column.kind.or(kind);
        Ok(())
    }

    fn end(&mut self) {}
}

impl Kind {
    /// Returns the narrowest type with the values of both.
    pub(crate) fn or(self, other: Self) -> Self {
        match (self, other) {
            (one, other) if one == other => one,
            (Self::Null, kind) | (kind, Self::Null) => kind,
            (Self::Int, Self::Double) | (Self::Double, Self::Int) => Self::Double,
            (Self::Time, Self::String) | (Self::String, Self::Time) => Self::String,
            _ => Self::Json,
        }
    }
}

/// Returns a value's own type, and whether it is an integer that a double does not hold exactly.
pub(crate) fn kind_of(value: Value<'_>) -> (Kind, bool) {
    let kind = match value {
        Value::Null => Kind::Null,
        Value::Bool(_) => Kind::Bool,
        Value::Int(number) => return (Kind::Int, number.unsigned_abs() > EXACT_MAX),
        Value::Double(_) => Kind::Double,
        Value::String(text, has_escapes) if instant(text, has_escapes).is_some() => Kind::Time,
        Value::String(text, true) if unescape(text).is_none() => Kind::Json,
        Value::String(..) => Kind::String,
        Value::Huge | Value::Nested => Kind::Json,
    };
    (kind, false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::CELLS_MAX;

    fn shown(columns: &Columns) -> String {
        let columns = columns.iter().map(|column| format!("{}:{}", column.name, column.kind));
        columns.collect::<Vec<_>>().join(" ")
    }

    fn check(rows: &str, expected: &str) {
        assert_eq!(shown(&Columns::infer(rows.as_bytes())), expected, "{rows}");
    }

    fn widens(rows: &str, more: &str, expected: Option<&str>) {
        let columns = Columns::infer(rows.as_bytes());
        let wider = columns.widened(more.as_bytes());
        assert_eq!(wider.as_ref().map(shown).as_deref(), expected, "{rows} and {more}");
    }

    #[test]
    fn a_type_is_the_least_that_has_all_values() {
        check(r#"{"a":1,"b":"x"},{"a":2.5,"c":null}"#, "a:double b:string c:null");
        check(r#"[1,"2022-07-13T21:04:08.419Z",true]"#, "column0:int column1:time column2:bool");
        check(r#"["2022-07-13T21:04:08.419Z"],["x"],[null]"#, "column0:string");
        check("[1],[true]", "column0:json");
        check("[[1]],[{}]", "column0:json");
        check("1,2.5", "value:double");
        check(r#"1,{"a":1}"#, "value:json");
        check("9007199254740993", "value:int");
        check("9007199254740993,0.5", "value:json");
        check("123456789012345678901234567890", "value:json");
        check(r#"{"a":1.5},{"a":1e400}"#, "a:json");
        check(r#"{"a":"x"},{"a":"\ud800"},{"b":"\ud83d\ude00"}"#, "a:json b:string");
        // Names that are not text cannot name columns, because two of them would be equal.
        check(r#"{"\ud800":1,"\ud801":2}"#, "value:json");
        check(
            r#"["2022-07-13 21:04:08.419123+00","2022-07-13T21:04:08\u002b00:00"]"#,
            "column0:time column1:time",
        );
        // Not all readers support years before 1 or after 9999.
        check(r#"["0000-07-13T21:04:08Z"]"#, "column0:string");
        check(
            r#"{"_offset":1,"__offset":2,"a\u0062":3,"ab":4}"#,
            "__offset:int ___offset:int ab:int",
        );
    }

    #[test]
    fn fitting_values_change_no_column() {
        widens(r#"{"a":1.5,"b":"x"}"#, r#"{"b":null},{"a":7},{}"#, None);
        widens("[1],[\"x\"]", "[{}],[]", None);
        widens(r#"1,{"a":1}"#, "[1],null,{}", None);
        let declared = Columns::declared(["a:int"]).unwrap();
        assert!(declared.widened(br#"{"a":"x","b":1}"#).is_none());
    }

    #[test]
    fn columns_widen_for_values_that_do_not_fit() {
        widens(r#"{"a":1}"#, r#"{"a":"x","b":2}"#, Some("a:json b:int"));
        widens("[1.5]", "[1e400]", Some("column0:json"));
        widens(r#"["x"]"#, r#"["\udc00"]"#, Some("column0:json"));
        widens(r#"{"a":1}"#, r#"{"\udc00":1}"#, Some("value:json"));
        widens("[1]", "[2,3]", Some("column0:int column1:int"));
        widens("[1]", r#"{"a":1}"#, Some("value:json"));
        widens("1", "[1]", Some("value:json"));
        widens("0.5", "9007199254740993", Some("value:json"));
    }

    #[test]
    fn a_schema_changes_a_limited_number_of_times_and_then_fits_everything() {
        let mut columns = Columns::infer(b"{}");
        for number in 0..CHANGES_MAX - 1 {
            columns = columns.widened(format!(r#"{{"a{number}":1}}"#).as_bytes()).unwrap();
        }
        columns = columns.widened(br#"{"last":1}"#).unwrap();
        assert_eq!(shown(&columns), "value:json");
        assert!(columns.widened(br#"{"more":[]},1"#).is_none());
    }

    #[test]
    fn a_batch_of_too_many_cells_is_one_column() {
        let wide: Vec<String> =
            (0..COLUMNS_MAX).map(|number| format!(r#""m{number}":1"#)).collect();
        let columns = Columns::infer(format!("{{{}}}", wide.join(",")).as_bytes());
        let largest = CELLS_MAX / COLUMNS_MAX;
        let rows = |count: usize| vec!["{}"; count].join(",");
        assert!(columns.widened(rows(largest).as_bytes()).is_none());
        assert!(columns.write_rows(1, rows(largest).as_bytes(), &mut Vec::new()).is_ok());
        let more = rows(largest + 1);
        assert!(columns.write_rows(1, more.as_bytes(), &mut Vec::new()).is_err());
        let wider = columns.widened(more.as_bytes()).unwrap();
        assert_eq!(shown(&wider), "value:json");
        assert!(wider.write_rows(1, more.as_bytes(), &mut Vec::new()).is_ok());
        // The limit does not apply to one column.
        let numbers = vec!["1"; CELLS_MAX + 1].join(",");
        check(&numbers, "value:int");
    }

    #[test]
    fn too_many_members_are_one_column() {
        let members: Vec<String> =
            (0..=COLUMNS_MAX).map(|number| format!(r#""m{number}":1"#)).collect();
        check(&format!("{{{}}}", members.join(",")), "value:json");
        check(&format!(r#"{{"{}":1}}"#, "x".repeat(70_000)), "value:json");
    }
}
