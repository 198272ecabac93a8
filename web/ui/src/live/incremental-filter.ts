/** Filters and sorts rows in steps: 100,000 rows at once would block the page. Pure: the clock is a parameter. */

import type { Column } from "./columns.js";
import type { Row, Rows } from "./rows.js";
import { type Filter, type Sorting, sort } from "./view.js";

/** Rows between two reads of the clock. */
export const STRIDE = 256;
/** Shortest time between two sorts, and the largest share of the time that sorting may take. */
export const SORT_MS = 1000;
export const SORT_SHARE = 1 / 20;

interface Found extends Row {
  /** Number of the row, counted from the first row ever received. */
  readonly number: number;
}

export class IncrementalFilter implements Rows {
  readonly #rows: Rows;
  readonly #test: Filter | null;
  readonly #column: Column | undefined;
  readonly #isDescending: boolean;
  /** Number of the next row to test. */
  #next: number;
  #found: Found[] = [];
  /** Number of dropped rows at the beginning of `#found`. */
  #head = 0;
  #dropped = 0;
  #sorted: Row[] | null = null;
  #isSorted = false;
  #sortAtMs = -Infinity;

  constructor(rows: Rows, test: Filter | null, sorting: Sorting | null, columns: readonly Column[]) {
    this.#rows = rows;
    this.#test = test;
    this.#column = columns.find(({ name }) => name === sorting?.by);
    this.#isDescending = sorting?.isDescending ?? false;
    this.#next = rows.start;
  }

  get length(): number {
    return this.#sorted?.length ?? this.#found.length - this.#head;
  }

  get start(): number {
    return this.#sorted ? 0 : this.#dropped;
  }

  at(index: number): Row | undefined {
    return this.#sorted ? this.#sorted[index] : this.#found[this.#head + index];
  }

  /** Continues for about `budgetMs`. Returns whether all rows have been tested. */
  step(clock: () => number, budgetMs: number): boolean {
    const begunMs = clock();
    const rows = this.#rows;
    this.#makeRoom();
    this.#next = Math.max(this.#next, rows.start);
    const end = rows.start + rows.length;
    while (this.#next < end) {
      const most = Math.min(end, this.#next + STRIDE);
      for (; this.#next < most; this.#next++) {
        const row = rows.at(this.#next - rows.start);
        if (!row || (this.#test && !this.#test(row.event))) continue;
        this.#found.push({ number: this.#next, offset: row.offset, event: row.event });
        this.#isSorted = false;
      }
      if (clock() - begunMs >= budgetMs) break;
    }
    if (this.#next < end) return false;
    this.#sort(clock);
    return true;
  }

  #sort(clock: () => number): void {
    const nowMs = clock();
    if (!this.#column || this.#isSorted || nowMs < this.#sortAtMs) return;
    this.#sorted = sort(this.#found.slice(this.#head), this.#column, this.#isDescending);
    this.#isSorted = true;
    const tookMs = clock() - nowMs;
    this.#sortAtMs = nowMs + Math.max(SORT_MS, tookMs / SORT_SHARE);
  }

  #makeRoom(): void {
    const { start } = this.#rows;
    while ((this.#found[this.#head]?.number ?? Infinity) < start) {
      this.#head += 1;
      this.#dropped += 1;
      this.#isSorted = false;
    }
    if (this.#head > STRIDE && this.#head > this.#found.length / 4) {
      this.#found = this.#found.slice(this.#head);
      this.#head = 0;
    }
  }
}
