//! Two runs next to each other, for a terminal.

use super::Against;
use crate::measure::statistics::Estimate;
use crate::report::number::short;
use crate::report::table::draw;

impl Against {
    /// For a terminal.
    pub fn text(&self) -> String {
        let mut text = format!("first:  {}\nsecond: {}\n\n", self.first, self.second);
        if self.differences.is_empty() {
            text += "Machine, versions and settings are the same.\n";
        } else {
            text += "They differ in\n";
        }
        for difference in &self.differences {
            text += &format!("  {difference}\n");
        }
        if !self.pairs.is_empty() {
            text.push('\n');
            text += &draw(&self.grid());
            let (all, differ) =
                (self.pairs.len(), self.pairs.iter().filter(|it| it.is_different()).count());
            text += "\nMedians of the samples that count; ratios of the second to the first (interval), \
                     unpaired,\nso what drifted with the machine is in them. “=”: a tie, for the \
                     interval contains 1. “?”: too few sound samples to tell.\n";
            // At a cover of 95 %.
            text += &format!(
                "{differ} of {all} figures differ; where nothing does, about {} would seem to.\n",
                all.div_ceil(20)
            );
        }
        if !self.only.is_empty() {
            text.push('\n');
        }
        for only in &self.only {
            text += &format!("{only}\n");
        }
        text
    }

    fn grid(&self) -> Vec<Vec<String>> {
        let words = |line: [&str; 4]| line.map(str::to_owned).to_vec();
        let mut lines = vec![words(["", "first", "second", "second / first"])];
        let mut last = String::new();
        for pair in &self.pairs {
            let cell = format!("{} · {}", pair.part, pair.cell);
            if cell != last {
                lines.push(vec![cell.clone()]);
                last = cell;
            }
            let Estimate { median, low, high } = pair.ratio;
            let sign = pair.outcome.sign();
            lines.push(vec![
                format!("  {}, {}", pair.subject, pair.figure),
                short(pair.first),
                short(pair.second),
                format!("{sign}{median:.2} ({low:.2}–{high:.2})"),
            ]);
        }
        lines
    }
}
