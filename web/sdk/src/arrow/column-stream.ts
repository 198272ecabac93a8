/** The types of a stream of columns. At run time the tables are flechette's; the types declare the part that pages may use. */

import type { ThalwegError } from "../errors.js";
import type { ConnectOptions } from "../options.js";
import type { Status } from "../status.js";
import type { SubscribeOptions } from "../subscription.js";
import type { Gap, Position } from "../wire.js";

/** The options of `columns`. All are optional. */
export interface ColumnOptions
  extends Pick<ConnectOptions, "token" | "connectTimeout" | "idleTimeout" | "fetch">,
    Pick<SubscribeOptions, "from" | "interval" | "policy"> {
  /**
   * Whether the memory of a batch is reused after it is processed. If so, do not keep its table, columns or arrays;
   * numbers and texts read from them may be kept. Reuse saves time at high volume. Default: `false`, which leaves
   * tables unchanged.
   */
  reuse?: boolean;
  /** Called with each new status, never twice with the same one. */
  onStatus?: (status: ColumnStatus) => void;
  /** Called once if the stream ends and the page has not called {@link ColumnStream.close}. The stream's status reports the end, too. */
  onError?: (error: ThalwegError) => void;
}

/** The status of a stream of columns: the {@link Status} of a session, but without `transport`. The state is never `idle`. */
export type ColumnStatus = Omit<Status, "transport">;

/** Rows of a topic, in order. A batch has at least one row or a gap. Each row is delivered once, even if connections break. */
export interface ColumnBatch {
  /** The topic of the rows. */
  readonly topic: string;
  /** The rows, one per event, as a table of its own. It does not change unless {@link ColumnOptions.reuse} is set. */
  readonly table: ColumnTable;
  /** Number of rows. */
  readonly count: number;
  /** The offset of the first row; without rows, the offset of the next row. */
  readonly first: number;
  /**
   * The position of the last row. Store it when the batch is processed, and pass it as {@link ColumnOptions.from} to
   * continue later.
   */
  readonly position: Position;
  /** The events missed before these rows; `null` if none were. */
  readonly gap: Gap | null;
  /** Whether the columns differ from those of the previous batch, in name, type or order. */
  readonly schemaChanged: boolean;
  /** Size on the wire. */
  readonly bytes: number;
}

/**
 * Processes a batch. The batch counts as processed when the listener returns, or when the returned promise settles.
 * Until then the stream reads no more data, and the network slows the server down. An error that the listener throws
 * is an uncaught error of the page; the stream continues.
 */
export type ColumnListener = (batch: ColumnBatch) => void | Promise<void>;

/** A topic received as columns. */
export interface ColumnStream {
  /** The latest status. */
  readonly status: ColumnStatus;
  /**
   * The position of the last processed batch. Before the first batch it is the position where the stream began; `null`
   * until the server has confirmed it.
   */
  readonly position: Position | null;
  /** Connects at once if the stream waits for its next attempt (`status.retryAt`). Otherwise the call has no effect. */
  reconnect(): void;
  /** Ends the stream: no further batch arrives. */
  close(): void;
}

/** The values of one column, one per row. */
export interface Column<T = unknown> {
  /** Number of values. */
  readonly length: number;
  /** Number of `null`s. */
  readonly nullCount: number;
  /** Returns the value of a row. */
  at(row: number): T | null;
  /**
   * Returns all values. This is by far the fastest way to read many. Numbers and times without `null` are a
   * `Float64Array`. Do not modify the result: it may be the table's own memory.
   */
  toArray(): ArrayLike<T | null> & Iterable<T | null>;
  /** Iterates over the values. */
  [Symbol.iterator](): Iterator<T | null>;
}

/** The columns of a table, by name and type. */
export interface ColumnSchema {
  /** The name and type of each column, in order. */
  readonly fields: readonly ColumnField[];
  /** The server's metadata of the topic: `thalweg.topic` and `thalweg.epoch`. */
  readonly metadata?: ReadonlyMap<string, string> | null;
}

/** The name and type of a column. */
export interface ColumnField {
  /** The column's name. */
  readonly name: string;
  /** Its type. */
  readonly type: {
    /** The number of the type in Arrow's `Schema.fbs`, e.g. 10 for times. */
    readonly typeId: number;
  };
  /** The server's metadata of the column. */
  readonly metadata?: ReadonlyMap<string, string> | null;
}

/**
 * A table with a column for each member of the events, or for each element if the events are arrays. The first
 * column, `_offset`, has the offsets of the events.
 *
 * | published | type of the column | JavaScript |
 * |---|---|---|
 * | whole numbers | `int64` | number, rounded beyond 2⁵³ as in `JSON.parse` |
 * | other numbers | `float64` | number |
 * | booleans | `bool` | boolean |
 * | times | `timestamp` of ms, UTC | number: ms since 1970 |
 * | texts | dictionary of `utf8` | string |
 * | only `null` so far | `null` | `null` |
 * | other values, or several of these types | `utf8`; the field's metadata has `thalweg.type`: `json` | string: JSON |
 */
export interface ColumnTable {
  /** Number of rows. */
  readonly numRows: number;
  /** The names of the columns, in order. */
  readonly names: readonly string[];
  /** The columns, in order. */
  readonly children: readonly Column[];
  /** The names and types of the columns. */
  readonly schema: ColumnSchema;
  /** Returns a column by name; `undefined` if there is none. */
  getChild<T = unknown>(name: string): Column<T> | undefined;
  /** Returns a row as a new object; `null` if there is none. */
  at(row: number): Record<string, unknown> | null;
}
