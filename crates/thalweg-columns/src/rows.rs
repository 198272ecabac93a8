use memchr::memchr2;

use crate::{
    Column, Columns,
    cells::Unreadable,
    column::Values,
    json::Reader,
    schema::{Shape, fits_cells, is_like_offset},
    unescape::unescape,
};

/// The rows do not fit the columns: [`Columns::widened`] returns columns that fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("rows do not fit the columns")]
pub struct Misfit;

#[derive(Debug)]
pub(crate) struct Rows<'a> {
    columns: &'a Columns,
    pub(crate) values: Vec<Values>,
    pub(crate) count: usize,
    /// The name of each column, if rows are objects and JSON writes the name without escapes.
    names: Vec<Option<&'a [u8]>>,
    /// Values that are not of their declared type, and are null.
    pub(crate) unreadable: u64,
}

impl<'a> Rows<'a> {
    pub(crate) fn read(columns: &'a Columns, rows: &[u8]) -> Result<Self, Misfit> {
        // Approximate bytes of a row with a value for each column.
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

    /// Reads an array: one value per column.
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

    /// Reads an object: one column per member.
    fn object(&mut self, reader: &mut Reader<'_>) -> Result<(), Misfit> {
        let is_declared = self.columns.is_declared;
        // The probable column of the next member: the objects of a topic mostly have their members in the same order.
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
                        // A repeated member: the last one counts.
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

    fn without_column(&self, reader: &mut Reader<'_>) -> Result<(), Misfit> {
        reader.value();
        if self.columns.is_declared { Ok(()) } else { Err(Misfit) }
    }

    /// Appends a null to each column without a value in this row.
    fn fill(&mut self) {
        for values in &mut self.values {
            if values.rows() <= self.count {
                values.push_null();
            }
        }
    }
}

/// Counts a value that is not of its declared type, and is null.
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
    pub(crate) fn find(&self, name: &[u8], has_escapes: bool) -> Option<usize> {
        if !has_escapes {
            return self.by_member.get(name).copied();
        }
        self.by_member.get(unescape(name)?.as_bytes()).copied()
    }
}

/// Returns a column's name if it equals the member's name and JSON writes it without escapes, so that equal bytes mean equal names.
fn plain_name(column: &Column) -> Option<&[u8]> {
    let name = column.name.as_bytes();
    let has_escapes = memchr2(b'"', b'\\', name).is_some();
    (!has_escapes && !is_like_offset(name)).then_some(name)
}
