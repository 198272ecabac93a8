/**
 * What a chart shows: numbers over time, thinned as they come. At 100,000 events a second
 * a chart of a minute would have six million points; it has a few hundred slices of time,
 * each with the least, the most and the mean of what happened in it. Pure.
 */

/** What a chart shows of each slice of time: the mean and the range, or one of them. */
export type Aggregate = "mean" | "max" | "min";

/** Slices of a window, unless their length is given. */
export const SLICES = 600;
/** Maxima and minima are those of each second, ms. */
const SECOND_MS = 1000;
/** So many values in a row from before the window are no stragglers: a clock was set back. */
const STRAGGLERS_MAX = 1000;

interface Slice {
  least: number;
  most: number;
  sum: number;
  count: number;
  /** Whether something was missed before it. */
  readonly isAfterGap: boolean;
}

export class Series {
  #slices: (Slice | undefined)[];
  readonly #sliceMs: number;
  /** Slices that are held. */
  readonly #count: number;
  /** Number of the newest slice. */
  #newest = -1;
  #stragglers = 0;
  #isAfterGap = false;

  /** @param windowMs - the time that a chart shows. */
  constructor(windowMs: number, aggregate: Aggregate = "mean") {
    this.#sliceMs = aggregate === "mean" ? windowMs / SLICES : SECOND_MS;
    // One more than the window at its beginning, and the newest, which is not over.
    this.#count = aggregate === "mean" ? SLICES : Math.ceil(windowMs / SECOND_MS) + 2;
    this.#slices = new Array(this.#count);
  }

  /** Number of the oldest slice that may be held. */
  get oldest(): number {
    return Math.max(0, this.#newest - this.#count + 1);
  }

  get newest(): number {
    return this.#newest;
  }

  get sliceMs(): number {
    return this.#sliceMs;
  }

  /** A slice that has values. */
  slice(number: number): Slice | undefined {
    return number >= this.oldest && number <= this.#newest ? this.#slices[number % this.#count] : undefined;
  }

  /** A value at a time, ms. One that is older than the window is left out. */
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

  /** Values in order, and when each was: at one time, or at a time each. */
  addAll(times: number | ArrayLike<number>, values: ArrayLike<number>): void {
    for (let index = 0; index < values.length; index++) {
      this.add(typeof times === "number" ? times : (times[index] as number), values[index] as number);
    }
  }

  /** Something is missed here: what comes is no continuation of what was. */
  cut(): void {
    this.#isAfterGap = true;
  }

  #begin(value: number): Slice {
    const slice = { least: value, most: value, sum: value, count: 1, isAfterGap: this.#isAfterGap };
    this.#isAfterGap = false;
    return slice;
  }

  /** Slices between the newest and this one are empty. */
  #forget(number: number): void {
    const from = Math.max(this.#newest + 1, number - this.#count + 1);
    for (let empty = from; empty <= number; empty++) this.#slices[empty % this.#count] = undefined;
    this.#newest = number;
  }
}

/** `undefined` where a series says nothing, `null` where something was missed. */
type Line = (number | null | undefined)[];

/** Several series at the times that any of them has. */
export interface Aligned {
  /** In s. */
  at: number[];
  least: Line[];
  most: Line[];
  mean: Line[];
}

/**
 * Puts series of one window beside each other.
 *
 * @param isWhole - leaves the newest slice out: it is not over.
 */
export function align(all: readonly Series[], isWhole = false): Aligned {
  const aligned: Aligned = { at: [], least: all.map(() => []), most: all.map(() => []), mean: all.map(() => []) };
  const newest = Math.max(...all.map((one) => one.newest)) - Number(isWhole);
  for (let number = Math.max(...all.map((one) => one.oldest)); number <= newest; number++) {
    const slices = all.map((one) => one.slice(number));
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
