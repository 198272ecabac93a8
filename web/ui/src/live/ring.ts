/**
 * The newest rows of a topic, a bounded number: the oldest make room. Batches are kept as
 * they came; a row is made when somebody looks at it. Pure.
 */

import { type Events, isSparse, PublishedEvents } from "./events.js";
import type { Row, Rows } from "./rows.js";

/** Events as they came. */
interface Piece {
  /** Of the first of them, counted from the first row that ever was. */
  readonly number: number;
  readonly events: Events;
  bytes: number;
}

/** Events that were put together, to which others can be added. */
interface Gathered {
  readonly first: number;
  readonly events: unknown[];
  readonly piece: Piece;
}

/** Batches that are smaller are put together where offsets are consecutive: a piece costs about as much as ten rows. */
const PIECE_MIN = 64;
/** Stands where one was that has made room, so that its events can be forgotten at once. */
const GONE: Piece = { number: 0, events: new PublishedEvents(0, []), bytes: 0 };
/** Places of dropped pieces that are worth moving the others for. */
const SLACK = 1024;

export class Ring implements Rows {
  readonly #capacity: number;
  readonly #bytesMax: number;
  #pieces: Piece[] = [];
  /** What the newest piece is of, if others can be added. */
  #gathered: Gathered | null = null;
  /** Pieces before it have made room. */
  #head = 0;
  #count = 0;
  #bytes = 0;

  /**
   * @param capacity - rows that it holds at most.
   * @param bytesMax - and bytes that they had on the wire; one batch may be larger.
   */
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

  /** Rows that ever were. */
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

  /** All that are here, batch by batch, and the number of the first of each, which may have made room. */
  *batches(): Generator<readonly [number: number, events: Events]> {
    for (let at = this.#head; at < this.#pieces.length; at++) {
      const { number, events } = this.#pieces[at] as Piece;
      yield [number, events];
    }
  }

  at(index: number): Row | undefined {
    return index < 0 || index >= this.length ? undefined : row(this.#pieces, this.#head, this.start + index);
  }

  /** All that are here, as they are now; others may come meanwhile. */
  snapshot(): Rows {
    const { length, start } = this;
    const pieces = this.#pieces.slice(this.#head);
    return { length, start, at: (index) => (index < 0 || index >= length ? undefined : row(pieces, 0, start + index)) };
  }

  /** Few events are taken out of their batch: it may be much larger than they are. */
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

/** The row of this number, which is in one of the pieces from `low` on. */
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
