/// A decimal with at most this many digits does not change when it is read as a double and written again.
const DIGITS_SAFE: usize = 15;

/// Returns whether a number stays the same when it is read as a double and written again (RFC 8259 §6). Returns
/// `true` for words such as `null`.
pub(super) fn survives(scalar: &[u8]) -> bool {
    if !matches!(scalar.first(), Some(b'-' | b'0'..=b'9')) {
        return true;
    }
    if scalar.len() <= DIGITS_SAFE && !scalar.iter().any(|byte| matches!(byte, b'e' | b'E')) {
        return true;
    }
    let Some(text) = std::str::from_utf8(scalar).ok() else { return false };
    let Ok(double) = text.parse::<f64>() else { return false };
    let (Some(read), Some(written)) = (decimal(text), decimal(&format!("{double:e}"))) else {
        return false;
    };
    // Two decimals with the same number of digits may be equally close to a double, and writers choose differently.
    let is_as_near =
        double.fract() != 0.0 && (read.0.len(), read.1) == (written.0.len(), written.1);
    double.is_finite() && (read == written || is_as_near)
}

/// Returns the digits without leading and trailing zeros, and the power of ten of the first digit.
fn decimal(text: &str) -> Option<(String, i64)> {
    let text = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_start_matches('0');
    if significant.is_empty() {
        return Some((String::new(), 0));
    }
    let leading_zeros = (digits.len() - significant.len()) as i64;
    let power = exponent.checked_add(whole.len() as i64 - 1 - leading_zeros)?;
    Some((significant.trim_end_matches('0').to_owned(), power))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_a_double_holds_survive() {
        let check = |number: &str, expected| {
            assert_eq!(survives(number.as_bytes()), expected, "{number}");
        };
        for number in ["0", "-0", "39", "-1.50", "0.1", "123456789012345", "true", "null"] {
            check(number, true);
        }
        for number in ["1e3", "1.50E+3", "100e-2", "0.00e7", "9007199254740992", "1e308"] {
            check(number, true);
        }
        for number in [
            "-1824486418635822.2",
            "-1824486418635822.3",
            "0.8434783728473829",
            "16.64609333871044",
            "-54.12955095924333e0",
        ] {
            check(number, true);
        }
        for number in ["9007199254740993", "1e400", "0.1000000000000000055511151231257827"] {
            check(number, false);
        }
        check("123456789012345678901234567890", false);
        check("1e99999999999999999999", false);
    }
}
