/** What repeats come to. Pure. */

/** The middle of several, and how far they are apart. */
export interface Spread {
  readonly median: number;
  readonly low: number;
  readonly high: number;
  readonly count: number;
}

export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

/** Between neighbours it is in proportion. `NaN` of none. */
export function quantile(values: readonly number[], part: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (sorted.length - 1) * part;
  const [low, high] = [sorted[Math.floor(at)] ?? Number.NaN, sorted[Math.ceil(at)] ?? Number.NaN];
  return low + (high - low) * (at - Math.floor(at));
}

/** `null` of none. */
export function spread(values: readonly number[]): Spread | null {
  if (!values.length) return null;
  return { median: median(values), low: Math.min(...values), high: Math.max(...values), count: values.length };
}

/** Repeats that say something: two of two are apart by chance in one of three cases. */
const ENOUGH = 3;

/**
 * Whether two differ: every repeat of one is beyond every repeat of the other. Otherwise
 * it is a tie, and with fewer than three repeats nothing is said.
 */
export function compare(one: Spread, other: Spread): "more" | "less" | "tie" | "unknown" {
  if (one.count < ENOUGH || other.count < ENOUGH) return "unknown";
  if (one.low > other.high) return "more";
  return one.high < other.low ? "less" : "tie";
}
