//! Settings of two priorities: those of flags and variables above those of the file.

/// Settings that can be combined with settings of a lower priority.
pub(super) trait Over {
    /// Returns these settings, and those of `below` where these are unset. A list that is not empty replaces the one below it.
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

/// Replaces a default with the given value, if any.
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
