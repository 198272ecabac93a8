//! Pauses of work.

/// Decides when a query pauses for other work. Pauses do not change rows.
pub trait Pace {
    /// Returns whether the query may continue at once. A query asks between rows; `steps` are those since the last
    /// call, `held_bytes` its current memory.
    fn goes_on(&mut self, steps: u64, held_bytes: usize) -> bool;
}

/// A pace without pauses.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unbroken;

impl Pace for Unbroken {
    fn goes_on(&mut self, _steps: u64, _held_bytes: usize) -> bool {
        true
    }
}

impl<F: FnMut(u64, usize) -> bool> Pace for F {
    fn goes_on(&mut self, steps: u64, held_bytes: usize) -> bool {
        self(steps, held_bytes)
    }
}
