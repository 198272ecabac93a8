//! Decimal fractions as the nearest double.

/// The number of decimal digits that never overflow 64 bits.
pub(crate) const DIGITS_MAX: usize = 19;

/// Integers up to this one are exact in a double.
pub(crate) const EXACT_MAX: u64 = 1 << 53;

/// Returns the double nearest to `digits` divided by ten to the power of `fraction`, which is at most
/// [`DIGITS_MAX`]. If two doubles are equally near, it returns the even one.
#[inline]
pub(crate) fn nearest(digits: u64, fraction: usize) -> f64 {
    let divisor = &DIVISORS[fraction];
    if digits <= EXACT_MAX {
        // Both are exact in a double, which makes their quotient the nearest (Clinger, "How to read floating point
        // numbers accurately", PLDI 1990).
        return digits as f64 / divisor.power;
    }
    divisor.divide(digits)
}

#[derive(Clone, Copy)]
struct Divisor {
    power: f64,
    /// The power, shifted until its highest bit is set.
    shifted: u64,
    shift: u32,
    /// 2^128 - 1, divided by `shifted`, minus 2^64.
    reciprocal: u64,
}

const DIVISORS: [Divisor; DIGITS_MAX + 1] = {
    let mut divisors = [Divisor::new(1); DIGITS_MAX + 1];
    let (mut index, mut power) = (1, 10);
    while index <= DIGITS_MAX {
        divisors[index] = Divisor::new(power);
        index += 1;
        power = power.wrapping_mul(10);
    }
    divisors
};

impl Divisor {
    const fn new(power: u64) -> Self {
        let shift = power.leading_zeros();
        let shifted = power << shift;
        let reciprocal = (u128::MAX / shifted as u128 - (1 << 64)) as u64;
        Self { power: power as f64, shifted, shift, reciprocal }
    }

    /// Divides integers. The quotient has more bits than a double, and is rounded when it is converted to a double.
    fn divide(&self, digits: u64) -> f64 {
        let shift = digits.leading_zeros();
        // Between 2^125 and 2^126: the quotient is between 2^61 and 2^63.
        let dividend = u128::from(digits << shift) << 62;
        let (quotient, remainder) = self.quotient(dividend);
        // The remainder, far below a unit of the double, decides whether the rest is exactly half a unit.
        let rounded = (quotient | u64::from(remainder != 0)) as i64 as f64;
        let exponent = 1023 - 62 + i64::from(self.shift) - i64::from(shift);
        rounded * f64::from_bits((exponent as u64) << 52)
    }

    /// Returns `dividend / shifted` and the remainder, for dividends less than 2^64 times `shifted` (Möller and
    /// Granlund, "Improved division by invariant integers", 2011, algorithm 4).
    fn quotient(&self, dividend: u128) -> (u64, u64) {
        let high = (dividend >> 64) as u64;
        let estimate = u128::from(self.reciprocal) * u128::from(high) + dividend;
        let mut quotient = ((estimate >> 64) as u64).wrapping_add(1);
        let mut remainder = (dividend as u64).wrapping_sub(quotient.wrapping_mul(self.shifted));
        if remainder > estimate as u64 {
            quotient = quotient.wrapping_sub(1);
            remainder = remainder.wrapping_add(self.shifted);
        }
        if remainder >= self.shifted {
            quotient = quotient.wrapping_add(1);
            remainder -= self.shifted;
        }
        (quotient, remainder)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(digits: u64, fraction: usize) {
        let expected: f64 = format!("{digits}e-{fraction}").parse().unwrap();
        assert_eq!(nearest(digits, fraction).to_bits(), expected.to_bits(), "{digits}e-{fraction}");
    }

    #[test]
    fn halves_and_limits_equal_the_standard_library() {
        for fraction in 0..=DIGITS_MAX {
            for near in 0..=4 {
                check(near, fraction);
                check(EXACT_MAX - 2 + near, fraction);
                check(u64::MAX - near, fraction);
                check(i64::MAX as u64 - 2 + near, fraction);
                // Half a unit of doubles from 2^53 and 2^56 on, times a power of five, so that the quotient is such a half.
                let five = 5_u64.pow(fraction.min(3) as u32);
                check(((1 << 53) + near * 2 + 1) * five, fraction.min(3));
                check(((1 << 56) + near * 8 + 4) * five, fraction.min(3));
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn doubles_are_those_of_the_standard_library(digits: u64, shift in 0..64_u32, fraction in 0..=DIGITS_MAX) {
            let digits = digits >> shift;
            check(digits, fraction);
            let divided = DIVISORS[fraction].divide(digits.max(1));
            prop_assert_eq!(divided.to_bits(), nearest(digits.max(1), fraction).to_bits());
        }

        #[test]
        fn quotients_are_those_of_integers(high: u64, low: u64, fraction in 0..=DIGITS_MAX) {
            let divisor = &DIVISORS[fraction];
            let dividend = u128::from(high % divisor.shifted) << 64 | u128::from(low);
            let shifted = u128::from(divisor.shifted);
            prop_assert_eq!(divisor.quotient(dividend), ((dividend / shifted) as u64, (dividend % shifted) as u64));
        }
    }
}
