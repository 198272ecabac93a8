use std::sync::Arc;

use thalweg_columns::Columns;
use thalweg_wire::{Close, EndCode, Envelope, Epoch, Format, KeyFilter, Topic};

/// A format, the schema of a stream of columns, and the filter of keys. Subscribers with equal encodings get the same bytes.
#[derive(Debug, Clone, Copy)]
pub struct Encoding<'a> {
    format: Format,
    /// `None` for JSON, or for a stream without a schema yet.
    columns: Option<&'a Arc<Columns>>,
    is_conflated: bool,
    filter: Option<&'a Arc<KeyFilter>>,
}

/// The metadata key for the reason why a stream of columns ends.
const CLOSE: &str = "thalweg.close";

impl<'a> Encoding<'a> {
    /// Combines a format with the schema of a stream, if it has one.
    pub fn new(format: Format, columns: Option<&'a Arc<Columns>>) -> Self {
        Self { format, columns, is_conflated: false, filter: None }
    }

    /// Sets whether the readers want one event of each key per interval ([`super::Feed::conflates`]).
    #[must_use]
    pub fn conflated(self, is_conflated: bool) -> Self {
        Self { is_conflated, ..self }
    }

    /// Sets the filter of a keyed topic's readers.
    #[must_use]
    pub fn filtered(self, filter: Option<&'a Arc<KeyFilter>>) -> Self {
        Self { filter, ..self }
    }

    #[inline]
    pub(super) fn filter(self) -> Option<&'a Arc<KeyFilter>> {
        self.filter
    }

    #[inline]
    pub(super) fn is_conflated(self) -> bool {
        self.is_conflated
    }

    /// Returns the format.
    #[inline]
    pub fn format(self) -> Format {
        self.format
    }

    #[inline]
    pub(super) fn without_patches(self) -> Self {
        Self { format: self.format.without_patches(), ..self }
    }

    pub(super) fn columns(self) -> Option<&'a Arc<Columns>> {
        self.columns
    }

    pub(super) fn differs_from(self, columns: Option<&Arc<Columns>>) -> bool {
        match (self.columns, columns) {
            (Some(own), Some(other)) => !is_same(own, other),
            (own, other) => own.is_some() || other.is_some(),
        }
    }

    /// Appends a batch, whose rows must fit the stream's schema.
    pub(super) fn batch(self, envelope: &Envelope<'_>, out: &mut Vec<u8>) {
        match self.columns {
            None => self.format.batch(envelope, out),
            Some(columns) => self.format.own(out, |out| {
                // A batch whose rows do not fit has another schema and does not come here.
                let _ = columns.write_rows(envelope.first, envelope.events, out);
            }),
        }
    }

    /// Appends the bytes around a batch's events, like [`Format::around`].
    pub(super) fn around(self, envelope: &Envelope<'_>, out: &mut Vec<u8>) -> Option<usize> {
        match self.columns {
            None => self.format.around(envelope, out),
            Some(_) => None,
        }
    }

    /// Appends the beginning of a stream of columns: its schema, and a batch without rows.
    pub fn begin(self, topic: &Topic, epoch: Epoch, out: &mut Vec<u8>) {
        if let Some(columns) = self.columns {
            let epoch = epoch.to_string();
            let metadata = [("thalweg.topic", topic.as_str()), ("thalweg.epoch", &*epoch)];
            self.format.own(out, |out| {
                columns.write_schema(&metadata, out);
                columns.write_no_rows(None, out);
            });
        }
    }

    /// Appends a heartbeat, unless the stream of columns has no schema yet.
    pub fn heartbeat(self, out: &mut Vec<u8>) {
        match self.columns {
            None => self.format.heartbeat(out),
            Some(columns) => self.format.own(out, |out| columns.write_no_rows(None, out)),
        }
    }

    /// Appends the close, without the end of the response. `ended`: why the topic of a stream of columns has ended, if so.
    pub fn close(self, close: Close, ended: Option<EndCode>, out: &mut Vec<u8>) {
        match self.columns {
            None if self.format.has_columns() => {
                let none = Columns::none();
                self.format.own(out, |out| {
                    none.write_schema(&[], out);
                    end(&none, close, ended, out);
                });
            }
            None => self.format.close(close, out),
            Some(columns) => self.format.own(out, |out| end(columns, close, ended, out)),
        }
    }
}

fn end(columns: &Columns, close: Close, ended: Option<EndCode>, out: &mut Vec<u8>) {
    let mut said = Vec::new();
    close.write_with_end(ended, &mut said);
    columns.write_end(Some((CLOSE, &String::from_utf8_lossy(&said))), out);
}

impl From<Format> for Encoding<'_> {
    fn from(format: Format) -> Self {
        Self::new(format, None)
    }
}

/// Returns whether two schemas are equal. Usually both are the same allocation.
pub(super) fn is_same(one: &Arc<Columns>, other: &Arc<Columns>) -> bool {
    Arc::ptr_eq(one, other) || one == other
}
