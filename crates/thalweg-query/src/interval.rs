//! Durations: `1s`, `INTERVAL 1 s`, `INTERVAL '1' SECOND`, `INTERVAL '1 second'`.

/// Units, each with its other names and its length in ms.
const UNITS: [(&str, &[&str], i64); 6] = [
    ("MILLISECOND", &["ms", "milliseconds"], 1),
    ("SECOND", &["s", "sec", "seconds"], 1_000),
    ("MINUTE", &["m", "min", "minutes"], 60_000),
    ("HOUR", &["h", "hours"], 3_600_000),
    ("DAY", &["d", "days"], 86_400_000),
    ("WEEK", &["w", "weeks"], 604_800_000),
];

/// Returns the length of a unit in ms; `None` for an unknown name, or if the length varies.
pub(crate) fn unit_ms(name: &str) -> Option<i64> {
    let is_it = |(unit, others, _): &&(&str, &[&str], i64)| {
        unit.eq_ignore_ascii_case(name)
            || others.iter().any(|other| other.eq_ignore_ascii_case(name))
    };
    UNITS.iter().find(is_it).map(|(.., ms)| *ms)
}

/// Returns the length of this many units in ms, if it is an integer.
pub(crate) fn parse(number: &str, unit: &str) -> Option<i64> {
    let unit_ms = unit_ms(unit)?;
    let (whole, fraction) = number.trim().split_once('.').unwrap_or((number.trim(), ""));
    let scale = 10_i64.checked_pow(fraction.len().try_into().ok()?)?;
    let digits: i64 = format!("{whole}{fraction}").parse().ok()?;
    let ms = digits.checked_mul(unit_ms)?;
    (ms % scale == 0).then_some(ms / scale)
}

/// Returns the common form: `1s`, `1500ms`, `2d`.
pub(crate) fn text(ms: i64) -> String {
    let short = |(_, others, unit): &(&str, &[&'static str], i64)| (others[0], *unit);
    let units = UNITS.iter().rev().map(short);
    let fitting = units.clone().find(|(_, unit)| ms % unit == 0 && ms != 0);
    match fitting {
        Some((name, unit)) => format!("{}{name}", ms / unit),
        None => "0s".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_exact_and_parse_to_themselves() {
        for (number, unit, ms) in [
            ("1", "s", Some(1_000)),
            ("1.5", "SECOND", Some(1_500)),
            (" 2 ", "days", Some(172_800_000)),
            ("0.0001", "s", None),
            ("1", "month", None),
            ("x", "s", None),
            ("9223372036854775807", "s", None),
        ] {
            assert_eq!(parse(number, unit), ms, "{number} {unit}");
        }
        for (ms, expected) in [(0, "0s"), (1_500, "1500ms"), (60_000, "1m"), (90_000, "90s")] {
            assert_eq!(text(ms), expected);
        }
    }
}
