use crate::{
    Kind,
    cells::{Cell, Unreadable, as_declared, typed_cell},
    dictionary::Dictionary,
    json::{Reader, Value},
    schema::ColumnType,
    time::Minute,
};

/// The values of one column in Arrow's memory layout.
#[derive(Debug)]
pub(crate) struct Values {
    declared: ColumnType,
    rows: usize,
    data: Data,
    /// A bit per row: whether it has a value. Empty while all rows have one.
    validity: Vec<u8>,
    nulls: usize,
}

#[derive(Debug)]
enum Data {
    Nothing,
    /// A bit per row.
    Bits(Vec<u8>),
    /// 64 bits per row, little endian: integers, doubles, instants.
    Ints(Vec<u8>),
    Doubles(Vec<u8>),
    Times(Vec<u8>, Minute),
    Dictionary(Box<Dictionary>),
    /// Texts, and where each begins.
    Texts {
        offsets: Vec<u8>,
        bytes: Vec<u8>,
    },
}

impl Values {
    pub(crate) fn new(declared: ColumnType, rows: usize) -> Self {
        let data = match declared.kind {
            Kind::Null => Data::Nothing,
            Kind::Bool => Data::Bits(Vec::with_capacity(rows / 8 + 1)),
            Kind::Int => Data::Ints(Vec::with_capacity(rows * 8)),
            Kind::Double => Data::Doubles(Vec::with_capacity(rows * 8)),
            Kind::Time => Data::Times(Vec::with_capacity(rows * 8), Minute::default()),
            Kind::String => Data::Dictionary(Box::new(Dictionary::new(rows))),
            Kind::Json => Data::Texts { offsets: vec![0; 4], bytes: Vec::new() },
        };
        Self { declared, rows: 0, data, validity: Vec::new(), nulls: 0 }
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn nulls(&self) -> usize {
        self.nulls
    }

    pub(crate) fn dictionary(&self) -> Option<&Dictionary> {
        match &self.data {
            Data::Dictionary(dictionary) => Some(dictionary),
            _ => None,
        }
    }

    /// Returns the column's buffers in Arrow's order: validity, then those of its type.
    pub(crate) fn buffers(&self) -> impl Iterator<Item = &[u8]> {
        let (first, second): (Option<&[u8]>, Option<&[u8]>) = match &self.data {
            Data::Nothing => (None, None),
            Data::Bits(bytes)
            | Data::Ints(bytes)
            | Data::Doubles(bytes)
            | Data::Times(bytes, _) => (Some(bytes), None),
            Data::Dictionary(dictionary) => (Some(&dictionary.keys), None),
            Data::Texts { offsets, bytes } => (Some(offsets), Some(bytes)),
        };
        let validity = first.map(|_| self.validity.as_slice());
        [validity, first, second].into_iter().flatten()
    }

    /// Reads a row's value and appends it. The common form of the column's values is tried first, without tests for other forms.
    /// Fails if the value is not of the column's type; even then the reader is past the value.
    #[inline(always)]
    pub(crate) fn read(
        &mut self,
        reader: &mut Reader<'_>,
        is_declared: bool,
    ) -> Result<(), Unreadable> {
        if reader.take_null() {
            self.push_null();
            return Ok(());
        }
        let found = match &mut self.data {
            Data::Ints(words) => push_found(words, reader.int(is_declared).map(i64::to_le_bytes)),
            Data::Doubles(words) => {
                push_found(words, reader.double(is_declared).map(f64::to_le_bytes))
            }
            Data::Times(words, minute) => {
                push_found(words, reader.time(minute).map(i64::to_le_bytes))
            }
            Data::Dictionary(dictionary) => dictionary.push_next(reader),
            Data::Bits(bits) => match reader.bool() {
                Some(bit) => {
                    push_bit(bits, self.rows, bit);
                    true
                }
                None => false,
            },
            Data::Nothing | Data::Texts { .. } => false,
        };
        if found {
            self.pushed();
            return Ok(());
        }
        // A copy lets the reader itself stay in registers.
        let mut here = reader.clone();
        let read = self.read_any(&mut here, is_declared);
        *reader = here;
        read
    }

    #[inline(never)]
    fn read_any(&mut self, reader: &mut Reader<'_>, is_declared: bool) -> Result<(), Unreadable> {
        let from = reader.at();
        let value = reader.value();
        match is_declared {
            true => self.push_as_declared(value, reader.since(from)),
            false => self.push(value, reader.since(from)),
        }
    }

    /// Appends a row's value of an inferred type, without conversion. `text` is the value's JSON.
    fn push(&mut self, value: Value<'_>, text: &[u8]) -> Result<(), Unreadable> {
        let cell = typed_cell(self.declared.kind, value, text)?;
        self.push_cell(&cell);
        Ok(())
    }

    fn push_as_declared(&mut self, value: Value<'_>, text: &[u8]) -> Result<(), Unreadable> {
        let cell = as_declared(self.declared, value, text)?;
        self.push_cell(&cell);
        Ok(())
    }

    /// Appends a row's value, which is of the column's type or null.
    fn push_cell(&mut self, cell: &Cell<'_>) {
        match cell {
            Cell::Null => self.push_null(),
            Cell::Bool(value) => self.push_bool(*value),
            Cell::Int(number) | Cell::Time(number) => self.push_word(number.to_le_bytes()),
            Cell::Double(number) => self.push_word(number.to_le_bytes()),
            Cell::String(text) => self.push_string(text),
            Cell::Json(text) => self.push_text(text.as_bytes()),
        }
    }

    pub(crate) fn push_null(&mut self) {
        if self.nulls == 0 && !matches!(self.data, Data::Nothing) {
            self.validity = vec![0xff; self.rows / 8];
            self.validity
                .extend((!self.rows.is_multiple_of(8)).then_some((1 << (self.rows % 8)) - 1));
        }
        self.nulls += 1;
        match &mut self.data {
            Data::Nothing => {}
            Data::Bits(bits) => push_bit(bits, self.rows, false),
            Data::Ints(words) | Data::Doubles(words) | Data::Times(words, _) => {
                words.extend_from_slice(&[0; 8]);
            }
            Data::Dictionary(dictionary) => dictionary.push_null(),
            Data::Texts { offsets, bytes } => {
                offsets.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            }
        }
        if !matches!(self.data, Data::Nothing) {
            push_bit(&mut self.validity, self.rows, false);
        }
        self.rows += 1;
    }

    pub(crate) fn pop(&mut self) {
        self.rows -= 1;
        if self.nulls > 0 && !matches!(self.data, Data::Nothing) {
            self.nulls -= usize::from(!pop_bit(&mut self.validity, self.rows));
            if self.nulls == 0 {
                self.validity.clear();
            }
        } else if self.nulls > 0 {
            self.nulls -= 1;
        }
        match &mut self.data {
            Data::Nothing => {}
            Data::Bits(bits) => drop(pop_bit(bits, self.rows)),
            Data::Ints(words) | Data::Doubles(words) | Data::Times(words, _) => {
                words.truncate(self.rows * 8);
            }
            Data::Dictionary(dictionary) => dictionary.pop(),
            Data::Texts { offsets, bytes } => {
                offsets.truncate((self.rows + 1) * 4);
                let end = offsets.last_chunk().map_or(0, |end| u32::from_le_bytes(*end));
                bytes.truncate(end as usize);
            }
        }
    }

    fn push_word(&mut self, word: [u8; 8]) {
        if let Data::Ints(words) | Data::Doubles(words) | Data::Times(words, _) = &mut self.data {
            words.extend_from_slice(&word);
            self.pushed();
        }
    }

    fn push_bool(&mut self, value: bool) {
        if let Data::Bits(bits) = &mut self.data {
            push_bit(bits, self.rows, value);
            self.pushed();
        }
    }

    fn push_string(&mut self, text: &str) {
        if let Data::Dictionary(dictionary) = &mut self.data {
            dictionary.push(text.as_bytes());
            self.pushed();
        }
    }

    fn push_text(&mut self, text: &[u8]) {
        if let Data::Texts { offsets, bytes } = &mut self.data {
            bytes.extend_from_slice(text);
            offsets.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            self.pushed();
        }
    }

    #[inline]
    fn pushed(&mut self) {
        if self.nulls > 0 {
            push_bit(&mut self.validity, self.rows, true);
        }
        self.rows += 1;
    }
}

/// Appends the word in `found`, if there is one. Returns whether there was one.
#[inline]
fn push_found(words: &mut Vec<u8>, found: Option<[u8; 8]>) -> bool {
    if let Some(word) = found {
        words.extend_from_slice(&word);
    }
    found.is_some()
}

#[inline]
fn push_bit(bits: &mut Vec<u8>, row: usize, bit: bool) {
    if row.is_multiple_of(8) {
        bits.push(u8::from(bit));
    } else if let Some(last) = bits.last_mut() {
        *last |= u8::from(bit) << (row % 8);
    }
}

/// Removes and returns the last bit, which belongs to `row`.
fn pop_bit(bits: &mut Vec<u8>, row: usize) -> bool {
    let Some(last) = bits.last_mut() else { return true };
    let bit = *last >> (row % 8) & 1 == 1;
    *last &= (1 << (row % 8)) - 1;
    if row.is_multiple_of(8) {
        bits.pop();
    }
    bit
}
