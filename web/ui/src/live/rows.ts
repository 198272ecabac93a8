/** Read access to the rows of a topic. */

export interface Row {
  readonly offset: number;
  readonly event: unknown;
  /** The key of the event, on a keyed topic. */
  readonly key?: string;
}

/** Rows, the oldest first. */
export interface Rows {
  readonly length: number;
  /** Number of dropped rows before the first one. It grows as old rows are dropped. */
  readonly start: number;
  at(index: number): Row | undefined;
}

/** Rows of a keyed topic. They change in place. */
export interface KeyedView extends Rows {
  /** Number of changes until now. */
  readonly changes: number;
  /** Returns the rows as they are now. */
  snapshot(): KeyedView;
}

/** Returns whether the rows are those of a keyed topic. */
export function isKeyed(rows: Rows): rows is KeyedView {
  return "changes" in rows;
}
