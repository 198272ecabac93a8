/** Round numbers along an axis. Pure. */

export interface Extent {
  readonly least: number;
  readonly most: number;
}

export interface Ticks {
  readonly at: readonly number[];
  /** Distance between two ticks. */
  readonly step: number;
}

/** Returns about `count` ticks, and at most twice as many. */
export function ticks({ least, most }: Extent, count: number): Ticks {
  const rough = (most - least) / count;
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = size * ([1, 2, 5].find((times) => times * size >= rough) ?? 10);
  const from = Math.ceil(least / step);
  // Multiply instead of adding up: adding a small step to a large number may not change the number.
  const all = Array.from({ length: count * 2 }, (_, index) => (from + index) * step);
  return { at: all.filter((value) => value >= least && value <= most), step };
}
