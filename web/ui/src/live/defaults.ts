/** Default view of a topic, derived from its rows. Pure. */

import { type Column, cell, numeric, timeOf } from "./columns.js";
import type { Rows } from "./rows.js";
import type { Aggregate } from "./series.js";

export type View = "document" | "table" | "chart" | "map";

/** Number of rows from which the defaults are derived. */
const ROWS = 300;
/** Rate below which a topic counts as a series of figures, events/s. */
const CALM_PER_S = 5;
/** Maximum number of columns of a series of figures. */
const NARROW = 6;
/** Series that a chart shows by default. */
const SERIES = 2;
/** Ratio of two ranges above which series do not share an axis. */
const ALIKE = 20;

/** Returns the default view: a chart for figures over time, otherwise a table. */
export function firstView(rows: Rows, columns: readonly Column[]): View {
  const time = timeOf(rows, columns);
  if (!time || columns.length > NARROW || rows.length < 2) return "table";
  const at = (index: number): number => numeric("time", cell(rows.at(index)?.event, time));
  const first = Math.max(0, rows.length - ROWS);
  const spanMs = at(rows.length - 1) - at(first);
  const perS = ((rows.length - 1 - first) * 1000) / spanMs;
  return perS < CALM_PER_S && firstSeries(rows, columns).length > 0 ? "chart" : "table";
}

/** Returns the names of the columns that a chart shows by default: numbers that rise and fall. */
export function firstSeries(rows: Rows, columns: readonly Column[]): string[] {
  const places = coordinates(rows, columns);
  const found: { name: string; range: number }[] = [];
  for (const column of columns) {
    if (column.kind !== "number" || column === places?.x || column === places?.y) continue;
    const range = spread(rows, column);
    if (range > 0) found.push({ name: column.name, range });
  }
  const [first] = found;
  if (!first)
    return columns
      .filter(({ kind }) => kind === "number")
      .slice(0, 1)
      .map(({ name }) => name);
  const isAlike = ({ range }: { range: number }): boolean => range < first.range * ALIKE && first.range < range * ALIKE;
  return found
    .filter(isAlike)
    .slice(0, isMany(columns) ? 1 : SERIES)
    .map(({ name }) => name);
}

/** Returns the default aggregate. Over many things the mean hardly changes, so the maximum is more useful. */
export function firstAggregate(columns: readonly Column[]): Aggregate {
  return isMany(columns) ? "max" : "mean";
}

/** Returns whether the rows describe many things, each with a name. */
function isMany(columns: readonly Column[]): boolean {
  return columns.some(({ kind }) => kind === "text");
}

/** Returns the range of a column; 0 for a column that only counts up. */
function spread(rows: Rows, column: Column): number {
  let [least, most, before, falls] = [Infinity, -Infinity, -Infinity, 0];
  for (let index = Math.max(0, rows.length - ROWS); index < rows.length; index++) {
    const value = numeric(column.kind, cell(rows.at(index)?.event, column));
    if (!Number.isFinite(value)) continue;
    least = Math.min(least, value);
    most = Math.max(most, value);
    if (value < before || !Number.isInteger(value)) falls += 1;
    before = value;
  }
  return falls > 0 && most > least ? most - least : 0;
}

export interface Coordinates {
  readonly x: Column;
  readonly y: Column;
  readonly name: Column | undefined;
}

/** Returns the columns named as coordinates, or the first two adjacent columns with plausible values. */
export function coordinates(rows: Rows, columns: readonly Column[]): Coordinates | null {
  const named = (pattern: RegExp): Column | undefined =>
    columns.find(({ name, kind }) => kind === "number" && pattern.test(name));
  const newest = rows.at(rows.length - 1)?.event;
  const isFraction = (column: Column | undefined): boolean => {
    const value = column && cell(newest, column);
    return typeof value === "number" && !Number.isInteger(value) && Math.abs(value) <= 180;
  };
  let [x, y] = [named(/^(lng|lon|long|longitude|x)$/i), named(/^(lat|latitude|y)$/i)];
  if (!x || !y) {
    const at = columns.findIndex((column, index) => isFraction(column) && isFraction(columns[index + 1]));
    [x, y] = [columns[at], columns[at + 1]];
  }
  if (!x || !y) return null;
  return { x, y, name: columns.find(({ kind }) => kind === "text") };
}
