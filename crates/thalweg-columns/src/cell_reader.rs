use std::collections::HashMap;

use crate::{
    Column, Columns, Kind,
    cells::{Cell, as_declared},
    json::Reader,
    schema::{ColumnType, Shape},
    time::Minute,
    unescape::unescape,
};

/// Reads some columns of rows, one row after the other, as declared types have them.
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
        }
    }

    /// Reads a row: an array with a value for each column of the schema, or an object with a member for
    /// each. `cells` has a place for each wanted column, in the order in which they were wanted, which is
    /// null and gets its value. A row that is anything else has no values. Returns how many could not be read as
    /// their column's type.
    pub fn read<'a>(&mut self, row: &'a [u8], cells: &mut [Cell<'a>]) -> u64 {
        let mut reader = Reader::new(row);
        match reader.peek() {
            Some(b'[') => self.read_array(&mut reader, cells),
            Some(b'{') => self.read_object(&mut reader, cells),
            _ => 1,
        }
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
                None => reader.skip(),
            }
            goes_on = reader.goes_on();
        }
        unreadable
    }

    /// Reads a value. Returns whether it could not be read.
    #[inline]
    fn read_cell<'a>(
        &mut self,
        reader: &mut Reader<'a>,
        column: usize,
        cell: &mut Cell<'a>,
    ) -> u64 {
        let declared = self.types[column];
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

impl Columns {
    /// Whether rows are of these columns by name or by place: those that are inferred from events that
    /// are neither objects nor arrays are not.
    pub fn are_named(&self) -> bool {
        self.shape != Shape::Values
    }
}
