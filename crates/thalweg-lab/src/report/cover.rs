//! What a run's A/A pairs say of its intervals: how many contain 1, as the same
//! subject against itself must, and how wide they are.

use super::outcome::Comparison;
use super::row::Row;
use crate::measure::statistics::{Estimate, cover, median};
use serde::Serialize;

/// Fewer pairs say nothing of how often an interval is right.
const PAIRS_MIN: usize = 5;

/// The same subject as a pair, several times.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Cover {
    /// Of what figure.
    pub figure: &'static str,
    /// A/A rows.
    pub rows: usize,
    /// Of them, those whose interval contains 1.
    pub contain_one: usize,
    /// How often it should, by the pairs that each has: the mean.
    pub promised: f64,
    /// Half the interval's width, as a factor less one: the median.
    pub half_width: f64,
}

/// A figure: its name, and how a row compares in it.
type Figure = (&'static str, fn(&Row) -> Option<Comparison>);

/// Of the A/A rows of one scenario; nothing of figures that too few have.
pub(super) fn covers(rows: &[Row]) -> Vec<Cover> {
    let figures: [Figure; 4] = [
        ("CPU per event", |row| row.cpu.compared),
        ("p99", |row| row.latency.compared),
        ("events per second", |row| row.throughput.compared),
        ("round trip", |row| row.round_trip.compared),
    ];
    let of = |(figure, of): Figure| {
        let noise = rows.iter().filter(|row| row.is_noise);
        let compared: Vec<Comparison> = noise.filter_map(of).collect();
        let ratios: Vec<Estimate> = compared.iter().map(|it| it.ratio).collect();
        let promised: f64 = compared.iter().map(|it| cover(it.pairs)).sum();
        let widths: Vec<f64> = ratios.iter().map(Estimate::half_width).collect();
        (ratios.len() >= PAIRS_MIN).then(|| Cover {
            figure,
            rows: ratios.len(),
            contain_one: ratios.iter().filter(|ratio| ratio.is_tie()).count(),
            promised: promised / compared.len() as f64,
            half_width: median(&widths).unwrap_or(0.0),
        })
    };
    figures.into_iter().filter_map(of).collect()
}

impl Cover {
    /// `A/A, CPU per event: 19 of 20 intervals contain 1 (96.1 % should), median
    /// half-width 2.1 %`.
    pub fn line(&self) -> String {
        format!(
            "A/A, {}: {} of {} intervals contain 1 ({:.1} % should), median half-width {:.1} %",
            self.figure,
            self.contain_one,
            self.rows,
            self.promised * 100.0,
            self.half_width * 100.0
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::outcome::Outcome;
    use super::*;

    fn row(is_noise: bool, low: f64, high: f64) -> Row {
        let ratio = Estimate { median: (low * high).sqrt(), low, high };
        let mut row = Row { is_noise, ..Row::default() };
        row.cpu.compared = Some(Comparison { ratio, pairs: 8, outcome: Outcome::of(ratio, true) });
        row
    }

    #[test]
    fn noise_rows_are_counted() {
        let mut rows: Vec<Row> = (0..4).map(|_| row(true, 0.98, 1.02)).collect();
        rows.push(row(false, 1.5, 1.6));
        assert_eq!(covers(&rows), [], "four are too few");
        // Six pairs promise 96.9 %, eight 96.1 %.
        let mut fewer = row(true, 1.01, 1.08);
        fewer.cpu.compared.as_mut().unwrap().pairs = 6;
        rows.push(fewer);
        let found = covers(&rows);
        assert_eq!(
            found[0].line(),
            "A/A, CPU per event: 4 of 5 intervals contain 1 (96.2 % should), \
             median half-width 2.0 %"
        );
        assert_eq!(found.len(), 1);
    }
}
