/**
 * The data of a chart, reduced as it arrives: at 100,000 events a second, one minute would have six million points. A
 * series has a few hundred time slices, each with minimum, maximum and mean. Pure.
 */

/** The value that a chart shows of each slice: the mean with the range, the maximum, or the minimum. */
export type Aggregate = "mean" | "max" | "min";

/** Slices of a window for the aggregate `mean`. */
export const SLICES = 600;
/** Length of a slice for maxima and minima, ms. */
const SECOND_MS = 1000;
/** If this many consecutive values are older than the window, the clock counts as set back. */
const STRAGGLERS_MAX = 1000;

interface Slice {
  least: number;
  most: number;
  sum: number;
  count: number;
  readonly isAfterGap: boolean;
}

export class Series {
  #slices: (Slice | undefined)[];
  readonly #sliceMs: number;
  /** Maximum number of slices. */
  readonly #count: number;
  /** Number of the newest slice. */
  #newest = -1;
  #stragglers = 0;
  #isAfterGap = false;

  constructor(windowMs: number, aggregate: Aggregate = "mean") {
    this.#sliceMs = aggregate === "mean" ? windowMs / SLICES : SECOND_MS;
    // Two slices more than the window: one at its beginning, and the newest, which is incomplete.
    this.#count = aggregate === "mean" ? SLICES : Math.ceil(windowMs / SECOND_MS) + 2;
    this.#slices = new Array(this.#count);
  }

  /** Number of the oldest slice that may be stored. */
  get oldest(): number {
    return Math.max(0, this.#newest - this.#count + 1);
  }

  get newest(): number {
    return this.#newest;
  }

  get sliceMs(): number {
    return this.#sliceMs;
  }

  slice(number: number): Slice | undefined {
    return number >= this.oldest && number <= this.#newest ? this.#slices[number % this.#count] : undefined;
  }

  /** Adds a value. Values older than the window are ignored. */
  add(atMs: number, value: number): void {
    const number = Math.floor(atMs / this.#sliceMs);
    if (!Number.isFinite(value) || !(number >= 0)) return;
    if (number < this.oldest) {
      this.#stragglers += 1;
      if (this.#stragglers < STRAGGLERS_MAX) return;
      this.#slices = new Array(this.#count);
      this.#newest = -1;
    }
    this.#stragglers = 0;
    if (number > this.#newest) this.#forget(number);
    const slice = this.#slices[number % this.#count];
    if (!slice) {
      this.#slices[number % this.#count] = this.#begin(value);
      return;
    }
    if (value < slice.least) slice.least = value;
    if (value > slice.most) slice.most = value;
    slice.sum += value;
    slice.count += 1;
  }

  /** Adds values in order, all at one time or each at its own time. */
  addAll(times: number | ArrayLike<number>, values: ArrayLike<number>): void {
    for (let index = 0; index < values.length; index++) {
      this.add(typeof times === "number" ? times : (times[index] as number), values[index] as number);
    }
  }

  /** Marks a gap: the line is interrupted before the next value. */
  cut(): void {
    this.#isAfterGap = true;
  }

  #begin(value: number): Slice {
    const slice = { least: value, most: value, sum: value, count: 1, isAfterGap: this.#isAfterGap };
    this.#isAfterGap = false;
    return slice;
  }

  /** Clears the slices between the newest one and this one. */
  #forget(number: number): void {
    const from = Math.max(this.#newest + 1, number - this.#count + 1);
    for (let empty = from; empty <= number; empty++) this.#slices[empty % this.#count] = undefined;
    this.#newest = number;
  }
}

/** `undefined`: no value; `null`: a gap. */
type Line = (number | null | undefined)[];

export interface Aligned {
  /** Times, s. */
  at: number[];
  least: Line[];
  most: Line[];
  mean: Line[];
}

/** Aligns series of one window. @param isWhole - omits the newest slice, which is incomplete. */
export function align(all: readonly Series[], isWhole = false): Aligned {
  const aligned: Aligned = { at: [], least: all.map(() => []), most: all.map(() => []), mean: all.map(() => []) };
  const newest = Math.max(...all.map((series) => series.newest)) - Number(isWhole);
  for (let number = Math.max(...all.map((series) => series.oldest)); number <= newest; number++) {
    const slices = all.map((series) => series.slice(number));
    if (!slices.some(Boolean)) continue;
    const { sliceMs } = all[0] as Series;
    if (aligned.at.length && slices.some((slice) => slice?.isAfterGap)) {
      aligned.at.push(((number - 0.5) * sliceMs) / 1000);
      for (const line of [...aligned.least, ...aligned.most, ...aligned.mean]) line.push(null);
    }
    aligned.at.push((number * sliceMs) / 1000);
    slices.forEach((slice, index) => {
      aligned.least[index]?.push(slice?.least);
      aligned.most[index]?.push(slice?.most);
      aligned.mean[index]?.push(slice && slice.sum / slice.count);
    });
  }
  return aligned;
}
