/** Medians, quantiles and slopes. Pure. */

/** The value that the part `share` of all do not exceed; `NaN` of none. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((one, other) => one - other);
  return sorted[Math.min(sorted.length - 1, Math.max(0, Math.ceil(sorted.length * share) - 1))] ?? NaN;
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((one, other) => one - other);
  const middle = sorted.length / 2;
  return ((sorted[Math.ceil(middle) - 1] ?? NaN) + (sorted[Math.floor(middle)] ?? NaN)) / 2;
}

/** Change a second, by least squares. */
export function slope(points: readonly (readonly [seconds: number, value: number])[]): number {
  const mean = (index: 0 | 1): number => points.reduce((sum, it) => sum + it[index], 0) / points.length;
  const [x, y] = [mean(0), mean(1)];
  const over = points.reduce((sum, it) => sum + (it[0] - x) * (it[1] - y), 0);
  return over / points.reduce((sum, it) => sum + (it[0] - x) ** 2, 0);
}
