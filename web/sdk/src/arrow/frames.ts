/**
 * Messages of one stream, taken together to frames: the newest dictionary of each column, and a
 * record batch. Each frame becomes a table of its own, whose columns are views of its bytes. Pure.
 *
 * The tables are flechette's. It would read the messages, too; but of a whole stream at once, and
 * of each frame the schema again, and it believes whatever lengths they have.
 */

import { Column, Table } from "@uwdata/flechette";
import { Body } from "./body.js";
import { DICTIONARY, type IpcMessage, RECORDS, SCHEMA } from "./messages.js";
import { type Schema, schema } from "./schema.js";

/** What a record batch has come to. */
export interface Frame {
  readonly schema: Schema;
  readonly table: Table;
  /** Rows. Without any it says that a subscription is confirmed, or alive. */
  readonly count: number;
  /** Offsets of the first and the last row; 0 without rows. */
  readonly first: number;
  readonly last: number;
  /** The custom metadata of the record batch. */
  readonly metadata: ReadonlyMap<string, string>;
  /** Of all messages since the frame before. */
  readonly bytes: number;
}

/** Messages go in, in order; frames come out. */
export class Frames {
  readonly #reuses: boolean;
  #schema: Schema | null = null;
  readonly #dictionaries = new Map<number, Column<string>>();
  #bytes = 0;

  /** @param reuses - whether the memory of messages is used again: then dictionaries wait for theirs elsewhere. */
  constructor(reuses = false) {
    this.#reuses = reuses;
  }

  /**
   * @returns a frame, if this message ends one.
   * @throws TypeError or RangeError if a stream of a Thalweg server has no such message.
   */
  take({ kind, header, body, metadata, bytes }: IpcMessage): Frame | null {
    this.#bytes += bytes;
    if (kind === SCHEMA && !this.#schema) {
      this.#schema = schema(header);
      return null;
    }
    if (kind === DICTIONARY && this.#schema) {
      const data = header.table(1);
      if (!data || header.byte(2)) throw new TypeError("a dictionary is not a whole one");
      const texts = this.#reuses ? body.slice() : body;
      this.#dictionaries.set(header.long(0), new Body(data, texts).texts());
      return null;
    }
    if (kind !== RECORDS || !this.#schema) throw new TypeError(`a message of kind ${kind} is out of place`);
    const frame = this.#frame(this.#schema, new Body(header, body));
    this.#bytes = 0;
    return { ...frame, metadata };
  }

  #frame(its: Schema, body: Body): Omit<Frame, "metadata"> {
    const { count } = body;
    const columns = its.fields.map(({ type }) =>
      count ? body.column(type, this.#dictionaries) : new Column<unknown>([], type),
    );
    const offsets = columns[0] as Column<number>;
    return {
      schema: its,
      table: new Table(its, columns),
      count,
      first: count && (offsets.at(0) as number),
      last: count && (offsets.at(count - 1) as number),
      bytes: this.#bytes,
    };
  }
}
