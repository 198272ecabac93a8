//! Members of JSON: `j.a`, `j->'a'`, `j->>'a'`, `j->0`.

use std::borrow::Cow;

use thalweg_columns::{Cell, Kind, json_as_kind, json_element, json_member};

use crate::{limits::ALLOCATION_BYTES, meter::Meter};

/// The way from a JSON value to a part of it, and the type of that part.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Path {
    pub(crate) parts: Vec<Part>,
    pub(crate) reading: Reading,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Part {
    Member(Box<str>),
    /// An element of an array, from 0 on.
    Element(usize),
}

/// The type as which a part is read. The expression that uses the part decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// As a column declared with this type.
    As(Kind),
    /// An int if possible, otherwise a double, because comparisons of ints are exact.
    Number,
}

impl Reading {
    pub(crate) fn kind(self) -> Kind {
        match self {
            Self::As(kind) => kind,
            Self::Number => Kind::Double,
        }
    }
}

impl Path {
    /// Returns the part of a JSON value; NULL if there is no such part. Counts the bytes of each part that is searched.
    pub(crate) fn part_of<'r>(&self, cell: Cell<'r>, meter: &Meter) -> Cell<'r> {
        match cell {
            Cell::Json(Cow::Borrowed(json)) => self.find(json, meter),
            Cell::Json(Cow::Owned(json)) => match self.find(&json, meter) {
                Cell::Json(text) => Cell::Json(Cow::Owned(text.into_owned())),
                Cell::String(text) => Cell::String(Cow::Owned(text.into_owned())),
                Cell::Int(number) => Cell::Int(number),
                Cell::Double(number) => Cell::Double(number),
                Cell::Time(ms) => Cell::Time(ms),
                Cell::Bool(is_true) => Cell::Bool(is_true),
                Cell::Null => Cell::Null,
            },
            _ => Cell::Null,
        }
    }

    fn find<'r>(&self, json: &'r str, meter: &Meter) -> Cell<'r> {
        let mut found = json;
        for part in &self.parts {
            if !meter.scan(found.len()) {
                return Cell::Null;
            }
            let next = match part {
                Part::Member(name) => json_member(found, name),
                Part::Element(place) => json_element(found, *place),
            };
            match next {
                Some(next) => found = next,
                None => return Cell::Null,
            }
        }
        if self.reading == Reading::As(Kind::Json) {
            return json_as_kind(found, Kind::Json).unwrap_or(Cell::Null);
        }
        // Only texts with escapes are copied.
        if !meter.scan(found.len()) || (found.contains('\\') && !meter.make(found.len())) {
            return Cell::Null;
        }
        meter.result(match self.reading {
            Reading::As(kind) => json_as_kind(found, kind),
            Reading::Number => {
                json_as_kind(found, Kind::Int).or_else(|| json_as_kind(found, Kind::Double))
            }
        })
    }

    /// Returns the memory in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let name = |part: &Part| match part {
            Part::Member(name) => name.len() + ALLOCATION_BYTES,
            Part::Element(_) => 0,
        };
        size_of::<Self>()
            + self.parts.iter().map(|part| size_of::<Part>() + name(part)).sum::<usize>()
    }
}
