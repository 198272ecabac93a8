//! A run as the repository keeps it: manifest, plan, summary and samples, compressed. Points over time are
//! half of the bytes, so that an archive has them only of samples that need them.

use super::bundle::Bundle;
use super::files::{MANIFEST, PLAN, SAMPLES, SUMMARY, has, read, write_compressed};
use super::misuse;
use super::stored_run::StoredRun;
use anyhow::Context;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use std::fs;
use std::path::Path;

/// The shortest span whose points an archive keeps: a terminal shows no curve of a shorter one.
const KEPT_SPAN_US_MIN: u64 = 10_000_000;

/// The fields of a sample that tell whether its points over time are kept.
#[derive(Deserialize)]
struct TimedSample<'a> {
    span_us: u64,
    held: Option<IgnoredAny>,
    received: Option<IgnoredAny>,
    #[serde(borrow)]
    timeline: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct TimedPoint {
    #[serde(default)]
    kernel_bytes: u64,
}

/// Writes the run into a folder that holds none yet. The summary is made of the samples, as `show` makes it.
///
/// # Errors
/// The run is still running, the folder holds a run, or a file cannot be read or written.
pub fn archive(run: &StoredRun, to: &Path) -> anyhow::Result<()> {
    if Bundle::is_growing(&run.folder) {
        return Err(misuse(format!("`{}` is still running: archive it at its end", run.name)));
    }
    if has(to, PLAN) {
        return Err(misuse(format!("{} holds a run already: name another folder", to.display())));
    }
    let write = || -> anyhow::Result<()> {
        fs::create_dir_all(to)?;
        fs::write(to.join(MANIFEST), read(&run.folder, MANIFEST)?)?;
        write_compressed(to, SUMMARY, &serde_json::to_vec(&run.summary())?)?;
        let samples = read(&run.folder, SAMPLES)?;
        // A line that was being written when the lab was killed may end within a character.
        let samples = String::from_utf8_lossy(&samples);
        let kept: String = samples.split_inclusive('\n').map(without_short_timeline).collect();
        write_compressed(to, SAMPLES, kept.as_bytes())?;
        // Written last, because a folder with a plan counts as a run.
        write_compressed(to, PLAN, &read(&run.folder, PLAN)?)?;
        Ok(())
    };
    write().with_context(|| format!("`{}` cannot be archived in {}", run.name, to.display()))
}

/// Returns the line of a sample without its points over time, unless results or curves are made of them: in a
/// long span, a ramp within an objective, a load on an external endpoint, or a keyed load, whose memory in
/// the kernel `thalweg-lab plan` uses. All other bytes stay as they are, and so does a half-written line.
fn without_short_timeline(line: &str) -> String {
    let Ok(TimedSample { span_us, held, received, timeline: Some(timeline) }) =
        serde_json::from_str(line)
    else {
        return line.to_owned();
    };
    let has_kernel_bytes = || {
        let points: Vec<TimedPoint> = serde_json::from_str(timeline.get()).unwrap_or_default();
        points.iter().any(|point| point.kernel_bytes > 0)
    };
    match span_us >= KEPT_SPAN_US_MIN || held.is_some() || received.is_some() || has_kernel_bytes()
    {
        true => line.to_owned(),
        false => line.replacen(timeline.get(), "[]", 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Held, Point, Received, Sample};

    #[test]
    fn points_of_a_short_span_are_kept_only_if_results_are_made_of_them() {
        let timeline = vec![Point { at_us: 500_000, rss_bytes: 7, ..Point::default() }; 2];
        let short = Sample { span_us: 9_999_999, timeline, ..Sample::default() };
        let keyed = Point { kernel_bytes: 4096, ..Point::default() };
        let kept = [
            Sample { span_us: 10_000_000, ..short.clone() },
            Sample { held: Some(Held::default()), ..short.clone() },
            Sample { received: Some(Received::default()), ..short.clone() },
            Sample { timeline: vec![short.timeline[0], keyed], ..short.clone() },
        ];
        let line = |sample: &Sample| serde_json::to_string(sample).unwrap() + "\n";
        for sample in kept {
            assert_eq!(without_short_timeline(&line(&sample)), line(&sample));
        }
        // Bytes that the lab does not know stay.
        let unknown = |sample| line(sample).replacen('{', "{\"later\": 0.10, ", 1);
        let empty = Sample { timeline: Vec::new(), ..short.clone() };
        assert_eq!(without_short_timeline(&unknown(&short)), unknown(&empty));
        let cut = &line(&short)[..line(&short).len() - 9];
        assert_eq!(without_short_timeline(cut), cut);
    }
}
