//! Messages of a stream (Arrow Columnar Format 1.5, "Encapsulated message format" and "IPC Streaming
//! Format").

use crate::{
    Columns, Kind, Misfit,
    column::Values,
    message::{self, Layout},
    rows::Rows,
    schema::ColumnType,
};

/// Begins every message, and the end of a stream.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// Every message and every buffer begins at a multiple of so many bytes.
const ALIGNMENT: usize = 8;

/// In the metadata of a batch: how many of its values could not be read as their columns are declared.
const UNREADABLE: &str = "thalweg.unreadable";

/// What is before a message's metadata: [`CONTINUATION`] and its length.
const PREFIX_BYTES: usize = 8;

impl Columns {
    /// Appends what every stream of these columns begins with: the schema with `metadata`, and for each column of strings
    /// a dictionary without strings, because some readers want all dictionaries before any rows.
    pub fn write_schema(&self, metadata: &[(&str, &str)], out: &mut Vec<u8>) {
        append(&message::schema(self, metadata), out);
        for (id, column) in self.iter().enumerate() {
            if column.kind == Kind::String {
                write_dictionary(id, &Values::new(ColumnType::from(Kind::String), 0), out);
            }
        }
    }

    /// Appends rows: JSON values joined by commas, of which the first has offset `first`. The
    /// dictionaries that they need come before them and replace those before. Returns how many values
    /// could not be read as their columns are declared; they are null, and the batch's metadata says how many.
    ///
    /// # Errors
    /// When a row does not fit, with nothing appended: [`Columns::widened`] has columns that fit.
    pub fn write_rows(&self, first: u64, rows: &[u8], out: &mut Vec<u8>) -> Result<u64, Misfit> {
        let read = Rows::read(self, rows)?;
        for (id, values) in read.values.iter().enumerate() {
            if values.dictionary().is_some() {
                write_dictionary(id, values, out);
            }
        }
        let mut offsets = vec![0; read.count * 8];
        for (word, offset) in offsets.as_chunks_mut().0.iter_mut().zip(first..) {
            *word = offset.to_le_bytes();
        }
        let mut body = Body::default();
        body.column(read.count, 0, [&[], &*offsets].into_iter());
        for values in &read.values {
            body.column(values.rows(), values.nulls(), values.buffers());
        }
        let unreadable = read.unreadable.to_string();
        let metadata = (read.unreadable > 0).then_some((UNREADABLE, &*unreadable));
        body.append(read.count, None, metadata, out);
        Ok(read.unreadable)
    }

    /// Appends a batch without rows: it says that the stream lives, and where `metadata` is, that.
    pub fn write_no_rows(&self, metadata: Option<(&str, &str)>, out: &mut Vec<u8>) {
        let values: Vec<Values> =
            self.iter().map(|column| Values::new(column.column_type(), 0)).collect();
        let mut body = Body::default();
        body.column(0, 0, [[].as_slice(); 2].into_iter());
        for values in &values {
            body.column(0, 0, values.buffers());
        }
        body.append(0, None, metadata, out);
    }

    /// Appends the end of a stream, after a batch without rows that has `metadata`, if there is some.
    pub fn write_end(&self, metadata: Option<(&str, &str)>, out: &mut Vec<u8>) {
        if metadata.is_some() {
            self.write_no_rows(metadata, out);
        }
        out.extend_from_slice(&CONTINUATION);
        out.extend_from_slice(&[0; 4]);
    }
}

fn write_dictionary(id: usize, values: &Values, out: &mut Vec<u8>) {
    let Some(dictionary) = values.dictionary() else { return };
    let offsets = dictionary.offsets();
    let mut body = Body::default();
    body.column(dictionary.len(), 0, [&[], &*offsets, &*dictionary.bytes].into_iter());
    body.append(dictionary.len(), Some(id as i64), None, out);
}

/// The body of a message.
#[derive(Debug, Default)]
struct Body<'a> {
    layout: Layout,
    buffers: Vec<&'a [u8]>,
}

impl<'a> Body<'a> {
    fn column(&mut self, rows: usize, nulls: usize, buffers: impl Iterator<Item = &'a [u8]>) {
        self.layout.nodes.push((rows as i64, nulls as i64));
        for buffer in buffers {
            self.layout.buffers.push((self.layout.bytes, buffer.len() as i64));
            self.layout.bytes += buffer.len().next_multiple_of(ALIGNMENT) as i64;
            self.buffers.push(buffer);
        }
    }

    /// Appends the message.
    fn append(
        &self,
        rows: usize,
        dictionary: Option<i64>,
        metadata: Option<(&str, &str)>,
        out: &mut Vec<u8>,
    ) {
        let head = message::batch(rows, &self.layout, dictionary, metadata);
        out.reserve(PREFIX_BYTES + head.len() + ALIGNMENT + self.layout.bytes as usize);
        append(&head, out);
        for buffer in &self.buffers {
            out.extend_from_slice(buffer);
            pad(buffer.len(), out);
        }
    }
}

/// Appends a message's metadata, with what delimits it.
fn append(metadata: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&CONTINUATION);
    out.extend_from_slice(&(metadata.len().next_multiple_of(ALIGNMENT) as u32).to_le_bytes());
    out.extend_from_slice(metadata);
    pad(metadata.len(), out);
}

fn pad(len: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&[0; ALIGNMENT][..len.next_multiple_of(ALIGNMENT) - len]);
}
