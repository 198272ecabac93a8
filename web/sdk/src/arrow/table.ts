/**
 * What can be read of a table: as much of flechette's as a page needs. At run time it is one of
 * flechette's tables, for whatever takes these.
 */

/** The values of one column, a row each. */
export interface Column<T = unknown> {
  /** How many. */
  readonly length: number;
  /** How many of them are `null`. */
  readonly nullCount: number;
  /** One of them. */
  at(row: number): T | null;
  /**
   * All of them: by far the fastest way to read many. Numbers and times of which none is `null` are
   * a `Float64Array`. It must not be changed: it may be the table's own memory.
   */
  toArray(): ArrayLike<T | null>;
  /** One after the other. */
  [Symbol.iterator](): Iterator<T | null>;
}

/** What the columns of a table are of. */
export interface ColumnSchema {
  /** One for each column, in order. */
  readonly fields: readonly ColumnField[];
  /** What the server says of the topic: `thalweg.topic` and `thalweg.epoch`. */
  readonly metadata?: ReadonlyMap<string, string> | null;
}

/** What one column is of. */
export interface ColumnField {
  /** The column's name. */
  readonly name: string;
  /** Its type. */
  readonly type: {
    /** As Arrow's `Schema.fbs` numbers them, e.g. 10 for times. */
    readonly typeId: number;
  };
  /** What the server says of the column. */
  readonly metadata?: ReadonlyMap<string, string> | null;
}

/**
 * A table: a column for each member of the events, or for each element where they are arrays. The
 * first one, `_offset`, has the offsets of the events.
 *
 * | published | in a column | as JavaScript has it |
 * |---|---|---|
 * | whole numbers | `int64` | number, rounded beyond 2⁵³, as `JSON.parse` does |
 * | other numbers | `float64` | number |
 * | booleans | `bool` | boolean |
 * | times | `timestamp` of ms, UTC | number: ms since 1970 |
 * | texts | a dictionary of `utf8` | string |
 * | only `null` so far | `null` | `null` |
 * | anything else, or several of these | `utf8`, whose field's metadata has `thalweg.type`: `json` | string: JSON |
 */
export interface ColumnTable {
  /** Rows. */
  readonly numRows: number;
  /** The names of its columns, in order. */
  readonly names: readonly string[];
  /** Its columns, in order. */
  readonly children: readonly Column[];
  /** What its columns are of. */
  readonly schema: ColumnSchema;
  /** The column of this name; `undefined` if there is none. */
  getChild<T = unknown>(name: string): Column<T> | undefined;
  /** A row as an object, made when it is asked for; `null` if there is none. */
  at(row: number): Record<string, unknown> | null;
}
