//! Changes of inferred columns for one more row, column by column, for running queries. (A change ends a stream of
//! columns, which therefore widens per batch: [`Columns::widened`].)

use std::convert::Infallible;

use crate::{
    Column, Columns, Kind,
    infer::kind_of,
    json::Reader,
    limits::COLUMNS_MAX,
    schema::{Shape, fits_limits, member_name, place_name},
    unescape::unescape,
    visit::{Place, Visitor, visit},
};

/// A change that makes the columns fit a value of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The changed column; `None` adds a column after all others.
    pub column: Option<usize>,
    /// The name of the value's member or of its place in an array, if the column is new.
    pub member: Option<String>,
    /// The narrowest type of this value and all values before it.
    pub kind: Kind,
}

impl Columns {
    /// Returns the changes that make the columns fit a row, in the order of its values. A row of another shape has no
    /// value for any column and needs no change.
    pub fn changes_for(&self, row: &[u8]) -> Vec<Change> {
        let mut found = Found { columns: self, changes: Vec::new(), is_of_shape: true };
        match visit(row, &mut found) {
            Ok(()) => found.changes,
        }
    }

    /// Returns the columns after the changes; `None` if they would exceed the limits of columns or names.
    pub fn changed(&self, changes: &[Change]) -> Option<Self> {
        let mut changed = self.clone();
        for Change { column, member, kind } in changes {
            let index = match (column, member) {
                (Some(index), None) => *index,
                (Some(index), Some(member)) => {
                    changed.name(*index, member);
                    *index
                }
                (None, member) => changed.add(member.as_deref()?)?,
            };
            let column = changed.columns.get_mut(index)?;
            column.kind = column.kind.or(*kind);
        }
        fits_limits(&changed.columns).then_some(changed)
    }

    /// Returns the columns with an added column of this name, for which no row has had a value, and the index of this column.
    /// `None`: these rows cannot have such a member or place, or the columns are at their limit.
    pub fn with_absent(&self, name: &str) -> Option<(Self, usize)> {
        let mut with = self.clone();
        let index = with.add(name)?;
        fits_limits(&with.columns).then_some((with, index))
    }

    /// Returns whether the types are inferred from rows, and can change.
    pub fn are_inferred(&self) -> bool {
        !self.is_declared
    }

    /// Adds a column of nulls for this member, or for this place of arrays and all places before it.
    fn add(&mut self, name: &str) -> Option<usize> {
        match self.shape {
            Shape::Values => None,
            Shape::Objects => {
                if let Some(index) = self.by_member.get(name.as_bytes()) {
                    return Some(*index);
                }
                let index = self.columns.len();
                self.columns.push(Column::new(member_name(name), Kind::Null));
                self.by_member.insert(name.as_bytes().into(), index);
                Some(index)
            }
            Shape::Arrays => {
                let place: usize = name.strip_prefix("column")?.parse().ok()?;
                if place >= COLUMNS_MAX || place_name(place) != name {
                    return None;
                }
                while self.columns.len() <= place {
                    let next = place_name(self.columns.len());
                    self.columns.push(Column::new(next, Kind::Null));
                }
                Some(place)
            }
        }
    }

    fn name(&mut self, index: usize, member: &str) {
        self.by_member.retain(|_, column| *column != index);
        self.by_member.insert(member.as_bytes().into(), index);
        if let Some(column) = self.columns.get_mut(index) {
            column.name = member_name(member);
        }
    }
}

struct Found<'a> {
    columns: &'a Columns,
    changes: Vec<Change>,
    is_of_shape: bool,
}

impl Visitor for Found<'_> {
    type Error = Infallible;

    fn begin(&mut self, shape: Shape) -> Result<(), Infallible> {
        self.is_of_shape = shape == self.columns.shape;
        Ok(())
    }

    fn value(&mut self, place: Place<'_>, reader: &mut Reader<'_>) -> Result<(), Infallible> {
        let (kind, _) = kind_of(reader.value());
        if kind == Kind::Null || !self.is_of_shape {
            return Ok(());
        }
        let (column, member) = match place {
            Place::Whole => (Some(0), None),
            Place::Element(index) if index < self.columns.columns.len() => (Some(index), None),
            Place::Element(index) => (None, Some(place_name(index))),
            Place::Member(name, has_escapes) => match self.columns.find(name, has_escapes) {
                Some(index) => (Some(index), None),
                None => match unescape(name) {
                    Some(member) => (None, Some(member.into_owned())),
                    // The name is not valid text and cannot be a column's.
                    None => return Ok(()),
                },
            },
        };
        let known = |column: usize| self.columns.columns.get(column).map(|column| column.kind);
        let before = column.and_then(known).unwrap_or(Kind::Null);
        let kind = before.or(kind);
        if kind != before {
            self.changes.push(Change { column, member, kind });
        }
        Ok(())
    }

    fn end(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(columns: &Columns) -> String {
        let columns = columns.iter().map(|column| format!("{}:{}", column.name, column.kind));
        columns.collect::<Vec<_>>().join(" ")
    }

    fn check(first: &str, next: &str, expected: &str) {
        let columns = Columns::infer(first.as_bytes());
        let changed = columns.changed(&columns.changes_for(next.as_bytes())).expect("columns");
        assert_eq!(shown(&changed), expected, "{first} {next}");
        assert_eq!(changed.changes_for(next.as_bytes()), [], "{first} {next}");
        assert_eq!(changed.changes_for(first.as_bytes()), [], "{first} {next}");
    }

    #[test]
    fn columns_change_by_the_values_of_a_row() {
        check(r#"{"a":1,"b":null}"#, r#"{"b":"x","a":1.5}"#, "a:double b:string");
        check(r#"{"a":1}"#, r#"{"a":2,"_offset":3,"c":null}"#, "a:int __offset:int");
        check(r#"{"a":1}"#, r#"{"b":1,"b":"x"}"#, "a:int b:json");
        check("[1]", "[null,null,true]", "column0:int column1:null column2:bool");
        // A row of another shape has no values for these columns.
        check("[1]", r#"{"a":1}"#, "column0:int");
        check(r#"{"a":1}"#, r#"{"\ud800":1}"#, "a:int");
    }

    #[test]
    fn a_column_that_no_row_has_is_found_when_one_has_it() {
        let columns = Columns::infer(br#"{"a":1}"#);
        let (columns, index) = columns.with_absent("Price").expect("a column");
        assert_eq!((&*shown(&columns), index), ("a:int Price:null", 1));
        let kind = Kind::Double;
        let found = Change { column: Some(1), member: Some("price".to_owned()), kind };
        let columns = columns.changed(&[found]).expect("columns");
        assert_eq!(shown(&columns), "a:int price:double");
        assert_eq!(columns.changes_for(br#"{"price":1}"#), []);

        let arrays = Columns::infer(b"[1]");
        let (arrays, index) = arrays.with_absent("column2").expect("a column");
        assert_eq!((&*shown(&arrays), index), ("column0:int column1:null column2:null", 2));
        for none in ["price", "column", "column02", "column256"] {
            assert!(arrays.with_absent(none).is_none(), "{none}");
        }
        assert!(Columns::infer(b"1").with_absent("a").is_none());
    }
}
