//! Settings of two priorities: those of flags and variables above those of the file.

/// Settings of a higher priority, with others of a lower one below them.
pub(super) trait Over {
    /// Returns these settings, and `below` where they say nothing. A list that is not empty replaces the one below it.
    fn over(self, below: Self) -> Self;
}

/// Implements [`Over`] for a struct, field by field.
macro_rules! over {
    ($name:ident: $($field:ident)*) => {
        impl super::merge::Over for $name {
            fn over(self, below: Self) -> Self {
                Self { $($field: super::merge::Over::over(self.$field, below.$field),)* }
            }
        }
    };
}
pub(super) use over;

/// Replaces a default by what is given.
pub(super) fn set<T>(place: &mut T, given: Option<impl Into<T>>) {
    if let Some(given) = given {
        *place = given.into();
    }
}

impl<T> Over for Option<T> {
    fn over(self, below: Self) -> Self {
        self.or(below)
    }
}

impl<T> Over for Vec<T> {
    fn over(self, below: Self) -> Self {
        if self.is_empty() { below } else { self }
    }
}

impl Over for bool {
    fn over(self, below: Self) -> Self {
        self || below
    }
}
