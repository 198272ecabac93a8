//! Splits a figure into terms: y = Σ coefficient × x, by least squares over relative errors (each point has the weight 1/y², because
//! cells lie orders of magnitude apart), no coefficient below 0 (Lawson and Hanson, Solving Least Squares Problems, 1974, chapter
//! 23; with three terms all subsets can be tried, and the best feasible one is the solution).
//!
//! The interval of a coefficient is that of normal theory: Student's t times the standard error from the
//! inverse of the normal matrix, around the solution and cut off at 0. The interval is valid if the model
//! is right and the points are independent.

use super::statistics::student;
use serde::{Deserialize, Serialize};

/// Terms of a model.
pub const TERMS: usize = 3;
/// Points that a model needs, at least: two more than it has terms, to know its error.
const POINTS_MIN: usize = TERMS + 2;
/// Probability that an interval does not contain the true coefficient.
const OUTSIDE: f64 = 0.05;
/// A smaller pivot means a singular matrix, whose diagonal is scaled to 1.
const PIVOT_MIN: f64 = 1e-9;
/// Largest ratio of a coefficient's variance to that of unrelated terms (Marquardt, Technometrics 12, 1970): above it, the points
/// do not separate the terms.
const INFLATION_MAX: f64 = 100.0;

/// Coefficient of one term.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Coefficient {
    /// Factor of x.
    pub value: f64,
    /// Lower end of its 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// A model that was fitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// One for each term.
    pub coefficients: [Coefficient; TERMS],
    /// Root of the mean square of the relative errors.
    pub error: f64,
}

type Matrix = [[f64; TERMS]; TERMS];

impl Fit {
    /// Fits points (x, y) with y above 0. Returns `None` if there are too few, or if they do not tell the
    /// terms apart.
    pub fn new(points: &[([f64; TERMS], f64)]) -> Option<Fit> {
        let degrees = points.len().checked_sub(TERMS)?;
        if points.len() < POINTS_MIN || points.iter().any(|(_, y)| *y <= 0.0) {
            return None;
        }
        let relative = |(x, y): &([f64; TERMS], f64)| x.map(|x| x / y);
        let rows: Vec<[f64; TERMS]> = points.iter().map(relative).collect();
        // Terms have units of their own: each is scaled to length 1.
        let scale: [f64; TERMS] = std::array::from_fn(|term| {
            rows.iter().map(|row| row[term].powi(2)).sum::<f64>().sqrt()
        });
        if scale.contains(&0.0) {
            return None;
        }
        let scaled = |row: &[f64; TERMS], term: usize| row[term] / scale[term];
        let matrix: Matrix = std::array::from_fn(|one| {
            std::array::from_fn(|other| {
                rows.iter().map(|row| scaled(row, one) * scaled(row, other)).sum()
            })
        });
        let inverse = inverse(&matrix, [true; TERMS])?;
        if (0..TERMS).any(|term| inverse[term][term] > INFLATION_MAX) {
            return None;
        }
        let sums: [f64; TERMS] =
            std::array::from_fn(|term| rows.iter().map(|row| scaled(row, term)).sum());
        let solution = least_squares(&matrix, &sums)?;
        let squares: f64 = rows
            .iter()
            .map(|row| (0..TERMS).map(|term| solution[term] * scaled(row, term)).sum::<f64>())
            .map(|relative| (1.0 - relative).powi(2))
            .sum();
        let variance = squares / degrees as f64;
        let t = student::critical(OUTSIDE, degrees as f64);
        let coefficients = std::array::from_fn(|term| {
            let half = t * (variance * inverse[term][term]).sqrt();
            let at = |value: f64| value.max(0.0) / scale[term];
            let value = solution[term];
            Coefficient { value: at(value), low: at(value - half), high: at(value + half) }
        });
        Some(Fit { coefficients, error: (squares / points.len() as f64).sqrt() })
    }

    /// Returns the model's value at x.
    pub fn at(&self, x: [f64; TERMS]) -> f64 {
        self.terms(x).iter().map(|term| term.value).sum()
    }

    /// Returns the model's value at x term by term, with the lowest and highest values that the intervals allow.
    pub fn terms(&self, x: [f64; TERMS]) -> [Coefficient; TERMS] {
        std::array::from_fn(|term| {
            let Coefficient { value, low, high } = self.coefficients[term];
            let x = x[term];
            Coefficient { value: value * x, low: low * x, high: high * x }
        })
    }
}

/// Returns the solution without a term below 0, for a target of 1 in each row: the feasible subset of terms with the smallest error.
fn least_squares(matrix: &Matrix, sums: &[f64; TERMS]) -> Option<[f64; TERMS]> {
    let subsets = (1u32..1 << TERMS).map(|set| std::array::from_fn(|term| set >> term & 1 == 1));
    let solutions = subsets.filter_map(|subset| {
        let inverse = inverse(matrix, subset)?;
        let solution = inverse.map(|row| dot(&row, sums));
        // The squared residual is the square of the target minus this.
        let explained = dot(&solution, sums);
        solution.iter().all(|value| *value >= 0.0).then_some((solution, explained))
    });
    solutions.max_by(|one, other| one.1.total_cmp(&other.1)).map(|(solution, _)| solution)
}

fn dot(one: &[f64; TERMS], other: &[f64; TERMS]) -> f64 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

/// Returns the inverse of the rows and columns of these terms, 0 in the others (Gauss and Jordan; the matrix is positive definite, so its
/// diagonal has the pivots). `None` if it is singular.
fn inverse(matrix: &Matrix, terms: [bool; TERMS]) -> Option<Matrix> {
    let mut left = *matrix;
    let mut right: Matrix = std::array::from_fn(|row| {
        std::array::from_fn(|column| if row == column && terms[row] { 1.0 } else { 0.0 })
    });
    for pivot in (0..TERMS).filter(|term| terms[*term]) {
        let by = left[pivot][pivot];
        if by < PIVOT_MIN {
            return None;
        }
        left[pivot] = left[pivot].map(|value| value / by);
        right[pivot] = right[pivot].map(|value| value / by);
        for row in (0..TERMS).filter(|row| terms[*row] && *row != pivot) {
            let factor = left[row][pivot];
            for column in 0..TERMS {
                left[row][column] -= factor * left[pivot][column];
                right[row][column] -= factor * right[pivot][column];
            }
        }
    }
    Some(right)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Connections, messages, bytes of some cells.
    const CELLS: [[f64; TERMS]; 8] = [
        [500.0, 500.0, 2.5e6],
        [4000.0, 4000.0, 2e7],
        [4000.0, 400.0, 2e5],
        [500.0, 20_000.0, 3e6],
        [500.0, 500.0, 8e7],
        [2000.0, 2000.0, 3.3e8],
        [100.0, 10_000.0, 1e8],
        [8000.0, 800.0, 8e5],
    ];

    fn fit(true_ones: [f64; TERMS], noise: impl Fn(usize) -> f64) -> Option<Fit> {
        let y = |x: &[f64; TERMS], index| dot(x, &true_ones) * (1.0 + noise(index));
        let points = CELLS.iter().enumerate().map(|(index, x)| (*x, y(x, index)));
        Fit::new(&points.collect::<Vec<_>>())
    }

    #[test]
    fn without_noise_it_is_exact() {
        let found = fit([2e-6, 3e-6, 4e-10], |_| 0.0).unwrap();
        for (coefficient, expected) in found.coefficients.iter().zip([2e-6, 3e-6, 4e-10]) {
            assert!((coefficient.value / expected - 1.0).abs() < 1e-6, "{found:?}");
            assert!(coefficient.high - coefficient.low < 1e-3 * expected, "{found:?}");
        }
        assert!(found.error < 1e-6);
        assert!((found.at([1e6, 1e6, 1e9]) - 5.4).abs() < 1e-4);
    }

    #[test]
    fn coefficients_are_never_negative() {
        let found = fit([0.0, 3e-6, 4e-10], |index| [0.05, -0.04, 0.03, -0.05][index % 4]).unwrap();
        assert!(
            found
                .coefficients
                .iter()
                .all(|coefficient| 0.0 <= coefficient.low && coefficient.low <= coefficient.value)
        );
        assert!(found.coefficients[0].value < 1e-6, "{found:?}");
        assert!((0.01..0.06).contains(&found.error), "{found:?}");
    }

    #[test]
    fn cells_that_do_not_tell_terms_apart_have_no_model() {
        // As many messages as connections in each.
        let points: Vec<_> = (1..9).map(f64::from).map(|n| ([n, n, n * n], n + n * n)).collect();
        assert_eq!(Fit::new(&points), None);
        let all = CELLS.map(|x| (x, dot(&x, &[1.0; 3])));
        assert!(Fit::new(&all).is_some() && Fit::new(&all[..4]).is_none());
        assert_eq!(Fit::new(&CELLS.map(|x| (x, 0.0))), None);
    }

    proptest! {
        #[test]
        fn intervals_contain_the_true_ones_as_often_as_they_promise(seed in 0u64..50) {
            let true_ones = [2e-6, 3e-6, 4e-10];
            let mut random = fastrand::Rng::with_seed(seed);
            let mut inside = 0;
            for _ in 0..200 {
                // About normal, with a standard deviation of 3 %.
                let noise: [f64; CELLS.len()] =
                    std::array::from_fn(|_| 0.06 * ((0..3).map(|_| random.f64()).sum::<f64>() - 1.5));
                let found = fit(true_ones, |index| noise[index]).unwrap();
                let is_inside =
                    |(found, one): (&Coefficient, f64)| found.low <= one && one <= found.high;
                inside += found.coefficients.iter().zip(true_ones).filter(|coefficient| is_inside(*coefficient)).count();
            }
            prop_assert!((0.9..=0.99).contains(&(inside as f64 / 600.0)), "{inside}");
        }
    }
}
