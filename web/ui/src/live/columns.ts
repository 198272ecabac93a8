/** The columns of a topic: one for each array element or object member; any other event is a single column. Pure. */

import type { Rows } from "./rows.js";

export type Kind = "number" | "time" | "text" | "flag" | "json";

/** The part of an event in a column: an array's index or an object's member; `null` for the event itself. */
export type Key = string | number | null;

export interface Column {
  readonly key: Key;
  readonly name: string;
  readonly kind: Kind;
}

/** Maximum number of columns; further columns are ignored. */
export const COLUMNS_MAX = 64;

/** A timestamp in the server's syntax (docs/reference/columns.md, "Timestamps"): date, minute, seconds, zone. */
const TIME = /^(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d)(:\d\d(?:\.\d+)?)?([Zz]|[+-]\d\d(?::?\d\d)?)?$/;
/** Range in which a number counts as a time, ms since 1970: from 2001 to 2096. The column's name must match too. */
const MS_MIN = 1e12;
const MS_MAX = 4e12;
const TIME_NAME = /(^|_|\b)(time|ts|timestamp|date|at|due)($|_|\b)/i;

export class Columns {
  #columns: readonly Column[] = [];
  readonly #index = new Map<string | null, number>();
  #names: readonly (string | undefined)[] = [];

  /** The columns. The array is replaced when a column is added or changes its kind. */
  get all(): readonly Column[] {
    return this.#columns;
  }

  /** Updates the columns from an event. At 100,000 events a second, callers pass only a sample. */
  learn(event: unknown): void {
    if (typeof event !== "object" || event === null) this.#add(null, event);
    else if (Array.isArray(event)) event.forEach((cell, index) => this.#add(index, cell));
    else for (const [key, cell] of Object.entries(event)) this.#add(key, cell);
  }

  /** Sets the server's names for array elements. Names such as `column0` are ignored. */
  rename(names: readonly string[]): void {
    this.#names = names.map((name, index) => (name === `column${index}` ? this.#names[index] : name));
    for (const [index, { key, name }] of this.#columns.entries()) {
      const newName = typeof key === "number" && this.#names[key];
      if (!newName || newName === name) continue;
      const column = { ...(this.#columns[index] as Column), name: this.#free(newName) };
      this.#columns = this.#columns.with(index, column);
    }
  }

  #add(key: Key, cell: unknown): void {
    if (cell === null || cell === undefined || cell === "") return;
    const id = key === null ? null : String(key);
    const index = this.#index.get(id);
    if (index === undefined) {
      if (this.#columns.length >= COLUMNS_MAX) return;
      this.#index.set(id, this.#columns.length);
      const name = this.#free((typeof key === "number" && this.#names[key]) || (id ?? "value"));
      this.#columns = [...this.#columns, { key, name, kind: kindOf(name, cell) }];
      return;
    }
    const column = this.#columns[index] as Column;
    if (column.kind === "text" || column.kind === "json") return;
    // A column with values of two kinds becomes text.
    if (kindOf(column.name, cell) === column.kind) return;
    this.#columns = this.#columns.with(index, { ...column, kind: "text" });
  }

  /** Returns the name, with a suffix if another column has it: readers select columns by name. */
  #free(name: string): string {
    while (this.#columns.some((column) => column.name === name)) name += "′";
    return name;
  }
}

/** Returns whether a text is a number. JavaScript converts blanks to 0; a blank is not a number here. */
function isNumber(text: string): boolean {
  return text.trim() !== "" && Number.isFinite(Number(text));
}

function kindOf(name: string, cell: unknown): Kind {
  switch (typeof cell) {
    case "number":
      return TIME_NAME.test(name) && cell >= MS_MIN && cell <= MS_MAX ? "time" : "number";
    case "boolean":
      return "flag";
    case "string":
      if (!Number.isNaN(instant(cell))) return "time";
      return isNumber(cell) ? "number" : "text";
    default:
      return "json";
  }
}

/** Returns the instant of a timestamp, ms since 1970; `NaN` for other texts. Without a zone the time is UTC. */
export function instant(text: string): number {
  const [, date, minute, seconds = ":00", zone = "Z"] = TIME.exec(text) ?? [];
  if (date === undefined) return Number.NaN;
  const minutes = zone.length > 3 ? zone.slice(-2) : "00";
  const offset = zone.length === 1 ? "Z" : `${zone.slice(0, 3)}:${minutes}`;
  return Date.parse(`${date}T${minute}${seconds.slice(0, ":00.000".length)}${offset}`);
}

export function cell(event: unknown, { key }: Column): unknown {
  const isOne = typeof event !== "object" || event === null;
  if (key === null) return isOne ? event : undefined;
  if (isOne) return undefined;
  const found = (event as Record<string | number, unknown>)[key];
  // Every object inherits methods, whose names may equal a member of another event.
  return typeof found === "function" ? undefined : found;
}

/** Returns the column with the time of each event: the first time column whose values increase. */
export function timeOf(rows: Rows, columns: readonly Column[]): Column | undefined {
  const [oldest, newest] = [rows.at(0)?.event, rows.at(rows.length - 1)?.event];
  const at = (event: unknown, column: Column): number => numeric("time", cell(event, column));
  return columns.find((column) => column.kind === "time" && at(newest, column) > at(oldest, column));
}

/** Returns a cell as a number, for charts and sorting; `NaN` for other cells. Times are in ms. */
export function numeric(kind: Kind, cell: unknown): number {
  if (kind === "text" || kind === "json") return Number.NaN;
  switch (typeof cell) {
    case "number":
      return cell;
    case "string":
      if (kind === "time") return instant(cell);
      return isNumber(cell) ? Number(cell) : Number.NaN;
    default:
      return typeof cell === "boolean" ? Number(cell) : Number.NaN;
  }
}

const PREVIEW_MAX = 200;
/** Previews of objects, so that each object is serialized only once. */
const previews = new WeakMap<object, string>();

export function preview(cell: unknown): string {
  if (typeof cell !== "object" || cell === null) return line(shown(cell));
  const text = previews.get(cell) ?? line(shown(cell));
  previews.set(cell, text);
  return text;
}

function line(text: string): string {
  const begun = text.length > PREVIEW_MAX ? `${text.slice(0, PREVIEW_MAX)}…` : text;
  return begun.replace(/[\n\v\f\r\u2028\u2029]/g, "↵");
}

export function shown(cell: unknown): string {
  if (cell === undefined || cell === null) return "";
  return typeof cell === "object" ? json(cell) : String(cell);
}

/** Returns an event as JSON. `JSON.parse` accepts deeper nesting than `JSON.stringify`. */
export function json(event: unknown, indent = 0): string {
  try {
    return JSON.stringify(event, null, indent);
  } catch {
    return "too deeply nested to show";
  }
}
