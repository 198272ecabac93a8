/**
 * Flatbuffers (https://flatbuffers.dev/internals/), which describe the messages of an Arrow stream.
 * Whatever the bytes are, reading them ends: nothing outside of them can be read (a `DataView` throws
 * a RangeError), and a head that refers to the same bytes again and again is given up. Pure.
 */

/** The bytes of one flatbuffer. */
interface Head {
  readonly view: DataView;
  /** Bytes of vectors and texts that may still be read. An honest head has no more than it is long. */
  left: number;
}

/** Elements of a vector: how many, and where the first one is. */
export interface Vector {
  readonly view: DataView;
  readonly at: number;
  readonly length: number;
}

/** A table, and where it is referred to. The tables that are listed here have two fields at least. */
const TABLE_BYTES_MIN = 12;
const REFERENCE_BYTES = 4;

/** Texts of Arrow: what is there is text, a U+FEFF at its beginning too. */
export const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** A table: fields by their numbers, each of which may be missing. */
export class FlatTable {
  readonly #head: Head;
  readonly #at: number;
  readonly #fields: number;
  /** Bytes of the list of its fields. */
  readonly #size: number;

  private constructor(head: Head, at: number) {
    this.#head = head;
    this.#at = at;
    this.#fields = at - head.view.getInt32(at, true);
    this.#size = head.view.getUint16(this.#fields, true);
  }

  /** The table that these bytes are of. @throws RangeError if they are no flatbuffer; so do all others. */
  static root(bytes: Uint8Array): FlatTable {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    return new FlatTable({ view, left: view.byteLength }, view.getUint32(0, true));
  }

  byte(field: number): number {
    const at = this.#find(field);
    return at && this.#head.view.getUint8(at);
  }

  short(field: number): number {
    const at = this.#find(field);
    return at && this.#head.view.getInt16(at, true);
  }

  int(field: number): number {
    const at = this.#find(field);
    return at && this.#head.view.getInt32(at, true);
  }

  /** A 64-bit integer, rounded if it is beyond 2⁵³. */
  long(field: number): number {
    const at = this.#find(field);
    return at && long(this.#head.view, at);
  }

  table(field: number): FlatTable | null {
    const at = this.#find(field);
    return at ? this.#table(at) : null;
  }

  text(field: number): string {
    const found = this.#vector(field, 1);
    if (!found) return "";
    const { view, at, length } = found;
    return decoder.decode(new Uint8Array(view.buffer, view.byteOffset + at, length));
  }

  /** @param stride - bytes of each element. */
  vector(field: number, stride: number): Vector {
    return this.#vector(field, stride) ?? { view: this.#head.view, at: 0, length: 0 };
  }

  tables(field: number): FlatTable[] {
    const found = this.#vector(field, REFERENCE_BYTES, TABLE_BYTES_MIN);
    return Array.from({ length: found?.length ?? 0 }, (_, index) =>
      this.#table((found as Vector).at + REFERENCE_BYTES * index),
    );
  }

  /** @param more - bytes elsewhere that each element has at least. */
  #vector(field: number, stride: number, more = 0): Vector | null {
    const refers = this.#find(field);
    if (!refers) return null;
    const { view } = this.#head;
    const at = refers + view.getUint32(refers, true);
    const length = view.getUint32(at, true);
    this.#head.left -= length * (stride + more);
    if (this.#head.left < 0 || at + 4 + length * stride > view.byteLength) {
      throw new RangeError("a flatbuffer has more in it than it is long");
    }
    return { view, at: at + 4, length };
  }

  #table(refers: number): FlatTable {
    return new FlatTable(this.#head, refers + this.#head.view.getUint32(refers, true));
  }

  /** Where the field is; 0 if it is missing. */
  #find(field: number): number {
    const entry = 4 + 2 * field;
    if (entry >= this.#size) return 0;
    const offset = this.#head.view.getUint16(this.#fields + entry, true);
    return offset && this.#at + offset;
  }
}

/** A 64-bit integer at a place, rounded if it is beyond 2⁵³. */
export function long(view: DataView, at: number): number {
  return view.getUint32(at, true) + view.getInt32(at + 4, true) * 2 ** 32;
}
