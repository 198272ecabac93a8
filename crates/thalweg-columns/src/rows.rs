use memchr::memchr2;

use crate::{
    Column, Columns,
    cells::Unreadable,
    column::Values,
    json::Reader,
    schema::{Shape, fits_cells, is_like_offset},
    unescape::unescape,
};

/// Rows are not of the columns: [`Columns::widened`] has columns that they fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("rows do not fit the columns")]
pub struct Misfit;

/// Rows, column by column.
#[derive(Debug)]
pub(crate) struct Rows<'a> {
    columns: &'a Columns,
    pub(crate) values: Vec<Values>,
    pub(crate) count: usize,
    /// Of rows that are objects, the name of each column, if JSON says it as it is.
    names: Vec<Option<&'a [u8]>>,
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
        let values = columns.columns.iter().map(|column| Values::new(column.column_type(), about));
        let values = values.collect();
        let names = match columns.shape {
            Shape::Objects => columns.iter().map(plain_name).collect(),
            Shape::Arrays | Shape::Values => Vec::new(),
        };
        let mut read = Self { columns, values, names, count: 0, unreadable: 0 };
        let mut reader = Reader::new(rows);
        while let Some(first) = reader.peek() {
            let shape = match first {
                _ if columns.shape == Shape::Values => Shape::Values,
                b'[' => Shape::Arrays,
                b'{' => Shape::Objects,
                _ => Shape::Values,
            };
            read.begin(shape)?;
            match shape {
                Shape::Arrays => read.array(&mut reader)?,
                Shape::Objects => read.object(&mut reader)?,
                Shape::Values => read.whole(&mut reader)?,
            }
            read.count += 1;
            reader.take(b',');
        }
        Ok(read)
    }

    fn begin(&mut self, shape: Shape) -> Result<(), Misfit> {
        let is_declared = self.columns.is_declared;
        if !is_declared && !fits_cells(self.count + 1, self.values.len()) {
            return Err(Misfit);
        }
        match is_declared {
            true => self.unreadable += u64::from(shape == Shape::Values),
            false if shape == self.columns.shape => {}
            false => return Err(Misfit),
        }
        Ok(())
    }

    /// Reads an array: a value for each column.
    fn array(&mut self, reader: &mut Reader<'_>) -> Result<(), Misfit> {
        let is_declared = self.columns.is_declared;
        let mut here = reader.clone();
        let mut goes_on = here.opens(b']');
        for values in &mut self.values {
            if !goes_on {
                values.push_null();
                continue;
            }
            if values.read(&mut here, is_declared).is_err() {
                unreadable(values, &mut self.unreadable, is_declared)?;
            }
            goes_on = here.goes_on();
        }
        while goes_on {
            self.without_column(&mut here)?;
            goes_on = here.goes_on();
        }
        *reader = here;
        Ok(())
    }

    /// Reads an object: a column for each member.
    fn object(&mut self, reader: &mut Reader<'_>) -> Result<(), Misfit> {
        let is_declared = self.columns.is_declared;
        // The column that the next member is probably of: objects of a topic have theirs in one order.
        let mut expected = 0;
        let mut here = reader.clone();
        let mut goes_on = here.opens(b'}');
        while goes_on {
            let index = match self.names.get(expected) {
                Some(Some(name)) if here.take_string(name) => Some(expected),
                _ => {
                    let (name, has_escapes) = here.string();
                    self.columns.find(name, has_escapes)
                }
            };
            here.take(b':');
            match index {
                Some(index) => {
                    expected = index + 1;
                    let values = &mut self.values[index];
                    if values.rows() > self.count {
                        // The object has the member twice: the last one counts, as everywhere.
                        values.pop();
                    }
                    if values.read(&mut here, is_declared).is_err() {
                        unreadable(values, &mut self.unreadable, is_declared)?;
                    }
                }
                None => self.without_column(&mut here)?,
            }
            goes_on = here.goes_on();
        }
        *reader = here;
        self.fill();
        Ok(())
    }

    /// Reads a row that is one value.
    fn whole(&mut self, reader: &mut Reader<'_>) -> Result<(), Misfit> {
        match self.values.first_mut() {
            Some(values) if !self.columns.is_declared => {
                values.read(reader, false).map_err(|Unreadable| Misfit)?;
            }
            _ => self.without_column(reader)?,
        }
        self.fill();
        Ok(())
    }

    /// Skips a value that no column is for.
    fn without_column(&self, reader: &mut Reader<'_>) -> Result<(), Misfit> {
        reader.value();
        if self.columns.is_declared { Ok(()) } else { Err(Misfit) }
    }

    /// What the row has no values for is null.
    fn fill(&mut self) {
        for values in &mut self.values {
            if values.rows() <= self.count {
                values.push_null();
            }
        }
    }
}

/// What cannot be read as declared is null.
#[cold]
fn unreadable(values: &mut Values, count: &mut u64, is_declared: bool) -> Result<(), Misfit> {
    if !is_declared {
        return Err(Misfit);
    }
    values.push_null();
    *count += 1;
    Ok(())
}

impl Columns {
    /// The column of an object's member.
    pub(crate) fn find(&self, name: &[u8], has_escapes: bool) -> Option<usize> {
        if !has_escapes {
            return self.by_member.get(name).copied();
        }
        self.by_member.get(unescape(name)?.as_bytes()).copied()
    }
}

/// A column's name, if it is that of its members and JSON says it without escapes: only then is what looks
/// like it in JSON the same string.
fn plain_name(column: &Column) -> Option<&[u8]> {
    let name = column.name.as_bytes();
    let has_escapes = memchr2(b'"', b'\\', name).is_some();
    (!has_escapes && !is_like_offset(name)).then_some(name)
}
