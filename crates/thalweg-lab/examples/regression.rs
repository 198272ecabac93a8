//! Whether a build is slower than the one before: `lab/regression/README.md` describes its use. Arguments are folders of runs, in
//! each scenario of which `after` stands behind its baseline `before`.

use std::path::Path;

use thalweg_lab::measure::comparison::{Comparison, Metric, Word};
use thalweg_lab::run::StoredRun;

/// Limit of CPU, pooled over the cells of a scenario.
const POOLED_MAX: f64 = 1.05;

fn main() -> anyhow::Result<()> {
    let mut slower = Vec::new();
    for folder in std::env::args().skip(1) {
        for part in StoredRun::read(Path::new(&folder))?.summary().parts {
            let is_cpu_result = |comparison: &&Comparison| {
                comparison.metric == Metric::Cpu && !comparison.is_control
            };
            let Some(pooled) = part.pooled.iter().rfind(is_cpu_result) else {
                anyhow::bail!("{folder}: {} has no pairs", part.name);
            };
            println!("{}: {}", part.name, figures(pooled));
            if pooled.high.is_none_or(|high| high > POOLED_MAX) {
                slower.push(part.name.clone());
            }
            for rows in part.cells() {
                let cell = rows.first().map(|row| row.cell.clone());
                let mut own = part.comparisons.iter().filter(is_cpu_result);
                let found =
                    own.rfind(|sample| sample.cell == cell && sample.subject == pooled.subject);
                let label = cell.clone().unwrap_or_default();
                let Some(found) = found else {
                    println!("  {label}: no pairs");
                    slower.push(format!("{}: {label} (nothing is known of it)", part.name));
                    continue;
                };
                println!("  {label}: {}", figures(found));
                if found.word == Word::Worse {
                    slower.push(format!("{}: {label}", part.name));
                }
            }
        }
    }
    anyhow::ensure!(slower.is_empty(), "slower than before: {}", slower.join(", "));
    println!("not slower: every upper end is at most {POOLED_MAX}, and no cell is worse");
    Ok(())
}

/// `1.003 (0.997-1.010), 30 starts, p 0.0312, equivalent`
fn figures(found: &Comparison) -> String {
    let Comparison { ratio, low, high, starts, p_corrected, word, .. } = found;
    let (low, high) = (low.unwrap_or(f64::NAN), high.unwrap_or(f64::NAN));
    let p = p_corrected.unwrap_or(f64::NAN);
    format!("{ratio:.3} ({low:.3}-{high:.3}), {starts} starts, p {p:.4}, {word:?}")
}
