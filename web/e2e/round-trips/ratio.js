/**
 * 97.5 % quantiles of Student's t distribution by degrees of freedom, from 1 on (NIST e-Handbook of Statistical
 * Methods, 1.3.6.7.2).
 */
const QUANTILES = [
  12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145, 2.131,
];

/** The quantile decreases: with more degrees of freedom the last one makes the interval a little too wide. @param {number} degrees */
const quantile = (degrees) => QUANTILES[Math.min(degrees, QUANTILES.length) - 1] ?? Number.NaN;

export const mean = (/** @type {number[]} */ list) => list.reduce((sum, value) => sum + value, 0) / list.length;

/**
 * Returns the geometric mean of paired ratios, and the ends of its 95 % interval, which are NaN for a single pair.
 *
 * @param {number[]} ratios
 */
export function ratio(ratios) {
  const logs = ratios.map(Math.log);
  const middle = mean(logs);
  const degrees = logs.length - 1;
  const variance = logs.reduce((sum, log) => sum + (log - middle) ** 2, 0) / degrees;
  const reach = quantile(degrees) * Math.sqrt(variance / logs.length);
  return [middle, middle - reach, middle + reach].map(Math.exp);
}
