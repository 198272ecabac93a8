/** The newest event of each key of a keyed topic, in the order in which the keys came. Pure. */

import type { Events } from "./events.js";
import type { KeyedView, Row } from "./rows.js";

interface Held extends Row {
  readonly key: string;
  /** Approximate size on the wire, bytes. */
  readonly bytes: number;
}

/** Number of removed rows beyond which the array is compacted even if nobody reads it. */
const SLACK = 1024;

export class KeyedRows implements KeyedView {
  readonly start = 0;
  readonly #capacity: number;
  readonly #bytesMax: number;
  /** Removed rows leave holes until the next read. */
  #rows: (Held | undefined)[] = [];
  /** The place of each key in `#rows`. A key keeps its place while it exists. */
  readonly #places = new Map<string, number>();
  #bytes = 0;
  #count = 0;
  #changes = 0;

  /** @param bytesMax - maximum size of the rows on the wire; a single row may be larger. */
  constructor(capacity: number, bytesMax = Infinity) {
    this.#capacity = capacity;
    this.#bytesMax = bytesMax;
  }

  get length(): number {
    return this.#places.size;
  }

  /** Number of events ever received. */
  get count(): number {
    return this.#count;
  }

  get changes(): number {
    return this.#changes;
  }

  /** Replaces the rows of these keys. The event `null` removes its key. */
  push(events: Events, keys: readonly string[], bytes: number): void {
    for (let index = 0; index < events.length; index++) {
      const [key, event] = [keys[index] as string, events.event(index)];
      if (event === null) this.#remove(key);
      else this.#set({ key, event, offset: events.offset(index), bytes: bytes / events.length });
    }
    this.#count += events.length;
    this.#changes += 1;
    for (const oldest of this.#places.keys()) {
      if (this.length <= this.#capacity && (this.#bytes <= this.#bytesMax || this.length === 1)) break;
      this.#remove(oldest);
    }
    if (this.#rows.length > 2 * this.length + SLACK) this.#compact();
  }

  /** Removes all keys. */
  clear(): void {
    this.#rows = [];
    this.#places.clear();
    this.#bytes = 0;
    this.#changes += 1;
  }

  at(index: number): Row | undefined {
    this.#compact();
    return this.#rows[index];
  }

  snapshot(): KeyedView {
    this.#compact();
    const [rows, { changes }] = [[...this.#rows], this];
    const view = { start: 0, length: rows.length, changes, at: (index: number) => rows[index], snapshot: () => view };
    return view;
  }

  #set(row: Held): void {
    const place = this.#places.get(row.key) ?? this.#rows.length;
    this.#bytes += row.bytes - (this.#rows[place]?.bytes ?? 0);
    this.#places.set(row.key, place);
    this.#rows[place] = row;
  }

  #remove(key: string): void {
    const place = this.#places.get(key);
    if (place === undefined) return;
    this.#bytes -= this.#rows[place]?.bytes ?? 0;
    this.#rows[place] = undefined;
    this.#places.delete(key);
  }

  #compact(): void {
    if (this.#rows.length === this.length) return;
    const rows = this.#rows.filter((row) => row !== undefined);
    rows.forEach(({ key }, place) => void this.#places.set(key, place));
    this.#rows = rows;
  }
}
