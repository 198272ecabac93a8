/** Rows of a topic, as they are looked at. */

/** An event, and where it is in its stream. */
export interface Row {
  readonly offset: number;
  readonly event: unknown;
}

/** Rows that can be looked at, from the oldest. */
export interface Rows {
  readonly length: number;
  /** Rows that were before the first: it grows as the oldest make room. */
  readonly start: number;
  at(index: number): Row | undefined;
}
