/** Events that arrived as columns. The first column has offsets; the others have members, array elements, or whole events. Pure. */

import type { Column as ArrowColumn, ColumnBatch, ColumnTable } from "thalweg/arrow";
import { type Column, type Key, numeric } from "./columns.js";
import { type Events, numbers, PublishedEvents, type Received } from "./events.js";

/** Arrow's type of timestamps, which are texts in JSON. */
const TIMESTAMP = 10;

/** Converts a batch of columns. @param known - the columns found so far. */
export function receivedColumns({ table, gap, position, bytes }: ColumnBatch, known: readonly Column[]): Received {
  const [key, ...others] = keys(table, known);
  const events = key === null && isJson(table, 1) ? parsed(table) : new ArrowEvents(table, [key as Key, ...others]);
  return { events, gap, position, bytes };
}

/** Parses events of mixed types, which arrive as JSON in one column. */
function parsed({ children: [offsets, texts], numRows }: ColumnTable): Events {
  const at = Array.from({ length: numRows }, (_, index) => offsets?.at(index) as number);
  const all = at.map((_, index) => JSON.parse((texts?.at(index) as string | null) ?? "null") as unknown);
  return new PublishedEvents(at[0] ?? 0, all, at);
}

class ArrowEvents implements Events {
  readonly #columns: readonly ArrowColumn[];
  readonly #keys: readonly Key[];
  readonly #table: ColumnTable;

  /** @param keys - the key of each column except the first. */
  constructor(table: ColumnTable, keys: readonly Key[]) {
    this.#table = table;
    this.#columns = table.children;
    this.#keys = keys;
  }

  get length(): number {
    return this.#table.numRows;
  }

  offset(index: number): number {
    return this.#columns[0]?.at(index) as number;
  }

  event(index: number): unknown {
    const cells = this.#keys.map((_, at) => this.#cell(at + 1, index));
    const [first] = this.#keys;
    if (first === null) return cells[0];
    return typeof first === "number" ? cells : Object.fromEntries(this.#keys.map((key, at) => [key, cells[at]]));
  }

  numbers(column: Column): ArrayLike<number> {
    const at = this.#keys.indexOf(column.key) + 1;
    const found = this.#columns[at];
    // Columns of other kinds have no numbers.
    if (!at || !found || Number.isNaN(numeric(column.kind, 0))) return new Float64Array(this.length).fill(Number.NaN);
    const all = found.toArray();
    return all instanceof Float64Array ? all : numbers(this.length, column, (index) => all[index]);
  }

  #cell(at: number, index: number): unknown {
    const value = this.#columns[at]?.at(index);
    if (value === null || value === undefined) return value;
    if (this.#table.schema.fields[at]?.type.typeId === TIMESTAMP) return time(value as number);
    return isJson(this.#table, at) ? JSON.parse(value as string) : value;
  }
}

/** Returns a timestamp as most servers publish it: without a fraction if the fraction is 0. */
function time(ms: number): string {
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? String(ms) : date.toISOString().replace(".000Z", "Z");
}

/** Returns the key of each column except the first: the key found before, or one derived from the column's name. */
function keys({ names }: ColumnTable, known: readonly Column[]): Key[] {
  // The server prefixes a member's name with `_` if it equals the name of the first column.
  const named = names.slice(1).map((name) => name.replace(/^_(_+offset)$/, "$1"));
  if (named.length === 1 && named[0] === "value") return known.some(({ key }) => key === "value") ? named : [null];
  const before = known[0]?.key;
  const isNumbered = named.every((name, index) => name === `column${index}`);
  const isArray = before === undefined ? isNumbered : typeof before === "number";
  return isArray ? named.map((_, index) => index) : named;
}

/** Returns whether a column contains JSON texts, the type of values without a common type. */
function isJson({ schema }: ColumnTable, at: number): boolean {
  return schema.fields[at]?.metadata?.get("thalweg.type") === "json";
}
