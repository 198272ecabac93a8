/**
 * 97.5 % quantiles of Student's t distribution by degrees of freedom, from 1 on (NIST e-Handbook of Statistical
 * Methods, 1.3.6.7.2).
 */
const QUANTILES = [
  12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145, 2.131,
];
/** The 97.5 % quantile of the normal distribution. */
const NORMAL = 1.959964;

/**
 * Returns the quantile: from the table, and beyond it from the series of Abramowitz and Stegun (Handbook of
 * Mathematical Functions, 26.7.5), which is right to four digits there.
 *
 * @param {number} degrees
 */
function quantile(degrees) {
  const z = NORMAL;
  const first = (z ** 3 + z) / 4;
  const second = (5 * z ** 5 + 16 * z ** 3 + 3 * z) / 96;
  const third = (3 * z ** 7 + 19 * z ** 5 + 17 * z ** 3 - 15 * z) / 384;
  return QUANTILES[degrees - 1] ?? z + first / degrees + second / degrees ** 2 + third / degrees ** 3;
}

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
  if (degrees === 0) return [ratios[0], Number.NaN, Number.NaN];
  const variance = logs.reduce((sum, log) => sum + (log - middle) ** 2, 0) / degrees;
  const reach = quantile(degrees) * Math.sqrt(variance / logs.length);
  return [middle, middle - reach, middle + reach].map(Math.exp);
}
