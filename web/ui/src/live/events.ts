/** A batch of events, from JSON or columns (`arrow-events`). Charts read numbers without creating objects. Pure. */

import type { Batch, Gap } from "thalweg";
import { type Column, cell, numeric } from "./columns.js";

export interface Events {
  readonly length: number;
  offset(index: number): number;
  /** Returns an event, as `JSON.parse` would. */
  event(index: number): unknown;
  /** Returns the values of a column as numbers; `NaN` for other values. Times are in ms. */
  numbers(column: Column): ArrayLike<number>;
}

/** A batch, independent of the way it was received. */
export interface Received extends Pick<Batch<unknown>, "previous" | "changed" | "position" | "keys"> {
  readonly events: Events;
  readonly gap: Gap | null;
  readonly bytes: number;
}

export function received({ first, events, offsets, ...batch }: Batch<unknown>): Received {
  return { ...batch, events: new PublishedEvents(first, events, offsets) };
}

export class PublishedEvents implements Events {
  readonly #first: number;
  readonly #all: readonly unknown[];
  readonly #offsets: readonly number[] | undefined;

  /** @param offsets - the offset of each event, if they are not consecutive. */
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

/** Converts cells to numbers. Repeated values are converted only once. */
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

/** Returns whether the batch's offsets have holes. */
export function isSparse(events: Events): boolean {
  return events.offset(events.length - 1) - events.offset(0) >= events.length;
}
