//! `ROUND`: the nearest number with this many decimals, halves away from zero. Negative digits count from the decimal
//! point to the left.

/// Doubles from here on have no fractions.
const WHOLE_FROM: f64 = 4_503_599_627_370_496.0;

/// Rounds a double to this many decimals. Rounds the double's exact value, not its shorter text: the double 2.675
/// is slightly less than 2.675.
pub(crate) fn rounded(number: f64, digits: i64) -> f64 {
    let power = power_of_ten(digits.unsigned_abs());
    if digits < 0 {
        let rest = number % power;
        let cut = number - rest;
        return if 2.0 * rest.abs() < power { cut } else { cut + power.copysign(number) };
    }
    let scaled = number * power;
    if scaled.abs() >= WHOLE_FROM {
        return number;
    }
    // The error of the product.
    let more = number.mul_add(power, -scaled) * number.signum();
    let is_below_half = scaled.fract().abs() == 0.5 && more < 0.0;
    (if is_below_half { scaled.trunc() } else { scaled.round() }) / power
}

/// Rounds an integer so that its last digits are zeros. Returns `None` if the result exceeds 64 bits.
pub(crate) fn rounded_int(number: i64, digits: i64) -> Option<i64> {
    let zeros = match u32::try_from(digits.unsigned_abs()) {
        _ if digits >= 0 => return Some(number),
        Ok(zeros @ ..=19) => zeros,
        // Half of the power exceeds every integer of 64 bits.
        _ => return Some(0),
    };
    let unit = 10_i128.pow(zeros);
    let half = if number < 0 { -unit / 2 } else { unit / 2 };
    ((i128::from(number) + half) / unit * unit).try_into().ok()
}

/// Returns the double nearest to a power of ten.
fn power_of_ten(exponent: u64) -> f64 {
    const EXACT: [f64; 23] = [
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
        1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
    ];
    match EXACT.get(exponent as usize) {
        Some(power) => *power,
        None if exponent > 308 => f64::INFINITY,
        None => format!("1e{exponent}").parse().unwrap_or(f64::INFINITY),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_may_be_before_the_decimal_point() {
        for (number, digits, expected) in [
            (50_001, -5, Some(100_000)),
            (49_999, -5, Some(0)),
            (-50_000, -5, Some(-100_000)),
            (15, -1, Some(20)),
            (25, -1, Some(30)),
            (-15, -1, Some(-20)),
            (7, 3, Some(7)),
            (i64::MAX, -1, None),
            (i64::MIN, -1, None),
            (i64::MAX, -18, Some(9_000_000_000_000_000_000)),
            (i64::MAX, -19, None),
            (i64::MIN, -20, Some(0)),
            (i64::MAX, i64::MIN, Some(0)),
        ] {
            assert_eq!(rounded_int(number, digits), expected, "{number}, {digits}");
        }
        for (number, digits, expected) in [
            (50_001.0, -5, 100_000.0),
            (1234.5678, -2, 1200.0),
            (-1250.0, -2, -1300.0),
            (1e300, 2, 1e300),
            (1e300, -299, 1e300),
            (1e300, -301, 0.0),
            (5.0, 400, 5.0),
            (5.0, -400, 0.0),
            (2.675, 2, 2.67),
            (-2.675, 2, -2.67),
            (2.345, 2, 2.35),
            (1.115, 2, 1.11),
            (10.235, 2, 10.23),
            (0.125, 2, 0.13),
            (1.005, 2, 1.0),
            (-2.5, 0, -3.0),
            (0.1, 20, 0.1),
            (123_456_789.123_456_79, 17, 123_456_789.123_456_79),
        ] {
            assert_eq!(
                rounded(number, digits).to_bits(),
                f64::to_bits(expected),
                "{number}, {digits}"
            );
        }
    }
}
