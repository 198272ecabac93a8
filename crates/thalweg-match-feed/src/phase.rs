//! The phases of a match.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Scheduled,
    FirstHalf,
    HalfTime,
    SecondHalf,
    FullTime,
}

impl Phase {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::FirstHalf => "first_half",
            Self::HalfTime => "half_time",
            Self::SecondHalf => "second_half",
            Self::FullTime => "full_time",
        }
    }

    /// Returns the length of the phase. Breaks are shorter than in reality, for the viewers of a demo.
    pub(crate) fn seconds(self) -> u32 {
        match self {
            Self::Scheduled | Self::HalfTime | Self::FullTime => 60,
            Self::FirstHalf | Self::SecondHalf => 45 * 60,
        }
    }
}
