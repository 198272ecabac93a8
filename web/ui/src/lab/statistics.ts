/** Statistics of repeats. Pure. */

export interface Spread {
  readonly median: number;
  readonly low: number;
  readonly high: number;
  readonly count: number;
}

export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

/** Returns a quantile, interpolated between neighbours; `NaN` without values. */
export function quantile(values: readonly number[], part: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (sorted.length - 1) * part;
  const [low, high] = [sorted[Math.floor(at)] ?? Number.NaN, sorted[Math.ceil(at)] ?? Number.NaN];
  return low + (high - low) * (at - Math.floor(at));
}

export function spread(values: readonly number[]): Spread | null {
  if (!values.length) return null;
  return { median: median(values), low: Math.min(...values), high: Math.max(...values), count: values.length };
}

/** Smallest number of repeats for a comparison. With two repeats, chance alone separates equal cells in one of three cases. */
const ENOUGH = 3;

/** Compares two cells. They differ if every repeat of one is beyond every repeat of the other; with too few repeats: `unknown`. */
export function compare(one: Spread, other: Spread): "more" | "less" | "same" | "unknown" {
  if (one.count < ENOUGH || other.count < ENOUGH) return "unknown";
  if (one.low > other.high) return "more";
  return one.high < other.low ? "less" : "same";
}
