/**
 * An Arrow IPC stream, taken apart into its messages as bytes come
 * (https://arrow.apache.org/docs/format/Columnar.html#encapsulated-message-format). Each byte is
 * copied once, and again whenever memory is full before its message is complete. Pure.
 */

import { FlatTable } from "./flatbuffer.js";

/** What a message is, as `MessageHeader` of Arrow's `Message.fbs` has it. */
export const SCHEMA = 1;
export const DICTIONARY = 2;
export const RECORDS = 3;

/** One message. What is in it must be read before others are asked for. */
export interface IpcMessage {
  /** One of the above, or a kind that is not known here. */
  readonly kind: number;
  /** The table that describes it: `Schema`, `DictionaryBatch` or `RecordBatch`. */
  readonly header: FlatTable;
  /** Begins at a multiple of 8 bytes. It stays as it is, unless memory is used again: until bytes are pushed. */
  readonly body: Uint8Array<ArrayBuffer>;
  /** The custom metadata of this message. */
  readonly metadata: ReadonlyMap<string, string>;
  /** All of its bytes. */
  readonly bytes: number;
}

/**
 * A message is never larger, bytes: eight times the history that a server keeps of a topic, unless
 * it is told otherwise.
 */
const MESSAGE_BYTES_MAX = 64 * 1024 * 1024;
/** Nor what describes it, bytes: a schema of thousands of columns has less. */
const HEAD_BYTES_MAX = 1024 * 1024;
/**
 * Memory that messages are put together in, bytes. Tables keep it for as long as they live: where
 * little comes it is little.
 */
const MEMORY_BYTES_MIN = 4 * 1024;
const MEMORY_BYTES_MAX = 256 * 1024;
/** It has room for so many pieces like the one that did not fit. */
const PIECES = 8;
/** Before each message: a mark, and the length of its head. */
const PREFIX_BYTES = 8;
const MARK = 0xffffffff;

/** Names of the fields of `Message` and `KeyValue`. */
const HEADER_TYPE = 1;
const HEADER = 2;
const BODY_LENGTH = 3;
const CUSTOM_METADATA = 4;
const KEY = 0;
const VALUE = 1;

/** Bytes go in, messages come out. */
export class Messages {
  readonly #reuses: boolean;
  #memory = new Uint8Array(0);
  #view = new DataView(this.#memory.buffer);
  /** Where the next message begins, and where the next byte goes. */
  #start = 0;
  #end = 0;
  /** Bytes that are needed to go on with the next message. */
  #needed = PREFIX_BYTES;
  #isOver = false;

  /** @param reuses - whether its memory is used again, once it is full of messages that were taken. */
  constructor(reuses = false) {
    this.#reuses = reuses;
  }

  /** Whether the stream has said that it ends. What comes behind it is not looked at. */
  get isOver(): boolean {
    return this.#isOver;
  }

  push(bytes: Uint8Array): void {
    if (bytes.length > this.#memory.length - this.#end) this.#makeRoom(bytes.length);
    this.#memory.set(bytes, this.#end);
    this.#end += bytes.length;
  }

  /**
   * The next message; `null` if it is not complete.
   *
   * @throws RangeError if the bytes are no Arrow stream, or a message is too large.
   */
  next(): IpcMessage | null {
    const start = this.#start;
    if (this.#isOver || this.#end - start < this.#needed) return null;
    const headLength = this.#headLength();
    if (!headLength) {
      this.#isOver = true;
      return null;
    }
    const bodyAt = start + PREFIX_BYTES + headLength;
    this.#needed = bodyAt - start;
    if (this.#end < bodyAt) return null;
    const message = FlatTable.root(this.#memory.subarray(start + PREFIX_BYTES, bodyAt));
    const bodyLength = message.long(BODY_LENGTH);
    this.#needed += check(bodyLength, MESSAGE_BYTES_MAX);
    if (this.#end - start < this.#needed) return null;
    const bytes = this.#needed;
    this.#start += bytes;
    this.#needed = PREFIX_BYTES;
    const header = message.table(HEADER);
    if (!header) throw new RangeError("a message of Arrow has no header");
    return {
      kind: message.byte(HEADER_TYPE),
      header,
      body: this.#memory.subarray(bodyAt, bodyAt + bodyLength),
      metadata: metadata(message, CUSTOM_METADATA),
      bytes,
    };
  }

  #headLength(): number {
    const mark = this.#view.getUint32(this.#start, true);
    if (mark !== MARK) throw new RangeError("this is no Arrow stream");
    return check(this.#view.getInt32(this.#start + 4, true), HEAD_BYTES_MAX);
  }

  /** Takes the message that has begun along. Grows with what has come, not with what is announced. */
  #makeRoom(more: number): void {
    const begun = this.#memory.subarray(this.#start, this.#end);
    const needed = begun.length + more;
    if (this.#reuses && needed <= this.#memory.length) {
      this.#memory.copyWithin(0, this.#start, this.#end);
      [this.#start, this.#end] = [0, begun.length];
      return;
    }
    const ample = Math.min(PIECES * needed, MEMORY_BYTES_MAX);
    this.#memory = new Uint8Array(Math.max(ample, needed + begun.length, MEMORY_BYTES_MIN));
    this.#view = new DataView(this.#memory.buffer);
    this.#memory.set(begun);
    this.#start = 0;
    this.#end = begun.length;
  }
}

/** Key-value pairs of a table. */
export function metadata(table: FlatTable, field: number): Map<string, string> {
  return new Map(table.tables(field).map((pair) => [pair.text(KEY), pair.text(VALUE)]));
}

/** All lengths are multiples of 8: so everything in memory begins at one. */
function check(length: number, most: number): number {
  if (!(length >= 0 && length <= most && length % 8 === 0)) {
    throw new RangeError(`a message of Arrow has a part of ${length} bytes`);
  }
  return length;
}
