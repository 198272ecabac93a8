//! How figures are written.

/// Three significant digits and a thousands' letter: `812 k`, `1.23 M`.
pub fn short(value: f64) -> String {
    let (scaled, letter) = match value.abs() {
        1e9.. => (value / 1e9, " G"),
        1e6.. => (value / 1e6, " M"),
        1e4.. => (value / 1e3, " k"),
        _ => (value, ""),
    };
    format!("{}{letter}", digits(scaled))
}

/// Three significant digits.
pub(super) fn digits(value: f64) -> String {
    match value.abs() {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        0.0 => "0".to_owned(),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
