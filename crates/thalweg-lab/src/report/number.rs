//! Formats of figures.

/// Formats three significant digits and a unit prefix: `812 k`, `1.23 M`.
pub fn short(value: f64) -> String {
    let (scaled, letter) = scaled(value);
    format!("{}{letter}", digits(scaled))
}

/// Formats a number for an axis, without needless zeros.
pub(super) fn round(value: f64) -> String {
    let (scaled, letter) = scaled(value);
    let text = format!("{scaled:.3}");
    format!("{}{letter}", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Formats a time in µs for an axis.
pub(super) fn brief_us(us: f64) -> String {
    match us {
        1e6.. => format!("{} s", round(us / 1e6)),
        1e3.. => format!("{} ms", round(us / 1e3)),
        _ => format!("{} µs", round(us)),
    }
}

/// Formats bytes in KiB or MiB if they are a multiple of it, else in kB or MB.
pub(super) fn bytes(value: f64) -> String {
    const UNITS: [(f64, &str); 4] =
        [(1_048_576.0, "MiB"), (1e6, "MB"), (1024.0, "KiB"), (1000.0, "kB")];
    let unit = UNITS.iter().find(|(unit, _)| value >= *unit && value % unit == 0.0);
    match unit {
        Some((unit, name)) => format!("{} {name}", value / unit),
        None => format!("{} B", round(value)),
    }
}

pub(super) fn digits(value: f64) -> String {
    match value.abs() {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        0.0 => "0".to_owned(),
        _ => format!("{value:.3}"),
    }
}

/// Returns a number with its unit prefix.
fn scaled(value: f64) -> (f64, &'static str) {
    match value.abs() {
        1e9.. => (value / 1e9, " G"),
        1e6.. => (value / 1e6, " M"),
        1e4.. => (value / 1e3, " k"),
        _ => (value, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_an_axis() {
        let check = |value, expected| assert_eq!(round(value), expected);
        check(0.0, "0");
        check(0.25, "0.25");
        check(400.0, "400");
        check(10_000.0, "10 k");
        check(2_500_000.0, "2.5 M");
        assert_eq!(bytes(16384.0), "16 KiB");
        assert_eq!(bytes(10000.0), "10 kB");
        assert_eq!(bytes(1e6), "1 MB");
        assert_eq!(bytes(0.0), "0 B");
    }

    #[test]
    fn three_digits() {
        let check = |value, expected| assert_eq!(short(value), expected);
        check(0.0, "0");
        check(0.1234, "0.123");
        check(1.234, "1.23");
        check(9876.0, "9876");
        check(812_345.0, "812 k");
        check(1_234_567.0, "1.23 M");
        check(40_000_000.0, "40.0 M");
    }
}
