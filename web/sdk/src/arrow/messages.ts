/**
 * Splits an Arrow IPC stream into messages as bytes arrive
 * (https://arrow.apache.org/docs/format/Columnar.html#encapsulated-message-format). Each byte is copied once, and again
 * when the memory is full before a message is complete. Pure.
 */

import { FlatTable } from "./flatbuffer.js";

/** Kinds of messages, as in `MessageHeader` of Arrow's `Message.fbs`. */
export const SCHEMA = 1;
export const DICTIONARY = 2;
export const RECORDS = 3;

/** A message. Read its contents before you request the next one. */
export interface IpcMessage {
  /** One of the kinds above, or an unknown kind. */
  readonly kind: number;
  /** The table that describes the message: `Schema`, `DictionaryBatch` or `RecordBatch`. */
  readonly header: FlatTable;
  /** The body, aligned to 8 bytes. It does not change; if memory is reused, it is valid until the next push. */
  readonly body: Uint8Array<ArrayBuffer>;
  readonly metadata: ReadonlyMap<string, string>;
  readonly bytes: number;
}

/** Largest size of a message, bytes: eight times the server's default history per topic. */
const MESSAGE_BYTES_MAX = 64 * 1024 * 1024;
/** Largest size of a message's header, bytes. A schema of thousands of columns is smaller. */
const HEAD_BYTES_MAX = 1024 * 1024;
/** Smallest memory for messages, bytes. Tables keep this memory while they live, so it is small at low volume. */
const MEMORY_BYTES_MIN = 4 * 1024;
const MEMORY_BYTES_MAX = 256 * 1024;
/** New memory has room for this many pieces as large as the one that did not fit. */
const PIECES = 8;
/** Size of the prefix of each message: a mark, and the length of the header. */
const PREFIX_BYTES = 8;
const MARK = 0xffffffff;

/** Numbers of the fields of `Message` and `KeyValue`. */
const HEADER_TYPE = 1;
const HEADER = 2;
const BODY_LENGTH = 3;
const CUSTOM_METADATA = 4;
const KEY = 0;
const VALUE = 1;

export class Messages {
  readonly #reuses: boolean;
  #memory = new Uint8Array(0);
  #view = new DataView(this.#memory.buffer);
  /** The places at which the next message begins and the next byte is written. */
  #start = 0;
  #end = 0;
  /** Number of bytes needed to continue with the next message. */
  #needed = PREFIX_BYTES;
  #isOver = false;

  /** @param reuses - whether memory is reused after its messages have been taken. */
  constructor(reuses = false) {
    this.#reuses = reuses;
  }

  /** Whether the stream has signalled its end. Further bytes are ignored. */
  get isOver(): boolean {
    return this.#isOver;
  }

  push(bytes: Uint8Array): void {
    if (bytes.length > this.#memory.length - this.#end) this.#makeRoom(bytes.length);
    this.#memory.set(bytes, this.#end);
    this.#end += bytes.length;
  }

  /** Returns the next message; `null` if it is incomplete. @throws RangeError if it is invalid or too large. */
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
    if (!header) throw new RangeError("an Arrow message has no header");
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
    if (mark !== MARK) throw new RangeError("the data is not an Arrow stream");
    return check(this.#view.getInt32(this.#start + 4, true), HEAD_BYTES_MAX);
  }

  /** Moves the incomplete message to new memory, whose size depends on the received bytes and not on the announced length. */
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

export function metadata(table: FlatTable, field: number): Map<string, string> {
  return new Map(table.tables(field).map((pair) => [pair.text(KEY), pair.text(VALUE)]));
}

/** Checks a length. All lengths are multiples of 8, which aligns all parts. */
function check(length: number, most: number): number {
  if (!(length >= 0 && length <= most && length % 8 === 0)) {
    throw new RangeError(`an Arrow message has a part of ${length} bytes`);
  }
  return length;
}
