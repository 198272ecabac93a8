use std::collections::HashMap;

use crate::{
    Column, Columns, Kind,
    cells::{Cell, as_declared, typed_cell, utf8},
    infer::kind_of,
    json::{Reader, Value},
    schema::{ColumnType, Shape},
    time::Minute,
    unescape::unescape,
};

/// The values to report that have no inferred column yet.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Report members and array elements without a column.
    pub has_others: bool,
    /// Columns without a value so far. A member matches such a column regardless of case.
    pub absent: Vec<usize>,
    /// For each column, the types to which it must not change. The list may be shorter than the columns.
    pub refused: Vec<Vec<Kind>>,
}

/// A reader of some columns of rows, row by row, as their declared types. [`Self::fits`] reports a value that does not fit an
/// inferred column.
#[derive(Debug)]
pub struct CellReader {
    /// The index in `cells` of each column of the schema, for requested columns.
    places: Vec<Option<usize>>,
    types: Vec<ColumnType>,
    /// The column of each member, for rows that are objects.
    by_member: HashMap<Box<[u8]>, usize>,
    /// No requested element of an array is at or after this index.
    end: usize,
    minute: Minute,
    is_inferred: bool,
    shape: Shape,
    wanted: Wanted,
    absent: Vec<Box<[u8]>>,
    fits: bool,
}

impl CellReader {
    /// Returns a reader of the columns of `schema` with the indices `wanted`.
    pub fn new(schema: &Columns, wanted: &[usize]) -> Self {
        let mut places = vec![None; schema.columns.len()];
        for (place, column) in wanted.iter().enumerate() {
            places[*column] = Some(place);
        }
        Self {
            places,
            types: schema.columns.iter().map(Column::column_type).collect(),
            by_member: schema.by_member.clone(),
            end: wanted.iter().max().map_or(0, |last| last + 1),
            minute: Minute::default(),
            is_inferred: !schema.is_declared,
            shape: schema.shape,
            wanted: Wanted::default(),
            absent: Vec::new(),
            fits: true,
        }
    }

    /// Returns a reader of inferred columns, which also reports the values in `wanted`.
    pub fn inferred(schema: &Columns, columns: &[usize], wanted: Wanted) -> Self {
        let absent = wanted.absent.iter().filter_map(|index| schema.columns.get(*index));
        let absent = absent.map(|column| column.name.as_bytes().into()).collect();
        let end = if wanted.has_others { schema.columns.len() } else { 0 };
        let reader = Self::new(schema, columns);
        Self { end: reader.end.max(end), wanted, absent, ..reader }
    }

    /// Returns whether the last row fitted. If not, [`Columns::changes_for`] returns the changes that make the columns fit.
    pub fn fits(&self) -> bool {
        self.fits
    }

    /// Reads a row: an array with a value for each column of the schema, or an object with a member for each column. A
    /// row of another shape has no values. `cells` must have a null for each requested column, in the requested
    /// order; the values replace them. Returns the number of values that are not of their column's type.
    pub fn read<'a>(&mut self, row: &'a [u8], cells: &mut [Cell<'a>]) -> u64 {
        let mut reader = Reader::new(row);
        self.fits = true;
        match reader.peek() {
            Some(b'[') if self.takes(Shape::Arrays) => self.read_array(&mut reader, cells),
            Some(b'{') if self.takes(Shape::Objects) => self.read_object(&mut reader, cells),
            _ => 1,
        }
    }

    fn takes(&self, shape: Shape) -> bool {
        !self.is_inferred || self.shape == shape
    }

    fn read_array<'a>(&mut self, reader: &mut Reader<'a>, cells: &mut [Cell<'a>]) -> u64 {
        let mut unreadable = 0;
        let mut goes_on = reader.opens(b']');
        for column in 0..self.end {
            if !goes_on {
                break;
            }
            match self.places[column] {
                Some(place) => unreadable += self.read_cell(reader, column, &mut cells[place]),
                None => reader.skip(),
            }
            goes_on = reader.goes_on();
        }
        if self.wanted.has_others {
            while goes_on {
                self.fits &= reader.take_null();
                reader.skip();
                goes_on = reader.goes_on();
            }
        }
        unreadable
    }

    fn read_object<'a>(&mut self, reader: &mut Reader<'a>, cells: &mut [Cell<'a>]) -> u64 {
        let mut unreadable = 0;
        let mut goes_on = reader.opens(b'}');
        while goes_on {
            let (name, has_escapes) = reader.string();
            reader.take(b':');
            let column = match has_escapes {
                false => self.by_member.get(name),
                true => unescape(name).and_then(|name| self.by_member.get(name.as_bytes())),
            };
            match column.copied().and_then(|column| Some((column, self.places[column]?))) {
                // The last of several members with the same name counts.
                Some((column, place)) => {
                    unreadable += self.read_cell(reader, column, &mut cells[place]);
                }
                None if column.is_none() && self.is_looked_for(name, has_escapes) => {
                    self.fits &= reader.take_null();
                    reader.skip();
                }
                None => reader.skip(),
            }
            goes_on = reader.goes_on();
        }
        unreadable
    }

    fn is_looked_for(&self, name: &[u8], has_escapes: bool) -> bool {
        if !self.wanted.has_others && self.absent.is_empty() {
            return false;
        }
        let Some(name) = (if has_escapes { unescape(name) } else { Some(utf8(name)) }) else {
            return false;
        };
        let is_it = |absent: &[u8]| absent.eq_ignore_ascii_case(name.as_bytes());
        self.wanted.has_others || self.absent.iter().any(|absent| is_it(absent))
    }

    #[inline(always)]
    fn read_cell<'a>(
        &mut self,
        reader: &mut Reader<'a>,
        column: usize,
        cell: &mut Cell<'a>,
    ) -> u64 {
        let declared = self.types[column];
        if self.is_inferred {
            return self.read_inferred(reader, column, cell);
        }
        let found = match declared.kind {
            _ if reader.take_null() => Some(Cell::Null),
            Kind::Int => reader.int(true).map(Cell::Int),
            Kind::Double => reader.double(true).map(Cell::Double),
            Kind::Time => reader.time(&mut self.minute).map(Cell::Time),
            Kind::Bool => reader.bool().map(Cell::Bool),
            Kind::Null | Kind::String | Kind::Json => None,
        };
        let found = found.or_else(|| {
            let from = reader.at();
            let value = reader.value();
            as_declared(declared, value, reader.since(from)).ok()
        });
        let is_unreadable = found.is_none();
        *cell = found.unwrap_or(Cell::Null);
        u64::from(is_unreadable)
    }
}

impl CellReader {
    /// Reads a value as its column's inferred type. A column whose type must not change is read like a
    /// declared column. Only reading a declared type is inlined.
    #[inline(never)]
    fn read_inferred<'a>(
        &mut self,
        reader: &mut Reader<'a>,
        column: usize,
        cell: &mut Cell<'a>,
    ) -> u64 {
        let declared = self.types[column];
        let found = match declared.kind {
            _ if reader.take_null() => Some(Cell::Null),
            Kind::Int => reader.int(false).map(Cell::Int),
            Kind::Double => reader.double(false).map(Cell::Double),
            Kind::Time => reader.time(&mut self.minute).map(Cell::Time),
            Kind::Bool => reader.bool().map(Cell::Bool),
            Kind::Null | Kind::String | Kind::Json => None,
        };
        if let Some(found) = found {
            *cell = found;
            return 0;
        }
        let from = reader.at();
        let value = reader.value();
        let text = reader.since(from);
        let kind = declared.kind;
        // A double column takes every integer, rounded if necessary.
        let found = match (kind, value) {
            (Kind::Double, Value::Int(number)) => Ok(Cell::Double(number as f64)),
            _ => typed_cell(kind, value, text),
        };
        *cell = match found {
            Ok(found) => found,
            Err(_) if self.is_refused(column, kind.or(kind_of(value).0)) => {
                match as_declared(declared, value, text) {
                    Ok(found) => found,
                    Err(_) => {
                        *cell = Cell::Null;
                        return 1;
                    }
                }
            }
            Err(_) => {
                self.fits = false;
                Cell::Null
            }
        };
        0
    }

    fn is_refused(&self, column: usize, kind: Kind) -> bool {
        self.wanted.refused.get(column).is_some_and(|refused| refused.contains(&kind))
    }
}

impl Columns {
    /// Returns whether the columns have names or places in the rows. Columns inferred from events that are neither
    /// objects nor arrays have neither.
    pub fn are_named(&self) -> bool {
        self.shape != Shape::Values
    }
}
