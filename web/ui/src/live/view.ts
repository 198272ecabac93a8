/** Filters and sorts rows. Pure. */

import { type Column, cell, instant, numeric, shown } from "./columns.js";
import type { Row } from "./rows.js";

export interface Sorting {
  /** The column's name. */
  readonly by: string;
  readonly isDescending: boolean;
}

/**
 * The filter's text as a test: words that must all occur in the event or its key, and conditions `COLUMN<1`, `COLUMN>1`
 * and `COLUMN=TEXT`.
 */
export type Filter = (event: unknown, key?: string) => boolean;

const CONDITION = /^([^<>=]+)(<=|>=|<|>|=)(.*)$/;

/** Returns a filter; `null` for an empty text. A condition on an unknown column counts as a word. */
export function filter(text: string, columns: readonly Column[]): Filter | null {
  const parts = text.trim().split(/\s+/).filter(Boolean);
  if (!parts.length) return null;
  const tests = parts.map((part) => condition(part, columns) ?? word(part, columns));
  return (event, key) => tests.every((test) => test(event, key));
}

function word(text: string, columns: readonly Column[]): Filter {
  const searched = text.toLowerCase();
  const has = (text: string): boolean => text.toLowerCase().includes(searched);
  return (event, key = "") => has(key) || columns.some((column) => has(shown(cell(event, column))));
}

function condition(text: string, columns: readonly Column[]): Filter | null {
  const [, name, sign, value = ""] = CONDITION.exec(text) ?? [];
  const column = columns.find((candidate) => candidate.name === name);
  if (!column) return null;
  if (sign === "=") return (event) => shown(cell(event, column)) === value;
  // A date without a time means midnight.
  const limit = column.kind === "time" ? instant(value.includes(":") ? value : `${value}T00:00`) : Number(value);
  const of: (event: unknown) => number = (event) => numeric(column.kind, cell(event, column));
  switch (sign) {
    case "<":
      return (event) => of(event) < limit;
    case "<=":
      return (event) => of(event) <= limit;
    case ">":
      return (event) => of(event) > limit;
    default:
      return (event) => of(event) >= limit;
  }
}

/** Sorts rows by a column: numbers by value, other values last. */
export function sort(rows: readonly Row[], column: Column, isDescending: boolean): Row[] {
  const turn = isDescending ? -1 : 1;
  if (column.kind === "text" || column.kind === "json") {
    const keys = rows.map((row) => shown(cell(row.event, column)));
    return order(rows, (a, b) => turn * compare(keys[a] as string, keys[b] as string));
  }
  const keys = Float64Array.from(rows, (row) => numeric(column.kind, cell(row.event, column)));
  return order(rows, (a, b) => {
    const [one, other] = [keys[a] as number, keys[b] as number];
    if (Number.isNaN(one) || Number.isNaN(other)) return Number(Number.isNaN(one)) - Number(Number.isNaN(other));
    return turn * (one - other);
  });
}

function order(rows: readonly Row[], by: (a: number, b: number) => number): Row[] {
  return [...rows.keys()].sort(by).map((index) => rows[index] as Row);
}

function compare(one: string, other: string): number {
  return one < other ? -1 : Number(one > other);
}
