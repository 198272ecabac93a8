/**
 * Finds the offsets of the first and last row, and the first due time, of Arrow frames in a streamed body. Only these
 * few bytes of the body are copied. Pure.
 *
 * @typedef {{ first: number, last: number, dueUs: number, bytes: number }} FrameHead - `bytes` is the size of the frame
 *   and of the dictionaries before it.
 */

/** Prefix of a message: a mark and the length of its metadata. */
const PREFIX_BYTES = 8;
/** The number of `RecordBatch` in `Message.fbs`. */
const RECORD_BATCH = 3;
/** Size of a buffer's description: offset and length. */
const PLACE_BYTES = 16;
/** The column with the due time, after the offsets. Columns of numbers have two buffers each. */
const DUE_COLUMN = 2;

class FrameHeads {
  /** @param {(head: FrameHead) => void} onFrame */
  constructor(onFrame) {
    this.onFrame = onFrame;
    this.prefix = new DataView(new ArrayBuffer(PREFIX_BYTES));
    /** @type {DataView} The bytes that are collected, a prefix or metadata, and their number. */
    this.collected = this.prefix;
    this.filled = 0;
    /** Bytes of the body still to come, and received so far. */
    this.left = 0;
    this.passed = 0;
    /** Places in the body at which 8 bytes are needed, and these bytes. @type {number[]} */
    this.wanted = [];
    this.values = new DataView(new ArrayBuffer(24));
    this.bytes = 0;
  }

  /** @param {Uint8Array} piece - the next piece of a response body. */
  push(piece) {
    let at = 0;
    while (at < piece.length) {
      if (this.left > 0) {
        const size = Math.min(this.left, piece.length - at);
        this.body(piece, at, size);
        at += size;
        continue;
      }
      const { collected } = this;
      const size = Math.min(collected.byteLength - this.filled, piece.length - at);
      new Uint8Array(collected.buffer).set(piece.subarray(at, at + size), this.filled);
      this.filled += size;
      this.bytes += size;
      at += size;
      if (this.filled === collected.byteLength) this.whole(collected);
    }
  }

  /** @param {DataView} collected */
  whole(collected) {
    this.filled = 0;
    if (collected === this.prefix) {
      const length = collected.getInt32(4, true);
      // A message without metadata is the end of the stream.
      if (length > 0) this.collected = new DataView(new ArrayBuffer(length));
      return;
    }
    this.collected = this.prefix;
    const message = new Flat(collected, collected.getUint32(0, true));
    this.left = message.long(3);
    this.passed = 0;
    this.wanted = [];
    const batch = message.byte(1) === RECORD_BATCH ? message.table(2) : null;
    const count = batch?.long(0) ?? 0;
    if (batch && count > 0) {
      const values = (/** @type {number} */ column) => batch.place(2, 2 * column + 1);
      this.wanted = [values(0), values(0) + 8 * (count - 1), values(DUE_COLUMN)];
    }
  }

  /** @param {Uint8Array} piece @param {number} at @param {number} size */
  body(piece, at, size) {
    const { passed } = this;
    this.wanted.forEach((place, index) => {
      for (let byte = Math.max(place, passed); byte < Math.min(place + 8, passed + size); byte++) {
        this.values.setUint8(8 * index + byte - place, /** @type {number} */ (piece[at + byte - passed]));
      }
    });
    this.passed += size;
    this.left -= size;
    this.bytes += size;
    if (this.left > 0 || this.wanted.length === 0) return;
    const [first = 0, last = 0, dueUs = 0] = [0, 8, 16].map((offset) => Number(this.values.getBigInt64(offset, true)));
    const { bytes } = this;
    this.bytes = 0;
    this.wanted = [];
    this.onFrame({ first, last, dueUs, bytes });
  }
}

/** A table of a flatbuffer. */
class Flat {
  /** @param {DataView} view @param {number} at */
  constructor(view, at) {
    this.view = view;
    this.at = at;
  }

  /** Returns the place of a field; 0 if it has its default. @param {number} number */
  field(number) {
    const table = this.at - this.view.getInt32(this.at, true);
    const entry = 4 + 2 * number;
    const offset = entry < this.view.getUint16(table, true) ? this.view.getUint16(table + entry, true) : 0;
    return offset && this.at + offset;
  }

  /** @param {number} number */
  byte(number) {
    const at = this.field(number);
    return at ? this.view.getUint8(at) : 0;
  }

  /** @param {number} number */
  long(number) {
    const at = this.field(number);
    return at ? Number(this.view.getBigInt64(at, true)) : 0;
  }

  /** @param {number} number */
  table(number) {
    const at = this.field(number);
    return at ? new Flat(this.view, at + this.view.getUint32(at, true)) : null;
  }

  /** Returns the offset of a buffer in a vector of buffers. @param {number} number @param {number} index */
  place(number, index) {
    const at = this.field(number);
    const vector = at + this.view.getUint32(at, true);
    return Number(this.view.getBigInt64(vector + 4 + PLACE_BYTES * index, true));
  }
}
