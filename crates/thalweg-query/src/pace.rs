//! When work pauses.

/// Says when a query pauses, so that others get their turn. It decides nothing but when work goes on: the rows are the same.
pub trait Pace {
    /// Whether the query may go on at once. It is asked between rows: the query has counted so many steps since, and
    /// holds so many bytes now.
    fn goes_on(&mut self, steps: u64, held_bytes: usize) -> bool;
}

/// Without a pause.
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
