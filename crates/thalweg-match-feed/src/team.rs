//! A team and its statistics.

use super::text::push;

#[derive(Debug, Clone)]
pub(crate) struct Team {
    pub(crate) id: String,
    pub(crate) name: &'static str,
    number: usize,
    pub(crate) score: u32,
    pub(crate) possession: u32,
    pub(crate) shots: u32,
    pub(crate) shots_on_target: u32,
    pub(crate) corners: u32,
    pub(crate) fouls: u32,
    pub(crate) offsides: u32,
    passes: u32,
    passes_complete: u32,
}

const NAMES: &[&str] = &[
    "Reds", "Blues", "Greens", "Whites", "Golds", "Greys", "Blacks", "Browns", "Violets",
    "Oranges", "Silvers", "Scarlets", "Ambers", "Teals", "Indigos", "Ivories", "Limes", "Roses",
    "Bronzes", "Navies",
];

const GROUNDS: &[&str] = &["East Park", "Harbour Road", "Mill Lane", "The Meadow", "Station Field"];

const FORMATIONS: &[&str] = &["4-3-3", "4-4-2", "4-2-3-1", "3-5-2"];

impl Team {
    /// Returns the team with this number: neighbours differ.
    pub(crate) fn new(number: u64) -> Self {
        let number = (number % NAMES.len() as u64) as usize;
        Self {
            id: format!("t{}", number + 1),
            name: NAMES[number],
            number,
            score: 0,
            possession: 50,
            shots: 0,
            shots_on_target: 0,
            corners: 0,
            fouls: 0,
            offsides: 0,
            passes: 0,
            passes_complete: 0,
        }
    }

    /// Resets the statistics for the next match.
    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.number as u64);
    }

    pub(crate) fn number(&self) -> usize {
        self.number
    }

    pub(crate) fn ground(&self) -> &'static str {
        GROUNDS[self.number / 2 % GROUNDS.len()]
    }

    pub(crate) fn add_pass(&mut self, is_complete: bool) {
        self.passes += 1;
        self.passes_complete += u32::from(is_complete);
    }

    /// Returns the entry in a list of matches.
    pub(crate) fn brief(&self) -> String {
        format!(r#"{{"id":"{}","name":"{}","score":{}}}"#, self.id, self.name, self.score)
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let formation = FORMATIONS[self.number % FORMATIONS.len()];
        let accuracy = (self.passes_complete * 100).checked_div(self.passes).unwrap_or(0);
        push(
            out,
            format_args!(
                r#"{{"id":"{}","name":"{}","score":{},"formation":"{formation}","stats":{{"possession":{},"shots":{},"shots_on_target":{},"corners":{},"fouls":{},"offsides":{},"passes":{},"pass_accuracy":{accuracy}}}}}"#,
                self.id,
                self.name,
                self.score,
                self.possession,
                self.shots,
                self.shots_on_target,
                self.corners,
                self.fouls,
                self.offsides,
                self.passes,
            ),
        );
    }
}
