/** The findings of a run, as sentences. Pure. */

import { brief, duration } from "../format.js";
import { type Cell, cells, label, shapes } from "./plan.js";
import { planned, type Result, type Row, rows } from "./result.js";
import { LIMITS } from "./sample.js";
import { compare } from "./statistics.js";

/** Chrome's totals for 1,000 round trips as published in 2013, ms. */
export const PUBLISHED: Readonly<Partial<Record<Cell["transport"], readonly number[]>>> = {
  websocket: [1575, 2215, 1123],
  sse: [3245, 2995, 3167],
  "long-polling": [3651, 3853, 3572],
};

export function findings(result: Result): string[] {
  const all = rows(result.samples, cells(result.plan));
  if (!all.length) return ["The run has no samples."];
  const sentences = result.plan.experiment === "a1" ? aboutRows(all) : aboutTrips(all, result.plan.trips);
  if (result.plan.repeats < 3) {
    sentences.push("With fewer than three repeats, a difference between two transports may be due to chance.");
  }
  if (result.wasStopped) sentences.push("The run was stopped early: some cells have fewer repeats than planned.");
  return sentences;
}

function aboutRows(all: readonly Row[]): string[] {
  const sentences: string[] = [];
  const best = all.reduce((best, row) => (row.figure.median > best.figure.median ? row : best));
  sentences.push(
    `The highest rate was ${brief(best.figure.median)} events/s (${brief(best.megabytesPerS)} MB/s) ` +
      `over ${best.cell.transport}, ${label(best.cell)}.`,
  );
  for (const [where, shape] of shapes(all, ({ cell }) => cell)) {
    const full = shape.filter(({ limit }) => limit === "plan");
    if (full.length === shape.length) {
      sentences.push(`${where}: all events arrived over ${list(shape)}. The page was busy ${busiest(shape)}.`);
    } else if (shape.length > 1) sentences.push(`${where}: ${ranking(shape, "delivered", "events/s", 1)}.`);
    for (const row of shape) {
      if (row.limit === "plan") continue;
      const share = row.figure.median / (planned(row.cell) * row.cell.connections);
      sentences.push(
        `${where}, ${row.cell.transport}: ${percent(share)} of the planned rate. Limited by ${LIMITS[row.limit]}` +
          `${row.limit === "server" ? "; this page does not know how late the server was" : ""}.`,
      );
    }
  }
  return sentences;
}

function aboutTrips(all: readonly Row[], trips: number): string[] {
  const sentences = [`${trips.toLocaleString("en")} round trips: ${ranking(all, "took", "ms", -1)}.`];
  const webSocket = all.find(({ cell }) => cell.transport === "websocket");
  if (!webSocket) return sentences;
  for (const row of all) {
    if (row === webSocket) continue;
    if (compare(row.figure, webSocket.figure) === "same") {
      sentences.push(`${row.cell.transport} and websocket: no difference found.`);
      continue;
    }
    const ratio = (row.figure.median / webSocket.figure.median).toPrecision(2);
    const published = PUBLISHED[row.cell.transport];
    const then = published && mean(published) / mean(PUBLISHED.websocket as readonly number[]);
    sentences.push(
      `${row.cell.transport} took ${ratio} times as long as websocket` +
        `${then ? `; published in 2013 for Chrome: ${then.toPrecision(2)} times` : ""}.`,
    );
  }
  return sentences;
}

/** Returns `a delivered 1.2 M events/s, b 1.1 M (no difference from a found), c 0.3 M`. @param sign - 1 if more is better. */
function ranking(all: readonly Row[], verb: string, unit: string, sign: 1 | -1): string {
  const sorted = [...all].sort((a, b) => sign * (b.figure.median - a.figure.median));
  return sorted
    .map((row, index) => {
      const { transport } = row.cell;
      if (index === 0) return `${transport} ${verb} ${brief(row.figure.median)} ${unit}`;
      const previous = sorted[index - 1] as Row;
      const isSame = compare(row.figure, previous.figure) === "same";
      return `${transport} ${brief(row.figure.median)}${isSame ? ` (no difference from ${previous.cell.transport} found)` : ""}`;
    })
    .join(", ");
}

function busiest(shape: readonly Row[]): string {
  const sorted = [...shape].sort((a, b) => a.busy - b.busy);
  return sorted.map(({ cell, busy }) => `${percent(busy)} of the time with ${cell.transport}`).join(", ");
}

function list(shape: readonly Row[]): string {
  const names = shape.map(({ cell }) => cell.transport);
  return names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${names.at(-1)}` : `${names[0]}`;
}

export function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}

/** Returns the remaining time: `about 2 min left`. */
export function left(ms: number): string {
  return ms < 1000 ? "nearly done" : `about ${duration(Math.ceil(ms / 1000) * 1000)} left`;
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
