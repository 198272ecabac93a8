/**
 * Combines the messages of a stream into frames: the newest dictionary of each column, and a record batch. Each frame
 * becomes a table of its own, whose columns are views of its bytes. Pure.
 *
 * The tables are flechette's. Flechette's own reader expects a whole stream at once, would read the schema again for each
 * frame, and does not check lengths.
 */

import { Column, Table } from "@uwdata/flechette";
import { Body } from "./body.js";
import { DICTIONARY, type IpcMessage, RECORDS, SCHEMA } from "./messages.js";
import { type Schema, schema } from "./schema.js";

export interface Frame {
  readonly schema: Schema;
  readonly table: Table;
  /** Number of rows. A batch without rows confirms a subscription, or shows that the connection is alive. */
  readonly count: number;
  /** Offsets of the first and the last row; 0 without rows. */
  readonly first: number;
  readonly last: number;
  readonly metadata: ReadonlyMap<string, string>;
  /** Size of all messages since the previous frame, bytes. */
  readonly bytes: number;
}

export class Frames {
  readonly #reuses: boolean;
  #schema: Schema | null = null;
  readonly #dictionaries = new Map<number, Column<string>>();
  #bytes = 0;

  /** @param reuses - whether the memory of messages is reused. If so, dictionaries are copied. */
  constructor(reuses = false) {
    this.#reuses = reuses;
  }

  /** Returns a frame if this message completes one. @throws TypeError or RangeError if the message is not valid. */
  take({ kind, header, body, metadata, bytes }: IpcMessage): Frame | null {
    this.#bytes += bytes;
    if (kind === SCHEMA && !this.#schema) {
      this.#schema = schema(header);
      return null;
    }
    if (kind === DICTIONARY && this.#schema) {
      const data = header.table(1);
      if (!data || header.byte(2)) throw new TypeError("a dictionary is incomplete");
      const texts = this.#reuses ? body.slice() : body;
      this.#dictionaries.set(header.long(0), new Body(data, texts).texts());
      return null;
    }
    if (kind !== RECORDS || !this.#schema) throw new TypeError(`unexpected message of kind ${kind}`);
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
