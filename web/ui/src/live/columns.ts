/**
 * What the columns of a topic are, found from its events: an array has a column for each
 * element, an object one for each of its members, anything else is a column by itself.
 * Pure.
 */

import type { Rows } from "./rows.js";

export type Kind = "number" | "time" | "text" | "flag" | "json";

/** What of an event is in a column: an array's index or an object's member; `null`: the event itself. */
export type Key = string | number | null;

export interface Column {
  readonly key: Key;
  /** As people see it. */
  readonly name: string;
  readonly kind: Kind;
}

/** Columns beyond these are left out: a table is for people. */
export const COLUMNS_MAX = 64;

/** A timestamp as the server reads it (docs/wire.md, "Timestamps"): date, minute, seconds, zone. */
const TIME = /^(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d)(:\d\d(?:\.\d+)?)?([Zz]|[+-]\d\d(?::?\d\d)?)?$/;
/** From 2001 to 2096 in ms: a number in a column called like a time. */
const MS_MIN = 1e12;
const MS_MAX = 4e12;
const TIME_NAME = /(^|_|\b)(time|ts|timestamp|date|at|due)($|_|\b)/i;

export class Columns {
  #columns: readonly Column[] = [];
  readonly #index = new Map<string | null, number>();
  /** Of the elements of arrays, where they are known. */
  #names: readonly (string | undefined)[] = [];

  /** Another array whenever one is added, or is of another kind than it seemed. */
  get all(): readonly Column[] {
    return this.#columns;
  }

  /** Learns from an event. Of a hundred thousand a second it must not be each. */
  learn(event: unknown): void {
    if (typeof event !== "object" || event === null) this.#add(null, event);
    else if (Array.isArray(event)) event.forEach((cell, index) => this.#add(index, cell));
    else for (const [key, cell] of Object.entries(event)) this.#add(key, cell);
  }

  /** Gives the elements of arrays the names that the server has for them; `column0` and the like are none. */
  rename(names: readonly string[]): void {
    this.#names = names.map((name, index) => (name === `column${index}` ? this.#names[index] : name));
    for (const [index, { key, name }] of this.#columns.entries()) {
      const wanted = typeof key === "number" && this.#names[key];
      if (!wanted || wanted === name) continue;
      const column = { ...(this.#columns[index] as Column), name: this.#free(wanted) };
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
    // What is of two kinds is text.
    if (kindOf(column.name, cell) === column.kind) return;
    this.#columns = this.#columns.with(index, { ...column, kind: "text" });
  }

  /** The name, or one like it that no other column has: it is what people pick columns by. */
  #free(name: string): string {
    while (this.#columns.some((column) => column.name === name)) name += "′";
    return name;
  }
}

/** Whether a text is one number, and not a blank, which JavaScript takes for 0. */
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

/** The instant of a timestamp, in ms since 1970; `NaN` if it is none. Without a zone it is in UTC, and not in the browser's. */
export function instant(text: string): number {
  const [, date, minute, seconds = ":00", zone = "Z"] = TIME.exec(text) ?? [];
  if (date === undefined) return Number.NaN;
  const minutes = zone.length > 3 ? zone.slice(-2) : "00";
  const offset = zone.length === 1 ? "Z" : `${zone.slice(0, 3)}:${minutes}`;
  return Date.parse(`${date}T${minute}${seconds.slice(0, ":00.000".length)}${offset}`);
}

/** What an event has in a column. */
export function cell(event: unknown, { key }: Column): unknown {
  const isOne = typeof event !== "object" || event === null;
  if (key === null) return isOne ? event : undefined;
  if (isOne) return undefined;
  const found = (event as Record<string | number, unknown>)[key];
  // A member that every object has, called like another event's.
  return typeof found === "function" ? undefined : found;
}

/**
 * The column that says when an event happened: the first of those that are a time and go
 * on from the oldest row to the newest.
 */
export function timeOf(rows: Rows, columns: readonly Column[]): Column | undefined {
  const [oldest, newest] = [rows.at(0)?.event, rows.at(rows.length - 1)?.event];
  const at = (event: unknown, column: Column): number => numeric("time", cell(event, column));
  return columns.find((column) => column.kind === "time" && at(newest, column) > at(oldest, column));
}

/** A cell as a number, for charts and for sorting; `NaN` if it is none. Times are in ms. */
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

/** A cell in a table has no room for more, characters. */
const PREVIEW_MAX = 200;
/** What was written once need not be written again at each drawing. */
const previews = new WeakMap<object, string>();

/** The beginning of a cell's text, in one line. */
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

/** A cell as text. */
export function shown(cell: unknown): string {
  if (cell === undefined || cell === null) return "";
  return typeof cell === "object" ? json(cell) : String(cell);
}

/** Whatever was published, as JSON. What is read may be nested more deeply than what is written. */
export function json(event: unknown, indent = 0): string {
  try {
    return JSON.stringify(event, null, indent);
  } catch {
    return "nested too deeply to be shown";
  }
}
