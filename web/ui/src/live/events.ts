/**
 * Events as they came together: as JSON, or as columns (`arrow-events`). Whoever looks at one gets it
 * as it was published; a chart reads numbers, and no event is made for it. Pure.
 */

import type { Batch, Gap } from "thalweg";
import { type Column, cell, numeric } from "./columns.js";

export interface Events {
  readonly length: number;
  /** Of one of them, in its stream. */
  offset(index: number): number;
  /** One of them, as `JSON.parse` would have it. */
  event(index: number): unknown;
  /** What all of them have in a column, as numbers; `NaN` where it is none. Times are in ms. */
  numbers(column: Column): ArrayLike<number>;
}

/** A batch, however it came. */
export interface Received extends Pick<Batch<unknown>, "previous" | "changed" | "position"> {
  readonly events: Events;
  readonly gap: Gap | null;
  readonly bytes: number;
}

/** A session's batch. */
export function received({ first, events, offsets, ...batch }: Batch<unknown>): Received {
  return { ...batch, events: new PublishedEvents(first, events, offsets) };
}

/** Events that are there as they were published. */
export class PublishedEvents implements Events {
  readonly #first: number;
  readonly #all: readonly unknown[];
  readonly #offsets: readonly number[] | undefined;

  /** @param offsets - of each of them, if they are not consecutive. */
  constructor(first: number, all: readonly unknown[], offsets?: readonly number[] | undefined) {
    this.#first = first;
    this.#all = all;
    this.#offsets = offsets;
  }

  get length(): number {
    return this.#all.length;
  }

  offset(index: number): number {
    return this.#offsets?.[index] ?? this.#first + index;
  }

  event(index: number): unknown {
    return this.#all[index];
  }

  numbers(column: Column): Float64Array {
    return numbers(this.length, column, (index) => cell(this.#all[index], column));
  }
}

/** Cells as numbers. Those of one batch often say the same: it is read once. */
export function numbers(length: number, { kind }: Column, cellOf: (index: number) => unknown): Float64Array {
  const all = new Float64Array(length);
  let last: unknown = null;
  let value = Number.NaN;
  for (let index = 0; index < length; index++) {
    const found = cellOf(index);
    if (found !== last) {
      last = found;
      value = numeric(kind, found);
    }
    all[index] = value;
  }
  return all;
}

/** Whether there are offsets among theirs that no event has. */
export function isSparse(events: Events): boolean {
  return events.offset(events.length - 1) - events.offset(0) >= events.length;
}
