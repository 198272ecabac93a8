//! Growth of tabs' events with the batch, with connections and with tabs. Events grow with the schedule as long as all of it
//! arrives; after that is the knee.

use crate::report::number::short;
use crate::report::part_summary::PartSummary;
use crate::report::row::Row;
use crate::scenario::Settings;

/// Minimum number of values of an axis that shows a growth.
const VALUES_MIN: usize = 3;

/// A setting that a scenario varies.
struct GrowthAxis {
    value: fn(&Settings) -> u32,
    /// Singular and plural of the axis.
    unit: [&'static str; 2],
    /// Returns the settings without it: rows for which these are equal differ in it alone.
    without: fn(&Settings) -> Settings,
}

const AXES: [GrowthAxis; 3] = [
    GrowthAxis {
        value: |settings| settings.batch,
        unit: ["row", "rows"],
        without: |found| Settings { batch: 0, ..found.clone() },
    },
    // Tabs have their own connections each.
    GrowthAxis {
        value: |settings| settings.connections,
        unit: ["connection", "connections"],
        without: |found| Settings { connections: 0, ..found.clone() },
    },
    GrowthAxis {
        value: |settings| settings.tabs,
        unit: ["tab", "tabs"],
        without: |found| Settings { connections: 0, tabs: 0, ..found.clone() },
    },
];

impl GrowthAxis {
    fn at(&self, row: &Row) -> String {
        let value = (self.value)(&row.settings);
        format!("{value} {}", self.unit[usize::from(value != 1)])
    }

    /// Returns rows of one subject each that differ in this axis alone, in the order of its values.
    fn curves<'a>(&self, part: &'a PartSummary) -> Vec<Vec<&'a Row>> {
        let mut curves: Vec<Vec<&Row>> = Vec::new();
        for row in part.rows.iter().filter(|row| !row.is_noise && row.valid > 0) {
            let same = |one: &&Row| {
                one.subject == row.subject
                    && (self.without)(&one.settings) == (self.without)(&row.settings)
            };
            match curves.iter_mut().find(|curve| curve.first().is_some_and(same)) {
                Some(curve) => curve.push(row),
                None => curves.push(vec![row]),
            }
        }
        curves.retain_mut(|curve| {
            curve.sort_by_key(|row| (self.value)(&row.settings));
            let mut values: Vec<u32> =
                curve.iter().map(|row| (self.value)(&row.settings)).collect();
            values.dedup();
            values.len() >= VALUES_MIN && values.len() == curve.len()
        });
        curves
    }

    /// Returns a sentence about one subject: up to where everything arrived, where most arrived, and how much at the end.
    fn sentence(&self, curve: &[&Row]) -> Option<String> {
        let per_s = |row: &Row| row.throughput.events_per_s.map_or(0.0, |rate| rate.median);
        // If everything arrived at a larger value, it could have at a smaller one.
        let is_full = curve.iter().rposition(|row| row.came_in_full()).map_or(0, |found| found + 1);
        let subject = &curve.first()?.subject;
        let last = curve.last()?;
        if is_full == curve.len() {
            return Some(format!(
                "{subject} in full at each, {}/s at the last",
                short(per_s(last))
            ));
        }
        let full = match is_full.checked_sub(1).map(|time| curve[time]) {
            Some(row) => format!("in full up to {} ({}/s)", self.at(row), short(per_s(row))),
            None => "nowhere in full".to_owned(),
        };
        // The first of several.
        let most = curve.iter().min_by(|one, other| per_s(other).total_cmp(&per_s(one)))?;
        let most_at = format!("{}/s at {}", short(per_s(most)), self.at(most));
        let of_most = per_s(last) / per_s(most).max(f64::MIN_POSITIVE) * 100.0;
        Some(if std::ptr::eq(*most, *last) {
            format!("{subject} {full}, most at the last, {most_at}")
        } else {
            format!("{subject} {full}, most {most_at}, {of_most:.0}\u{a0}% of that at the last")
        })
    }
}

/// Returns a sentence for each axis that a part varies: events, as the value grows.
pub(super) fn sentences(part: &PartSummary) -> Vec<String> {
    AXES.iter().flat_map(|axis| axis_findings(axis, part)).collect()
}

fn axis_findings(axis: &GrowthAxis, part: &PartSummary) -> Vec<String> {
    let curves = axis.curves(part);
    let ends = |curve: &[&'_ Row]| {
        let [first, .., last] = curve else { return String::new() };
        format!("From {} to {}", first.cell, last.cell)
    };
    let of_same_cells = curves.chunk_by(|one, next| ends(one) == ends(next));
    let sentence = of_same_cells.map(|same| {
        let each: Vec<String> = same.iter().filter_map(|curve| axis.sentence(curve)).collect();
        format!("{}, events that arrived of those offered: {}.", ends(&same[0]), each.join("; "))
    });
    sentence.collect()
}
