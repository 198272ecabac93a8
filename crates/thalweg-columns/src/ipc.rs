//! Messages of a stream (Arrow Columnar Format 1.5, "Encapsulated message format" and "IPC Streaming Format").

use crate::{
    Columns, Kind, Misfit,
    column::Values,
    message::{self, Layout},
    rows::Rows,
    schema::ColumnType,
};

/// The beginning of every message, and of the end of a stream.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// Every message and every buffer begins at a multiple of this many bytes.
const ALIGNMENT: usize = 8;

/// The key of a batch's metadata for the number of values that are not of their declared type.
const UNREADABLE: &str = "thalweg.unreadable";

/// The bytes before a message's metadata: [`CONTINUATION`] and the metadata's length.
const PREFIX_BYTES: usize = 8;

impl Columns {
    /// Appends the beginning of a stream of these columns: the schema with `metadata`, and an empty dictionary for each
    /// string column, because some readers need all dictionaries before any rows.
    pub fn write_schema(&self, metadata: &[(&str, &str)], out: &mut Vec<u8>) {
        append(&message::schema(self, metadata), out);
        for (id, column) in self.iter().enumerate() {
            if column.kind == Kind::String {
                write_dictionary(id, &Values::new(ColumnType::from(Kind::String), 0), out);
            }
        }
    }

    /// Appends rows: JSON values joined by commas, the first at offset `first`. Their dictionaries precede them and
    /// replace earlier ones. Returns the number of values that are not of their column's declared type; those are null,
    /// and the batch's metadata has their number.
    ///
    /// # Errors
    /// When a row does not fit; then `out` is unchanged, and [`Columns::widened`] returns columns that fit.
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

    /// Appends a batch without rows: a heartbeat, or `metadata`.
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

    /// Appends the end of a stream, after an empty batch with `metadata`, if any.
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

/// Appends a message's metadata with its prefix and padding.
fn append(metadata: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&CONTINUATION);
    out.extend_from_slice(&(metadata.len().next_multiple_of(ALIGNMENT) as u32).to_le_bytes());
    out.extend_from_slice(metadata);
    pad(metadata.len(), out);
}

fn pad(len: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&[0; ALIGNMENT][..len.next_multiple_of(ALIGNMENT) - len]);
}
