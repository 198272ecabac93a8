/**
 * The newest rows of a topic, a bounded number: the oldest make room. Batches are kept as
 * they came; a row is made when somebody looks at it. Pure.
 */

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

/** Events as they came. */
interface Piece {
  /** Of the first of them, counted from the first row that ever was. */
  readonly number: number;
  /** Offset of the first of them. */
  readonly first: number;
  readonly events: unknown[];
  /** Of each of them, if they are not consecutive. */
  readonly offsets?: readonly number[] | undefined;
  bytes: number;
}

/** Batches that are smaller are put together where offsets are consecutive: a piece costs about as much as ten rows. */
const PIECE_MIN = 64;
/** Stands where one was that has made room, so that its events can be forgotten at once. */
const GONE: Piece = { number: 0, first: 0, events: [], bytes: 0 };
/** Places of dropped pieces that are worth moving the others for. */
const SLACK = 1024;

export class Ring implements Rows {
  readonly #capacity: number;
  readonly #bytesMax: number;
  #pieces: Piece[] = [];
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

  push(first: number, events: readonly unknown[], bytes: number, offsets?: readonly number[]): void {
    if (!events.length) return;
    const last = this.#pieces.at(-1);
    const isNext = !offsets && last && last.first + last.events.length === first;
    if (isNext && last.events.length + events.length <= PIECE_MIN) {
      last.events.push(...events);
      last.bytes += bytes;
    } else {
      const own = events.length < PIECE_MIN ? [...events] : (events as unknown[]);
      this.#pieces.push({ number: this.#count, first, events: own, offsets, bytes });
    }
    this.#count += events.length;
    this.#bytes += bytes;
    this.#makeRoom();
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
  return { offset: piece.offsets?.[index] ?? piece.first + index, event: piece.events[index] };
}
