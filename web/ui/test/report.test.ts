/** Cells, axes and metrics of a report. */

import { expect, test } from "vitest";
import {
  at,
  axis,
  byCell,
  looks,
  METRICS,
  OVER_TIME,
  type Part,
  type Row,
  type ShownPart,
} from "../src/report/summary.js";

const row = (cell: string, subject: string, settings: Record<string, unknown>): Row => ({
  cell,
  subject,
  settings,
  is_baseline: subject === "limit",
  is_noise: subject === "limit again",
  valid: 3,
  verdict: "subject",
  cpu: { us_per_event: { median: 2, low: 1, high: 3 } },
  throughput: { events_per_s: null },
  latency: { p99_us: 50 },
  memory: {},
  load: {},
  round_trip: {},
});

const part = (rows: Row[]): Part => ({ name: "example", title: "", figure: "cpu", rows });

test("cells are drawn along the number that connects most of them", () => {
  const cells = [100, 1000].flatMap((connections) =>
    [128, 1024, 16384].map((event_bytes) => [connections, event_bytes] as const),
  );
  const rows = cells.flatMap(([connections, event_bytes]) =>
    ["limit", "thalweg"].map((name) => row(`${connections} × ${event_bytes}`, name, { connections, event_bytes })),
  );
  const found = axis(byCell(part(rows)));
  expect(found.key).toBe("event_bytes");
  expect(found.facets.map(({ label }) => label)).toEqual(["100 connections", "1,000 connections"]);
  expect(found.facets[0]?.cells.map((cell) => at(cell, "event_bytes"))).toEqual([128, 1024, 16384]);
  expect(found.rest).toEqual([]);
});

test("cells that differ in words only stand alone", () => {
  const rows = ["sse", "websocket"].map((transport) => row(transport, "limit", { transport, connections: 1 }));
  const found = axis(byCell(part(rows)));
  expect(found.key).toBeNull();
  expect(found.rest).toHaveLength(2);
});

test("cells of old runs may have the same name", () => {
  const rows = ["limit", "thalweg", "limit", "thalweg"].map((name) => row("cell", name, {}));
  expect(byCell(part(rows)).map((cell) => cell.length)).toEqual([2, 2]);
});

test("the baseline, its copy and others look different", () => {
  const rows = ["limit", "limit again", "thalweg", "other"].map((name) => row("cell", name, {}));
  expect([...looks(rows).values()]).toEqual(["base", "again", "c0", "c1"]);
});

test("a metric has the spread of its samples, or the figure of a summary without them", () => {
  const one = row("cell", "limit", {});
  const curves = { spreads: { p99_us: { median: 40, low: 30, high: 60 } } } as unknown as ShownPart["curves"][0];
  expect(METRICS["p99"]?.of({ row: one, curves })?.high).toBe(60);
  expect(METRICS["p99"]?.of({ row: one, curves: undefined })).toEqual({ median: 50, low: 50, high: 50 });
  expect(METRICS["memory"]?.of({ row: one, curves: undefined })).toBeNull();
});

test("curves are drawn in the units of their titles, as far as a summary has them", () => {
  const curves = {
    rss_bytes: [[1, 2_000_000]],
    cpu_cores: [[1, 0.5]],
    p99_us: [[1, 200]],
    late_us_max: [[1, 3000]],
  } as unknown as ShownPart["curves"][0];
  const shown = { row: row("cell", "limit", {}), curves };
  expect(OVER_TIME.map(([, of]) => of(shown)[0]?.[1])).toEqual([2, 50, undefined, 200, 3]);
});
