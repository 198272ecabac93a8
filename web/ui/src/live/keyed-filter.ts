/** Filters and sorts the rows of a keyed topic in steps. Shows the last complete result. Pure: the clock is a parameter. */

import type { Column } from "./columns.js";
import { SORT_MS, SORT_SHARE, STRIDE } from "./incremental-filter.js";
import type { KeyedView, Row, Rows } from "./rows.js";
import { type Filter, type Sorting, sort } from "./view.js";

/** A search through the rows, which may take several steps. */
interface Scan {
  /** The rows as they were when the search began. */
  readonly rows: Rows;
  readonly found: Row[];
  /** Index of the next row to test. */
  next: number;
  tookMs: number;
}

export class KeyedFilter implements Rows {
  readonly start = 0;
  readonly #rows: KeyedView;
  readonly #test: Filter | null;
  readonly #column: Column | undefined;
  readonly #isDescending: boolean;
  #scan: Scan | null = null;
  #shown: readonly Row[] = [];
  /** Number of changes of the rows that the result includes. */
  #changes = -1;
  #scanAtMs = -Infinity;

  constructor(rows: KeyedView, test: Filter | null, sorting: Sorting | null, columns: readonly Column[]) {
    this.#rows = rows;
    this.#test = test;
    this.#column = columns.find(({ name }) => name === sorting?.by);
    this.#isDescending = sorting?.isDescending ?? false;
  }

  get length(): number {
    return this.#shown.length;
  }

  at(index: number): Row | undefined {
    return this.#shown[index];
  }

  /** Continues for about `budgetMs`. Returns whether there is nothing to do at this time. */
  step(clock: () => number, budgetMs: number): boolean {
    const begunMs = clock();
    if (!this.#scan) {
      if (this.#rows.changes === this.#changes || begunMs < this.#scanAtMs) return true;
      this.#changes = this.#rows.changes;
      this.#scan = { rows: this.#rows.snapshot(), found: [], next: 0, tookMs: 0 };
    }
    const scan = this.#scan;
    const { rows, found } = scan;
    while (scan.next < rows.length) {
      const end = Math.min(rows.length, scan.next + STRIDE);
      for (; scan.next < end; scan.next++) {
        const row = rows.at(scan.next);
        if (row && (!this.#test || this.#test(row.event, row.key))) found.push(row);
      }
      if (clock() - begunMs >= budgetMs) break;
    }
    const isOver = scan.next >= rows.length;
    if (isOver) {
      this.#shown = this.#column ? sort(found, this.#column, this.#isDescending) : found;
      this.#scan = null;
    }
    const nowMs = clock();
    scan.tookMs += nowMs - begunMs;
    if (isOver) this.#scanAtMs = nowMs + Math.max(this.#column ? SORT_MS : 0, scan.tookMs / SORT_SHARE);
    return isOver;
  }
}
