/** The newest rows of a topic, up to a limit. Batches are stored as received; rows are created on access. Pure. */

import { type Events, isSparse, PublishedEvents } from "./events.js";
import type { Row, Rows } from "./rows.js";

/** A stored batch. */
interface Piece {
  /** Number of the first event, counted from the first row ever received. */
  readonly number: number;
  readonly events: Events;
  bytes: number;
}

/** Small batches merged into one piece that can still grow. */
interface Gathered {
  readonly first: number;
  readonly events: unknown[];
  readonly piece: Piece;
}

/**
 * Batches with fewer events than this are merged if their offsets are consecutive, because a piece takes as
 * much memory as ten rows.
 */
const PIECE_MIN = 64;
/** Replaces a dropped piece, so that its events can be freed at once. */
const GONE: Piece = { number: 0, events: new PublishedEvents(0, []), bytes: 0 };
/** The array is compacted when it has this many dropped pieces. */
const SLACK = 1024;

export class Ring implements Rows {
  readonly #capacity: number;
  readonly #bytesMax: number;
  #pieces: Piece[] = [];
  /** The newest piece, if it can still grow. */
  #gathered: Gathered | null = null;
  #head = 0;
  #count = 0;
  #bytes = 0;

  /** @param bytesMax - maximum size of the rows on the wire; a single batch may be larger. */
  constructor(capacity: number, bytesMax = Infinity) {
    this.#capacity = capacity;
    this.#bytesMax = bytesMax;
  }

  get length(): number {
    return Math.min(this.#count - (this.#pieces[this.#head]?.number ?? 0), this.#capacity);
  }

  get start(): number {
    return this.#count - this.length;
  }

  /** Number of rows ever received. */
  get count(): number {
    return this.#count;
  }

  push(events: Events, bytes: number): void {
    if (!events.length) return;
    if (events.length < PIECE_MIN) this.#gather(events, bytes);
    else {
      this.#gathered = null;
      this.#pieces.push({ number: this.#count, events, bytes });
    }
    this.#count += events.length;
    this.#bytes += bytes;
    this.#makeRoom();
  }

  /** Iterates over the batches, with the number of each batch's first row. That row may have been dropped. */
  *batches(): Generator<readonly [number: number, events: Events]> {
    for (let at = this.#head; at < this.#pieces.length; at++) {
      const { number, events } = this.#pieces[at] as Piece;
      yield [number, events];
    }
  }

  at(index: number): Row | undefined {
    return index < 0 || index >= this.length ? undefined : row(this.#pieces, this.#head, this.start + index);
  }

  snapshot(): Rows {
    const { length, start } = this;
    const pieces = this.#pieces.slice(this.#head);
    return { length, start, at: (index) => (index < 0 || index >= length ? undefined : row(pieces, 0, start + index)) };
  }

  /** Copies the events of a small batch, so that a larger buffer that holds them can be freed. */
  #gather(few: Events, bytes: number): void {
    const isConsecutive = !isSparse(few);
    const [first, last] = [few.offset(0), this.#gathered];
    const isNext = isConsecutive && last && last.first + last.events.length === first;
    if (isNext && last.events.length + few.length <= PIECE_MIN) {
      for (let index = 0; index < few.length; index++) last.events.push(few.event(index));
      last.piece.bytes += bytes;
      return;
    }
    const events = Array.from({ length: few.length }, (_, index) => few.event(index));
    const offsets = isConsecutive ? undefined : events.map((_, index) => few.offset(index));
    const piece = { number: this.#count, events: new PublishedEvents(first, events, offsets), bytes };
    this.#gathered = isConsecutive ? { first, events, piece } : null;
    this.#pieces.push(piece);
  }

  #makeRoom(): void {
    for (;;) {
      const oldest = this.#pieces[this.#head];
      const next = this.#pieces[this.#head + 1];
      if (!oldest || !next) break;
      if (this.#count - next.number < this.#capacity && this.#bytes <= this.#bytesMax) break;
      this.#bytes -= oldest.bytes;
      this.#pieces[this.#head] = GONE;
      this.#head += 1;
    }
    if (this.#head > SLACK && this.#head > this.#pieces.length / 2) {
      this.#pieces = this.#pieces.slice(this.#head);
      this.#head = 0;
    }
  }
}

/** Returns the row with this number from the pieces at and after index `low`. */
function row(pieces: readonly Piece[], low: number, number: number): Row | undefined {
  let high = pieces.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if ((pieces[middle] as Piece).number <= number) low = middle;
    else high = middle - 1;
  }
  const piece = pieces[low];
  if (!piece) return undefined;
  const index = number - piece.number;
  return { offset: piece.events.offset(index), event: piece.events.event(index) };
}
