/** The body of a record batch: columns as views of its bytes, each checked to be within bounds. Pure. */

import { type Column, type DataType, Type, utf8 } from "@uwdata/flechette";
import { DoubleBatch, FlagBatch, FrameColumn, LongBatch, TextBatch, TextKeyBatch } from "./batches.js";
import { type FlatTable, long, type Vector } from "./flatbuffer.js";

/** Size of a pair of 64-bit integers: a node (rows, nulls), or a buffer (offset, length). */
const PAIR_BYTES = 16;

const NONE = new Uint8Array(0);

/** The constructor of a typed array. */
interface Kind<T> {
  readonly BYTES_PER_ELEMENT: number;
  new (buffer: ArrayBuffer, offset: number, length: number): T;
}

/** Reads columns in the order of the schema. All methods throw a RangeError if a column is missing or out of bounds. */
export class Body {
  readonly count: number;
  readonly #bytes: Uint8Array<ArrayBuffer>;
  readonly #nodes: Vector;
  readonly #places: Vector;
  #node = 0;
  #place = 0;

  /** @param header - the `RecordBatch` that describes the bytes. */
  constructor(header: FlatTable, bytes: Uint8Array<ArrayBuffer>) {
    if (header.table(3)) throw new RangeError("a record batch is compressed");
    this.count = header.long(0);
    this.#bytes = bytes;
    this.#nodes = header.vector(1, PAIR_BYTES);
    this.#places = header.vector(2, PAIR_BYTES);
  }

  /** @param dictionaries - texts of dictionaries, by dictionary id. */
  column(type: DataType, dictionaries: ReadonlyMap<number, Column<string>>): Column<unknown> {
    const { count } = this;
    if (type.typeId === Type.Null) {
      // A column of nulls has no buffers and no validity bits. A missing bit counts as null.
      this.#head();
      return new FrameColumn([new FlagBatch({ type, length: count, nullCount: count, validity: NONE, values: NONE })]);
    }
    const node = { type, ...this.#next() };
    switch (type.typeId) {
      case Type.Int:
      case Type.Timestamp:
        return new FrameColumn([new LongBatch({ ...node, values: this.#array(Int32Array, 2 * count) })]);
      case Type.Float:
        return new FrameColumn([new DoubleBatch({ ...node, values: this.#array(Float64Array, count) })]);
      case Type.Bool:
        return new FrameColumn([new FlagBatch({ ...node, values: this.#array(Uint8Array, bits(count)) })]);
      case Type.Dictionary: {
        const texts = dictionaries.get((type as { id: number }).id);
        if (!texts) throw new RangeError("a dictionary is missing");
        return new FrameColumn([new TextKeyBatch({ ...node, values: this.#array(Int32Array, count) }, texts)]);
      }
      default:
        return new FrameColumn([this.#texts(node)]);
    }
  }

  /** Returns the texts of a dictionary: its only column. */
  texts(): Column<string> {
    return new FrameColumn([this.#texts({ type: utf8(), ...this.#next() })]);
  }

  #texts(node: Node & { type: DataType }): TextBatch {
    const offsets = this.#array(Int32Array, node.length && node.length + 1);
    return new TextBatch({ ...node, offsets, values: this.#array(Uint8Array) });
  }

  /** Reads the node and the validity bits of the next column. */
  #next(): Node {
    const nullCount = this.#head();
    // A column without nulls may have no validity bits.
    const validity = this.#array(Uint8Array, nullCount ? bits(this.count) : 0);
    return { length: this.count, nullCount, validity };
  }

  /** Reads the next column's node. Returns its number of nulls. */
  #head(): number {
    const [rows, nulls] = pair(this.#nodes, this.#node++);
    if (rows !== this.count) throw new RangeError("a column of a record batch has a wrong length");
    return nulls;
  }

  /** Reads the next buffer. @param least - required number of elements; further elements are ignored. */
  #array<T>(kind: Kind<T>, least?: number): T {
    const [offset, size] = pair(this.#places, this.#place++);
    const { buffer, byteOffset, byteLength } = this.#bytes;
    const count = least ?? size / kind.BYTES_PER_ELEMENT;
    if (!(offset >= 0 && size >= count * kind.BYTES_PER_ELEMENT && offset + size <= byteLength)) {
      throw new RangeError("a buffer of a record batch is out of bounds");
    }
    return new kind(buffer, byteOffset + offset, count);
  }
}

interface Node {
  readonly length: number;
  readonly nullCount: number;
  readonly validity: Uint8Array;
}

function pair({ view, at, length }: Vector, index: number): [number, number] {
  if (index >= length) throw new RangeError("a record batch has too few columns");
  const place = at + PAIR_BYTES * index;
  return [long(view, place), long(view, place + 8)];
}

function bits(count: number): number {
  return Math.ceil(count / 8);
}
