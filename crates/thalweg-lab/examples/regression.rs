//! Whether a build is slower than the one before: `lab/regression/README.md` says how it
//! is run. Arguments are folders of runs, in each scenario of which `after` stands behind
//! its baseline `before`.

use std::path::Path;

use thalweg_lab::report::Regression;
use thalweg_lab::run::Archive;

/// Pooled over the cells of a scenario, CPU may not be more than this.
const POOLED_MAX: f64 = 1.05;

fn main() -> anyhow::Result<()> {
    let mut slower = Vec::new();
    for folder in std::env::args().skip(1) {
        let archive = Archive::without_latencies(Path::new(&folder))?;
        for (index, part) in archive.plan.parts.iter().enumerate() {
            let samples: Vec<_> =
                archive.samples.iter().filter(|sample| sample.part == index).collect();
            let Some(found) = Regression::of(part, &samples) else {
                anyhow::bail!("{folder}: {} has no pairs", part.name);
            };
            let pooled = found.pooled;
            println!(
                "{:<20} {:>4} pairs  {:.3} ({:.3}-{:.3})",
                part.name, found.pairs, pooled.median, pooled.low, pooled.high
            );
            if pooled.high > POOLED_MAX {
                slower.push(part.name.clone());
            }
            for label in found.unpaired {
                println!("  {label:<40} no pairs");
                slower.push(format!("{}: {label} (nothing is known of it)", part.name));
            }
            for cell in found.cells {
                let mark = if cell.is_worse { "  worse" } else { "" };
                println!(
                    "  {:<40} {:>3}  {:.3} ({:.3}-{:.3})  p {:.4}{mark}",
                    cell.label,
                    cell.pairs,
                    cell.ratio.median,
                    cell.ratio.low,
                    cell.ratio.high,
                    cell.p
                );
                if cell.is_worse {
                    slower.push(format!("{}: {}", part.name, cell.label));
                }
            }
        }
    }
    anyhow::ensure!(slower.is_empty(), "slower than before: {}", slower.join(", "));
    println!("not slower: every upper end is at most {POOLED_MAX}, and no cell is worse");
    Ok(())
}
