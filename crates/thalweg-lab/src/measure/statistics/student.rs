//! Student's t distribution: how far a mean of few values may be trusted.

/// Returns the probability that |t| is at least this large if the true mean is 0. `degrees` need not be an integer.
pub fn two_sided(t: f64, degrees: f64) -> f64 {
    if t.is_nan() {
        return 1.0;
    }
    let share = if t.is_infinite() { 0.0 } else { degrees / (degrees + t * t) };
    incomplete_beta(degrees / 2.0, 0.5, share)
}

/// Returns the |t| that is reached with this probability, the inverse of [`two_sided`].
pub fn critical(probability: f64, degrees: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while two_sided(high, degrees) > probability && high < 1e12 {
        high *= 2.0;
    }
    // To one part in 2^40 of the first interval.
    for _ in 0..40 {
        let middle = f64::midpoint(low, high);
        match two_sided(middle, degrees) > probability {
            true => low = middle,
            false => high = middle,
        }
    }
    high
}

/// Returns the regularised incomplete beta function by its continued fraction (Press et al., Numerical Recipes, 6.4).
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    let scale = ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln();
    match x < (a + 1.0) / (a + b + 2.0) {
        true => scale.exp() * fraction(a, b, x) / a,
        false => 1.0 - scale.exp() * fraction(b, a, 1.0 - x) / b,
    }
}

/// Evaluates the fraction by Lentz's method. Two hundred terms are far more than it needs here.
fn fraction(a: f64, b: f64, x: f64) -> f64 {
    let off_zero = |value: f64| if value.abs() < 1e-300 { 1e-300 } else { value };
    let (mut c, mut d) = (1.0, 1.0 / off_zero(1.0 - (a + b) * x / (a + 1.0)));
    let mut value = d;
    for term in 1..200 {
        let m = f64::from(term);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        for numerator in [even, odd] {
            d = 1.0 / off_zero(1.0 + numerator * d);
            c = off_zero(1.0 + numerator / c);
            value *= c * d;
        }
        if (c * d - 1.0).abs() < 1e-13 {
            break;
        }
    }
    value
}

/// Returns ln Γ(x) by Stirling's series, after the argument was made large enough for it.
fn ln_gamma(mut x: f64) -> f64 {
    let mut shift = 0.0;
    while x < 10.0 {
        shift += x.ln();
        x += 1.0;
    }
    let inverse = 1.0 / (x * x);
    let series = (1.0 / 12.0 - inverse * (1.0 / 360.0 - inverse / 1260.0)) / x;
    (x - 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + series - shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_in_tables_of_student() {
        for (degrees, probability, expected) in [
            (1.0, 0.05, 12.7062),
            (4.0, 0.05, 2.7764),
            (5.0, 0.05, 2.5706),
            (5.0, 0.001, 6.8688),
            (11.0, 0.05, 2.2010),
            (30.0, 0.01, 2.7500),
            (1000.0, 0.05, 1.9623),
        ] {
            let found = critical(probability, degrees);
            assert!((found - expected).abs() < 1e-4, "{degrees}: {found}");
            assert!((two_sided(found, degrees) - probability).abs() < 1e-9);
        }
        assert_eq!(two_sided(f64::INFINITY, 3.0), 0.0);
        assert!((two_sided(0.0, 3.0) - 1.0).abs() < 1e-12);
    }
}
