use crate::{json::Reader, schema::Shape};

#[derive(Debug, Clone, Copy)]
pub(crate) enum Place<'a> {
    /// A member of an object: its name as in the JSON, and whether the name has escapes.
    Member(&'a [u8], bool),
    Element(usize),
    /// The row itself.
    Whole,
}

pub(crate) trait Visitor {
    type Error;

    fn begin(&mut self, shape: Shape) -> Result<(), Self::Error>;

    /// Receives a value of the row. The implementation must read it from `reader`.
    fn value(&mut self, place: Place<'_>, reader: &mut Reader<'_>) -> Result<(), Self::Error>;

    fn end(&mut self);
}

/// Visits all values of `rows`, which are JSON joined by commas.
pub(crate) fn visit<V: Visitor>(rows: &[u8], visitor: &mut V) -> Result<(), V::Error> {
    let mut reader = Reader::new(rows);
    while let Some(first) = reader.peek() {
        match first {
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
