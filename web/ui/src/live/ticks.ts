/** Round figures along an axis. Pure. */

/** From the least to the most that an axis shows. */
export interface Extent {
  readonly least: number;
  readonly most: number;
}

export interface Ticks {
  readonly at: readonly number[];
  /** Between two of them. */
  readonly step: number;
}

/** About `count` of them, and never more than twice as many. */
export function ticks({ least, most }: Extent, count: number): Ticks {
  const rough = (most - least) / count;
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = size * ([1, 2, 5].find((times) => times * size >= rough) ?? 10);
  const from = Math.ceil(least / step);
  // Counted, and not added up: of large figures a small step may be nothing.
  const all = Array.from({ length: count * 2 }, (_, index) => (from + index) * step);
  return { at: all.filter((value) => value >= least && value <= most), step };
}
