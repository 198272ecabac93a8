/** Medians, quantiles, and how sure one can be of a ratio. Pure. */

import { seeded } from "../../sdk/test/random.js";

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

export interface Ratio {
  readonly ratio: number;
  /** 95 % of the ratios of what might as well have been drawn. */
  readonly interval: readonly [number, number];
}

const DRAWS = 10_000;

/** Median of the ratios of pairs, with a bootstrap interval. */
export function ratio(pairs: readonly (readonly [number, number])[]): Ratio {
  const ratios = pairs.map(([one, other]) => one / other);
  const random = seeded(1);
  const drawn = Array.from({ length: DRAWS }, () =>
    median(ratios.map(() => ratios[Math.floor(random() * ratios.length)] as number)),
  );
  return { ratio: median(ratios), interval: [quantile(drawn, 0.025), quantile(drawn, 0.975)] };
}

/** Change a second, by least squares. */
export function slope(points: readonly (readonly [seconds: number, value: number])[]): number {
  const mean = (index: 0 | 1): number => points.reduce((sum, it) => sum + it[index], 0) / points.length;
  const [x, y] = [mean(0), mean(1)];
  const over = points.reduce((sum, it) => sum + (it[0] - x) * (it[1] - y), 0);
  return over / points.reduce((sum, it) => sum + (it[0] - x) ** 2, 0);
}
