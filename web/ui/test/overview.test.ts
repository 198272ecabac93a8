/** The pure parts of the overview. */

import { expect, test } from "vitest";
import { Metrics, quantile } from "../src/overview/metrics.js";
import {
  added,
  inOrder,
  type Ranked,
  type RankedTopic,
  READINGS_MAX,
  type Reading,
  Readings,
} from "../src/overview/reading.js";

const TEXT = `# HELP thalweg_connections Subscribers' connections.
# TYPE thalweg_connections gauge
thalweg_connections{shard="0"} 3
thalweg_connections{shard="1"} 4
thalweg_refused_total{code="forbidden"} 2
thalweg_build_info{version="0.1.0"} 1
process_start_time_seconds 1767225600.5
thalweg_loop_delay_seconds_bucket{shard="0",le="0.001"} 5
thalweg_loop_delay_seconds_bucket{shard="0",le="+Inf"} 10
thalweg_loop_delay_seconds_bucket{shard="1",le="0.001"} 1
thalweg_loop_delay_seconds_bucket{shard="1",le="+Inf"} 1
`;

test("metrics are read by name and labels", () => {
  const metrics = new Metrics(TEXT);
  expect(metrics.sum("connections")).toBe(7);
  expect(metrics.sum("connections", { shard: "1" })).toBe(4);
  expect(metrics.values("connections", "shard")).toEqual(["0", "1"]);
  expect(metrics.sum("process_start_time_seconds")).toBe(1767225600.5);
  expect(metrics.samples("build_info")[0]?.labels).toEqual({ version: "0.1.0" });
  expect(metrics.sum("nothing")).toBe(0);
  expect(metrics.buckets("loop_delay_seconds")).toEqual([
    [0.001, 6],
    [Infinity, 11],
  ]);
  expect(metrics.buckets("loop_delay_seconds", "1")).toEqual([
    [0.001, 1],
    [Infinity, 1],
  ]);
});

test("a percentile is interpolated within its bucket, between two readings", () => {
  const before = [
    [1, 100],
    [2, 100],
    [4, 100],
    [Infinity, 100],
  ] as const;
  const now = [
    [1, 150],
    [2, 190],
    [4, 199],
    [Infinity, 200],
  ] as const;
  expect(quantile(0.5, now, before)).toBe(1);
  expect(quantile(0.25, now, before)).toBe(0.5);
  expect(quantile(0.7, now, before)).toBe(1.5);
  expect(quantile(0.99, now, before)).toBe(4);
  // The last bucket has no upper bound.
  expect(quantile(0.999, now, before)).toBe(4);
  expect(quantile(0.5, before, before)).toBeNull();
});

const RANKED: Ranked = {
  topics: [],
  matching: 0,
  all: { topics: 0, subscribers: 0, gaps: 0, events_per_s: null, bytes_per_s: null, due_events_per_s: null },
  limits: {},
};

function reading(atS: number, sent: number, { started = 1, refused = 0 } = {}): Reading {
  const text = `process_start_time_seconds ${started}
thalweg_sent_bytes_total{shard="0"} ${sent}
thalweg_refused_total{code="forbidden"} ${refused}
thalweg_refused_total{code="busy"} 0
thalweg_delivery_seconds_bucket{le="0.001"} ${sent}
thalweg_delivery_seconds_bucket{le="+Inf"} ${sent}
`;
  return { atMs: atS * 1000, metrics: new Metrics(text), ranked: RANKED };
}

test("rates are increases per second", () => {
  const readings = new Readings([reading(10, 100), reading(11, 150), reading(13, 350)]);
  expect(readings.rates("sent_bytes_total")).toEqual([50, 100]);
  expect(readings.perS("sent_bytes_total")).toBe(100);
  expect(new Readings([reading(10, 100)]).perS("sent_bytes_total")).toBeNull();
});

test("latencies are those of the last ten seconds", () => {
  expect(new Readings([reading(0, 0), reading(20, 5), reading(21, 5)]).latencyMs("delivery_seconds", 0.5)).toBeNull();
  expect(new Readings([reading(0, 0), reading(12, 2), reading(21, 5)]).latencyMs("delivery_seconds", 0.5)).toBe(0.5);
  expect(new Readings([reading(0, 0), reading(1, 2), reading(2, 2)]).latencies("delivery_seconds", 0.5)).toEqual([
    0.5, 0,
  ]);
  expect(new Readings([reading(0, 5)]).latencyMs("delivery_seconds", 0.5)).toBeNull();
});

test("codes that have occurred are listed, the recent ones first", () => {
  const readings = new Readings([reading(0, 0, { refused: 3 }), reading(1, 0, { refused: 7 })]);
  expect(readings.codes("refused_total")).toEqual([{ code: "forbidden", recent: 4, total: 7 }]);
});

test("a minute of readings is held, of one life of the server", () => {
  let all: Reading[] = [];
  for (let at = 0; at < READINGS_MAX + 5; at++) all = added(all, reading(at, at));
  expect(all).toHaveLength(READINGS_MAX);
  expect(all[0]?.atMs).toBe(5000);
  expect(added(all, reading(99, 0, { started: 2 }))).toHaveLength(1);
  // The page was hidden.
  expect(added(all, reading(500, 0))).toHaveLength(1);
});

test("rows keep their order, and new ones follow", () => {
  const row = (topic: string): RankedTopic => ({
    topic,
    kind: "log",
    events_per_s: null,
    bytes_per_s: null,
    subscribers: 0,
    events: 0,
    memory_bytes: 0,
    age_ms: null,
    gaps: 0,
    trend: [],
  });
  const ordered = inOrder(["new", "c", "a", "newer"].map(row), ["a", "gone", "c"]);
  expect(ordered.map(({ topic }) => topic)).toEqual(["a", "c", "new", "newer"]);
});
