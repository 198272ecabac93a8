/** Runs of the lab, beside each other. */

import { expect, test } from "vitest";
import { compare, type Summary } from "../src/reports/compare.js";
import { date, file, inAddress, pick, processor } from "../src/reports/runs.js";

const machine = { cpu: "one", cores: 2, kernel: "6" };
const row = (subject: string, median: number, more: object = {}) => ({
  cell: "websocket 100",
  subject,
  is_noise: false,
  valid: 3,
  cpu: { us_per_event: { median, low: median - 0.1, high: median + 0.1 } },
  throughput: { events_per_s: null },
  latency: { p99_us: 500 },
  memory: { rss_bytes_per_connection: null },
  round_trip: { mean_us: null },
  ...more,
});
const summary = (rows: ReturnType<typeof row>[], figure = "cpu", version = "0.1.0"): Summary => ({
  manifest: { version, machine },
  parts: [{ name: "fanout", figure, rows }],
});

test("two runs are compared in what both have", () => {
  const one = summary([row("limit", 1), row("limit again", 1, { is_noise: true }), row("thalweg", 2), row("ws", 4)]);
  const other = summary(
    [row("limit", 1.05), row("limit again", 1, { is_noise: true }), row("thalweg", 1), row("ws", 4, { valid: 0 })],
    "cpu",
    "0.2.0",
  );
  const { pairs, differences } = compare(one, other);
  expect(pairs.map(({ subject, ratio, overlaps }) => [subject, ratio, overlaps])).toEqual([
    ["limit", 1.05, true],
    ["thalweg", 0.5, false],
  ]);
  expect(differences).toEqual(["version: 0.1.0 and 0.2.0"]);
});

test("a figure without a range says nothing of overlaps, an unknown one nothing at all", () => {
  const latency = summary([row("limit", 1)], "latency");
  expect(compare(latency, latency).pairs).toMatchObject([{ figure: "p99 µs", ratio: 1, overlaps: null }]);
  const odd = summary([row("limit", 1)], "odd");
  expect(compare(odd, odd).pairs).toEqual([]);
});

test("an address picks two runs at most, each once", () => {
  expect(inAddress("?run=a&run=a&run=b&run=c")).toEqual(["a", "b"]);
  expect(inAddress("")).toEqual([]);
});

test("what is no time is shown as it is", () => {
  expect(date("2026-11-21T10:28:04Z")).toMatch(/^21 Nov 2026/);
  expect(date("<yesterday>")).toBe("<yesterday>");
});

test("the newest two picks are beside each other", () => {
  expect(pick(["a", "b"], "c", true)).toEqual(["b", "c"]);
  expect(pick(["a", "b"], "a", false)).toEqual(["b"]);
  expect(pick([], "a", true)).toEqual(["a"]);
});

test("names are for people and for URLs", () => {
  expect(file("2026 a/b", "report.html")).toBe("runs/2026%20a%2Fb/report.html");
  expect(processor("Intel(R) Xeon(R) Processor @ 2.50GHz")).toBe("Intel Xeon 2.50GHz");
});
