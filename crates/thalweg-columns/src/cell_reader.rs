use std::collections::HashMap;

use crate::{
    Column, Columns, Kind,
    cells::{Cell, as_declared, of_type, utf8},
    infer::kind_of,
    json::{Reader, Value},
    schema::{ColumnType, Shape},
    time::Minute,
    unescape::unescape,
};

/// Which values of a row are looked for that inferred columns do not have.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Members and places that no column is for, too.
    pub has_others: bool,
    /// Columns that no row had yet. A member is looked for that is called so but for capitals.
    pub absent: Vec<usize>,
    /// For each column, the types that it must not become. The list may be shorter.
    pub refused: Vec<Vec<Kind>>,
}

/// Reads some columns of rows, one row after the other, as declared types have them. A value that does not fit a column
/// whose type was inferred shows in [`Self::fits`].
#[derive(Debug)]
pub struct CellReader {
    /// For each column of the schema, where its value goes, if it is wanted.
    places: Vec<Option<usize>>,
    types: Vec<ColumnType>,
    /// Of rows that are objects: the column of each member.
    by_member: HashMap<Box<[u8]>, usize>,
    /// Behind the last one that is wanted, an array need not be read.
    end: usize,
    minute: Minute,
    is_inferred: bool,
    shape: Shape,
    /// What is looked for besides, where columns are inferred.
    wanted: Wanted,
    /// Names of absent columns.
    absent: Vec<Box<[u8]>>,
    fits: bool,
}

impl CellReader {
    /// Reads the columns of `schema` with the indices `wanted`.
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

    /// The same of columns that were inferred, and what is looked for besides.
    pub fn inferred(schema: &Columns, columns: &[usize], wanted: Wanted) -> Self {
        let absent = wanted.absent.iter().filter_map(|index| schema.columns.get(*index));
        let absent = absent.map(|column| column.name.as_bytes().into()).collect();
        let end = if wanted.has_others { schema.columns.len() } else { 0 };
        let reader = Self::new(schema, columns);
        Self { end: reader.end.max(end), wanted, absent, ..reader }
    }

    /// Whether the last row fitted. Otherwise [`Columns::changes_for`] has what makes the columns fit it.
    pub fn fits(&self) -> bool {
        self.fits
    }

    /// Reads a row: an array with a value for each column of the schema, or an object with a member for
    /// each. `cells` has a place for each wanted column, in the order in which they were wanted, which is
    /// null and gets its value. A row that is anything else has no values. Returns how many could not be read as
    /// their column's type.
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
                // Of a member that comes twice the last one counts.
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

    /// Whether a member that no column is for should be one.
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

    /// Reads a value. Returns whether it could not be read.
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
    /// Reads a value as its column's type was inferred. Where that must not change it is read as if it were declared.
    /// Not inlined, so that reading a declared one is.
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
        // A double has all integers, if need be rounded.
        let found = match (kind, value) {
            (Kind::Double, Value::Int(number)) => Ok(Cell::Double(number as f64)),
            _ => of_type(kind, value, text),
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
    /// Whether rows are of these columns by name or by place: those that are inferred from events that
    /// are neither objects nor arrays are not.
    pub fn are_named(&self) -> bool {
        self.shape != Shape::Values
    }
}
