/** Read access to the rows of a topic. */

export interface Row {
  readonly offset: number;
  readonly event: unknown;
}

/** Rows, the oldest first. */
export interface Rows {
  readonly length: number;
  /** Number of dropped rows before the first one. It grows as old rows are dropped. */
  readonly start: number;
  at(index: number): Row | undefined;
}
