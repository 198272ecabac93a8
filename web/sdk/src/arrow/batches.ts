/**
 * Values of columns, which flechette's own classes would read ten times as slowly: 64-bit integers
 * without `BigInt`, texts decoded all at once, and of a dictionary nothing before somebody reads it.
 * Pure.
 */

import { Batch, Column, type ValueArray } from "@uwdata/flechette";
import { decoder } from "./flatbuffer.js";

type Options<Values> = Omit<ConstructorParameters<typeof Batch>[0], "values"> & { values: Values };

/** Values of one column. What is `null` has a value that means nothing. */
abstract class Values<T, Stored> extends Batch<T> {
  declare readonly values: Stored & Batch<T>["values"];

  constructor(options: Options<Stored>) {
    super(options as never);
  }

  /** All of them, in the fastest way that there is. */
  all(): ValueArray<T | null> {
    if (!this.nullCount) return this.read();
    const { length, validity } = this;
    const values = this.read();
    const array = new Array<T | null>(length);
    for (let index = 0; index < length; index++) {
      array[index] = bit(validity, index) ? (values[index] as T) : null;
    }
    return array;
  }

  /** As if none were `null`. */
  protected read(): ValueArray<T> {
    const array = new Array<T>(this.length);
    for (let index = 0; index < array.length; index++) array[index] = this.value(index) as T;
    return array;
  }
}

/** A column of one batch. */
export class FrameColumn<T> extends Column<T> {
  override toArray(): ValueArray<T | null> {
    return (this.data[0] as Values<T, unknown>).all();
  }
}

export class DoubleBatch extends Values<number, Float64Array> {
  protected override read(): Float64Array {
    return this.values;
  }
}

/**
 * 64-bit integers, and times in ms, stored as pairs of 32-bit ones. Those beyond 2⁵³ are rounded,
 * as they are by `JSON.parse`.
 */
export class LongBatch extends Values<number, Int32Array> {
  override value(index: number): number {
    return long(this.values, index);
  }

  protected override read(): Float64Array {
    const { values, length } = this;
    const array = new Float64Array(length);
    for (let index = 0; index < length; index++) array[index] = long(values, index);
    return array;
  }
}

function long(halves: Int32Array, index: number): number {
  return ((halves[2 * index] as number) >>> 0) + (halves[2 * index + 1] as number) * 2 ** 32;
}

/** A bit each. */
export class FlagBatch extends Values<boolean, Uint8Array> {
  override value(index: number): boolean {
    return bit(this.values, index);
  }
}

function bit(bits: Uint8Array, index: number): boolean {
  return (((bits[index >> 3] as number) >> (index & 7)) & 1) === 1;
}

/** Texts. Where all are ASCII they are decoded at once, and cut out of that. */
export class TextBatch extends Values<string, Uint8Array> {
  declare readonly offsets: Int32Array;
  /** All texts in one; `null`: a character is not always a byte. */
  #whole: string | null | undefined;

  override value(index: number): string {
    const [begin = 0, end = 0] = [this.offsets[index], this.offsets[index + 1]];
    if (this.#whole === undefined) this.#whole = this.#decode();
    return this.#whole?.slice(begin, end) ?? decoder.decode(this.values.subarray(begin, end));
  }

  #decode(): string | null {
    const bytes = this.values.subarray(0, this.offsets[this.length]);
    const text = decoder.decode(bytes);
    return text.length === bytes.length ? text : null;
  }
}

/** Texts by their numbers in a dictionary. Most columns of texts are these: all are read without a call for each. */
export class TextKeyBatch extends Values<string, Int32Array> {
  readonly dictionary: Column<string>;
  #texts: ValueArray<string | null> | undefined;

  constructor(options: Options<Int32Array>, dictionary: Column<string>) {
    super(options);
    this.dictionary = dictionary;
  }

  override value(index: number): string {
    return this.#known()[this.values[index] as number] as string;
  }

  protected override read(): string[] {
    const { values, length } = this;
    const known = this.#known();
    const array = new Array<string>(length);
    for (let index = 0; index < length; index++) array[index] = known[values[index] as number] as string;
    return array;
  }

  #known(): ValueArray<string | null> {
    return (this.#texts ??= this.dictionary.toArray());
  }
}
