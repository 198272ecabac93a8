use super::{
    NoPatch, PatchBudget,
    document::{Index, JsonDocument, Kind},
    path::Path,
};

/// The operations so far, and the current place in the documents.
pub(super) struct Operations<'a, F> {
    pub(super) before: JsonDocument<'a>,
    pub(super) after: JsonDocument<'a>,
    pub(super) path: Path,
    pub(super) budget: PatchBudget<F>,
    out: Vec<u8>,
}

/// Approximate bytes of an operation without its paths and its value.
const OPERATION_BYTES: usize = 36;

impl<'a, F: FnMut() -> bool> Operations<'a, F> {
    pub(super) fn new(
        (before, after): (JsonDocument<'a>, JsonDocument<'a>),
        budget: PatchBudget<F>,
    ) -> Self {
        Self { before, after, path: Path::default(), budget, out: Vec::new() }
    }

    pub(super) fn finish(self) -> Result<Vec<u8>, NoPatch> {
        if self.out.len() > self.budget.bytes_max { Err(NoPatch::TooLarge) } else { Ok(self.out) }
    }

    /// Writes the operations that turn `before` into `after`, both at the current path.
    pub(super) fn value(&mut self, before: Index, after: Index) -> Result<(), NoPatch> {
        if self.are_same(before, after)? {
            return Ok(());
        }
        let start = self.out.len();
        match (self.before.kind(before), self.after.kind(after)) {
            (Kind::Object, Kind::Object) => self.object(before, after)?,
            (Kind::Array, Kind::Array) => self.array(before, after)?,
            _ => return self.replace(after),
        }
        // Many small changes may take more bytes than the whole value.
        let whole = OPERATION_BYTES + self.path.as_bytes().len() + self.after.text(after).len();
        if self.out.len() - start > whole {
            self.out.truncate(start);
            self.replace(after)?;
        }
        Ok(())
    }

    pub(super) fn are_same(&mut self, before: Index, after: Index) -> Result<bool, NoPatch> {
        let (before, after) = (self.before.text(before), self.after.text(after));
        if before.len() != after.len() {
            return Ok(false);
        }
        self.budget.spend(before.len())?;
        Ok(before == after)
    }

    /// Replaces a value (RFC 6902 §4.3).
    pub(super) fn replace(&mut self, after: Index) -> Result<(), NoPatch> {
        self.operation("replace", None, Some(after))
    }

    /// Adds a value, or inserts an element (§4.1).
    pub(super) fn add(&mut self, after: Index) -> Result<(), NoPatch> {
        self.operation("add", None, Some(after))
    }

    /// Removes the value at the path (§4.2).
    pub(super) fn remove(&mut self) -> Result<(), NoPatch> {
        self.operation("remove", None, None)
    }

    /// Moves the value at `from` to the path (§4.4).
    pub(super) fn relocate(&mut self, from: &[u8]) -> Result<(), NoPatch> {
        self.operation("move", Some(from), None)
    }

    fn operation(
        &mut self,
        name: &str,
        from: Option<&[u8]>,
        value: Option<Index>,
    ) -> Result<(), NoPatch> {
        let out = &mut self.out;
        let before = out.len();
        if before > 0 {
            out.push(b',');
        }
        out.extend_from_slice(br#"{"op":""#);
        out.extend_from_slice(name.as_bytes());
        if let Some(from) = from {
            out.extend_from_slice(br#"","from":""#);
            out.extend_from_slice(from);
        }
        out.extend_from_slice(br#"","path":""#);
        out.extend_from_slice(self.path.as_bytes());
        out.push(b'"');
        if let Some(value) = value {
            out.extend_from_slice(br#","value":"#);
            out.extend_from_slice(self.after.text(value));
        }
        out.push(b'}');
        let written = out.len() - before;
        self.budget.spend(written)?;
        // A `replace` may still shorten the result, but hardly by half.
        if self.out.len() > 2 * self.budget.bytes_max { Err(NoPatch::TooLarge) } else { Ok(()) }
    }
}
