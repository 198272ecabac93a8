//! The sizes of a document.

use std::str::FromStr;

/// The size of a document, within 5 %.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// 5,000 bytes: teams, players, events.
    Small,
    /// 10,000 bytes: with substitutes and more statistics.
    Medium,
    /// 165,000 bytes: with the place and the actions of every player.
    Large,
}

#[derive(Debug)]
pub(crate) struct Detail {
    pub(crate) bench: usize,
    /// Actions per second; one of them is a pass. More than in reality: the document changes every second.
    pub(crate) actions_per_s: usize,
    pub(crate) has_actions: bool,
    /// Whether the document has touches, tackles and fouls of players.
    pub(crate) has_duels: bool,
    /// Whether the document has the places and movements of players.
    pub(crate) is_tracked: bool,
    /// Events of the timeline, besides goals.
    pub(crate) other_events_max: usize,
    pub(crate) comments_max: usize,
}

impl Size {
    /// All sizes, the smallest first.
    pub const ALL: [Self; 3] = [Self::Small, Self::Medium, Self::Large];

    /// Returns the bytes of a document, within 5 %.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::Small => 5_000,
            Self::Medium => 10_000,
            Self::Large => 165_000,
        }
    }

    /// Returns the name on a command line, e.g. `165KB`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Small => "5KB",
            Self::Medium => "10KB",
            Self::Large => "165KB",
        }
    }

    pub(crate) const fn detail(self) -> &'static Detail {
        match self {
            Self::Small => &Detail {
                bench: 0,
                actions_per_s: 1,
                has_actions: false,
                has_duels: false,
                is_tracked: false,
                other_events_max: 2,
                comments_max: 100,
            },
            Self::Medium => &Detail {
                bench: 3,
                actions_per_s: 3,
                has_actions: false,
                has_duels: true,
                is_tracked: false,
                other_events_max: 12,
                comments_max: 100,
            },
            Self::Large => &Detail {
                bench: 7,
                actions_per_s: 5,
                has_actions: true,
                has_duels: true,
                is_tracked: true,
                other_events_max: 30,
                comments_max: 60,
            },
        }
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|size| size.name().eq_ignore_ascii_case(text));
        found.ok_or_else(|| format!("`{text}` is not a size of documents; give 5KB, 10KB or 165KB"))
    }
}
