use crate::{
    Columns,
    column::{Unreadable, Values},
    json::Reader,
    schema::{Shape, fits_cells},
    unescape::unescape,
};

/// Rows are not of the columns: [`Columns::widened`] has columns that they fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("rows do not fit the columns")]
pub struct Misfit;

/// Where in its row a value is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place<'a> {
    /// A member of an object: its name as the JSON has it. `true`: it has escapes.
    Member(&'a [u8], bool),
    /// An element of an array.
    Element(usize),
    /// It is the row.
    Whole,
}

/// Hears of all values of rows.
pub(crate) trait Visitor {
    /// Why it does not want to hear more.
    type Error;

    /// A row begins.
    fn begin(&mut self, shape: Shape) -> Result<(), Self::Error>;

    /// A value of it, which `reader` is at and has to be read.
    fn value(&mut self, place: Place<'_>, reader: &mut Reader<'_>) -> Result<(), Self::Error>;

    /// The row ends.
    fn end(&mut self);
}

/// Visits all values of `rows`, which are JSON joined by commas. With `is_whole` each row is one value.
#[inline]
pub(crate) fn visit<V: Visitor>(
    rows: &[u8],
    is_whole: bool,
    visitor: &mut V,
) -> Result<(), V::Error> {
    let mut reader = Reader::new(rows);
    while let Some(first) = reader.peek() {
        match first {
            _ if is_whole => {
                visitor.begin(Shape::Values)?;
                visitor.value(Place::Whole, &mut reader)?;
            }
            b'[' => {
                visitor.begin(Shape::Arrays)?;
                reader.take(b'[');
                let mut index = 0;
                while reader.peek().is_some() && !reader.take(b']') {
                    visitor.value(Place::Element(index), &mut reader)?;
                    index += 1;
                    reader.take(b',');
                }
            }
            b'{' => {
                visitor.begin(Shape::Objects)?;
                reader.take(b'{');
                while reader.peek().is_some() && !reader.take(b'}') {
                    let (name, has_escapes) = reader.string();
                    reader.take(b':');
                    visitor.value(Place::Member(name, has_escapes), &mut reader)?;
                    reader.take(b',');
                }
            }
            _ => {
                visitor.begin(Shape::Values)?;
                visitor.value(Place::Whole, &mut reader)?;
            }
        }
        visitor.end();
        reader.take(b',');
    }
    Ok(())
}

/// Rows, column by column.
#[derive(Debug)]
pub(crate) struct Rows<'a> {
    columns: &'a Columns,
    pub(crate) values: Vec<Values>,
    pub(crate) count: usize,
    /// The column that the next member is probably of: objects of a topic have theirs in one order.
    expected: usize,
    /// Values that could not be read as declared. They are null.
    pub(crate) unreadable: u64,
}

impl<'a> Rows<'a> {
    /// Reads rows.
    ///
    /// # Errors
    /// When there is one that does not fit.
    pub(crate) fn read(columns: &'a Columns, rows: &[u8]) -> Result<Self, Misfit> {
        // A row of a value for each column has about so many bytes.
        let about = rows.len() / (columns.columns.len() * 8).max(1) + 1;
        let values = columns.columns.iter().map(|column| Values::new(column.kind, about));
        let values = values.collect();
        let mut read = Self { columns, values, count: 0, expected: 0, unreadable: 0 };
        visit(rows, columns.shape == Shape::Values, &mut read)?;
        Ok(read)
    }

    /// Which column a value is of; `None`: of none.
    #[inline]
    fn column_of(&mut self, place: Place<'_>) -> Option<usize> {
        match place {
            Place::Element(index) => (index < self.values.len()).then_some(index),
            Place::Whole if self.columns.is_declared => None,
            Place::Whole => Some(0),
            Place::Member(name, has_escapes) => {
                let column = self.columns.columns.get(self.expected);
                let is_expected = column
                    .is_some_and(|column| column.name.as_bytes() == name && !is_like_offset(name));
                let found = match is_expected {
                    true => Some(self.expected),
                    false => self.columns.find(name, has_escapes),
                };
                self.expected = found? + 1;
                found
            }
        }
    }
}

impl Visitor for Rows<'_> {
    type Error = Misfit;

    #[inline]
    fn begin(&mut self, shape: Shape) -> Result<(), Misfit> {
        self.expected = 0;
        if !self.columns.is_declared && !fits_cells(self.count + 1, self.values.len()) {
            return Err(Misfit);
        }
        match self.columns.is_declared {
            true => self.unreadable += u64::from(shape == Shape::Values),
            false if shape == self.columns.shape => {}
            false => return Err(Misfit),
        }
        Ok(())
    }

    #[inline]
    fn value(&mut self, place: Place<'_>, reader: &mut Reader<'_>) -> Result<(), Misfit> {
        let is_declared = self.columns.is_declared;
        let Some(index) = self.column_of(place) else {
            reader.value();
            return if is_declared { Ok(()) } else { Err(Misfit) };
        };
        let values = &mut self.values[index];
        if values.rows() > self.count {
            // The object has the member twice: the last one counts, as everywhere.
            values.pop();
        }
        match values.read(reader, is_declared) {
            Ok(()) => Ok(()),
            Err(Unreadable) if is_declared => {
                values.push_null();
                self.unreadable += 1;
                Ok(())
            }
            Err(Unreadable) => Err(Misfit),
        }
    }

    #[inline]
    fn end(&mut self) {
        self.count += 1;
        for values in &mut self.values {
            if values.rows() < self.count {
                values.push_null();
            }
        }
    }
}

impl Columns {
    /// The column of an object's member.
    pub(crate) fn find(&self, name: &[u8], has_escapes: bool) -> Option<usize> {
        if !has_escapes {
            return self.by_member.get(name).copied();
        }
        let mut said = Vec::new();
        unescape(name, &mut said);
        self.by_member.get(&*said).copied()
    }
}

/// Whether a member's name could be taken for the column of the offsets: underscores and `offset`.
pub(crate) fn is_like_offset(name: &[u8]) -> bool {
    name.strip_suffix(b"offset")
        .is_some_and(|before| !before.is_empty() && before.iter().all(|byte| *byte == b'_'))
}
