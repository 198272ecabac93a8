/**
 * Flatbuffers (https://flatbuffers.dev/internals/), which describe the messages of an Arrow stream. Reading terminates
 * for all inputs: a `DataView` throws a RangeError outside of its bytes, and a flatbuffer that refers to the same
 * bytes again and again is rejected. Pure.
 */

interface Head {
  readonly view: DataView;
  /** Number of bytes of vectors and texts that may still be read: in a valid flatbuffer at most its length. */
  left: number;
}

/** Elements of a vector: their number, and the place of the first one. */
export interface Vector {
  readonly view: DataView;
  readonly at: number;
  readonly length: number;
}

/** Smallest size of a table in a vector, bytes. Such a table has at least two fields. */
const TABLE_BYTES_MIN = 12;
const REFERENCE_BYTES = 4;

/** Decoder for texts of Arrow. A U+FEFF at the beginning is part of the text. */
export const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** A table. Its fields have numbers, and each field may be missing. */
export class FlatTable {
  readonly #head: Head;
  readonly #at: number;
  readonly #fields: number;
  /** Size of the list of fields, bytes. */
  readonly #size: number;

  private constructor(head: Head, at: number) {
    this.#head = head;
    this.#at = at;
    this.#fields = at - head.view.getInt32(at, true);
    this.#size = head.view.getUint16(this.#fields, true);
  }

  /** Returns the root table. @throws RangeError, as all methods do, if the bytes are not a flatbuffer. */
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

  /** @param stride - size of an element, bytes. */
  vector(field: number, stride: number): Vector {
    return this.#vector(field, stride) ?? { view: this.#head.view, at: 0, length: 0 };
  }

  tables(field: number): FlatTable[] {
    const found = this.#vector(field, REFERENCE_BYTES, TABLE_BYTES_MIN);
    return Array.from({ length: found?.length ?? 0 }, (_, index) =>
      this.#table((found as Vector).at + REFERENCE_BYTES * index),
    );
  }

  /** @param more - minimum size of the data that each element refers to, bytes. */
  #vector(field: number, stride: number, more = 0): Vector | null {
    const refers = this.#find(field);
    if (!refers) return null;
    const { view } = this.#head;
    const at = refers + view.getUint32(refers, true);
    const length = view.getUint32(at, true);
    this.#head.left -= length * (stride + more);
    if (this.#head.left < 0 || at + 4 + length * stride > view.byteLength) {
      throw new RangeError("a flatbuffer refers to the same bytes repeatedly");
    }
    return { view, at: at + 4, length };
  }

  #table(refers: number): FlatTable {
    return new FlatTable(this.#head, refers + this.#head.view.getUint32(refers, true));
  }

  /** Returns the place of a field; 0 if it is missing. */
  #find(field: number): number {
    const entry = 4 + 2 * field;
    if (entry >= this.#size) return 0;
    const offset = this.#head.view.getUint16(this.#fields + entry, true);
    return offset && this.#at + offset;
  }
}

/** Returns the 64-bit integer at a place, rounded beyond 2⁵³. */
export function long(view: DataView, at: number): number {
  return view.getUint32(at, true) + view.getInt32(at + 4, true) * 2 ** 32;
}
