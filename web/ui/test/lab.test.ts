/** The lab page: measurements and findings. */

import { describe, expect, test } from "vitest";
import { seeded } from "../../sdk/test/random.js";
import { browser } from "../src/lab/environment.js";
import { findings } from "../src/lab/findings.js";
import { offer } from "../src/lab/offer.js";
import { type Cell, cells, estimateMs, hindrance, type Plan, turns } from "../src/lab/plan.js";
import { parse, type Result, result, rows } from "../src/lab/result.js";
import { limit, type RowsSample, type TripsSample } from "../src/lab/sample.js";
import { csv, json, markdown } from "../src/lab/save.js";
import { compare, median, quantile, spread } from "../src/lab/statistics.js";

const plan: Plan = {
  experiment: "a1",
  transports: ["websocket", "sse"],
  batches: [1, 100],
  connections: [1],
  seconds: 2,
  repeats: 3,
};
const busy = { share: 0.2, longTasks: null };
const sample = (eventsPerS: number, more: Partial<RowsSample> = {}): RowsSample => ({
  kind: "rows",
  spanMs: 2000,
  eventsPerS,
  bytesPerS: eventsPerS * 135,
  batchesPerS: 1000,
  madePerS: null,
  missed: 0,
  laterP50Ms: 0.2,
  laterP99Ms: 3,
  busy,
  ...more,
});
const trips = (totalMs: number): TripsSample => ({
  kind: "trips",
  trips: 1000,
  totalMs,
  p50Ms: totalMs / 1000,
  p99Ms: totalMs / 500,
  busy,
});
const taken = (cell: Cell, ...samples: (RowsSample | TripsSample)[]) =>
  samples.map((sample, index) => ({ cell, repeat: index + 1, sample }));
const whole = (plan: Plan, samples: Result["samples"], more: Partial<Result> = {}): Result => ({
  ...result({
    plan,
    environment: {
      browser: "Chrome 140 on Linux",
      cores: 2,
      server: "http://localhost:8080",
      isLoopback: true,
      protocol: "http/1.1",
      isSecure: false,
    },
    begun: "2026-11-21T20:00:00.000Z",
    ended: "2026-11-21T20:01:00.000Z",
    wasStopped: false,
    samples,
    failures: [],
  }),
  ...more,
});
const cell = (transport: Cell["transport"], batch: number | null = 100): Cell => ({ transport, batch, connections: 1 });

describe("a plan", () => {
  test("has every combination once in each round, in random order", () => {
    expect(cells(plan)).toHaveLength(4);
    const rounds = turns(plan, true, seeded(1));
    expect(rounds).toHaveLength(3);
    for (const round of rounds) expect(new Set(round.map((it) => JSON.stringify(it))).size).toBe(4);
    expect(new Set(rounds.map((round) => JSON.stringify(round))).size).toBeGreaterThan(1);
  });

  test("leaves out cells that a browser cannot measure over HTTP/1.1", () => {
    const many = { ...plan, connections: [1, 10] };
    expect(turns(many, true, seeded(1))[0]).toHaveLength(6);
    expect(turns(many, false, seeded(1))[0]).toHaveLength(8);
    expect(hindrance({ ...cell("sse"), connections: 6 }, true)).toMatch(/six connections/);
    expect(hindrance({ ...cell("websocket"), connections: 10 }, true)).toBeNull();
    expect(estimateMs(many, true)).toBeGreaterThan(estimateMs(plan, true));
  });
});

describe("repeats", () => {
  test("have a median and a range", () => {
    expect(median([3, 1, 2])).toBe(2);
    expect(median([1, 2])).toBe(1.5);
    expect(quantile([0, 10], 0.9)).toBe(9);
    expect(spread([])).toBeNull();
    expect(spread([3, 1, 2])).toEqual({ median: 2, low: 1, high: 3, count: 3 });
  });

  test("differ only if every one is beyond every other", () => {
    const of = (...values: number[]) => spread(values)!;
    expect(compare(of(4, 5, 6), of(1, 2, 3))).toBe("more");
    expect(compare(of(1, 2, 3), of(4, 5, 6))).toBe("less");
    expect(compare(of(1, 2, 4), of(4, 5, 6))).toBe("same");
    expect(compare(of(1, 2), of(4, 5))).toBe("unknown");
  });
});

test("the limit of a sample", () => {
  const check = (eventsPerS: number, madePerS: number | null, share: number) =>
    limit(sample(eventsPerS, { madePerS, busy: { share, longTasks: null } }), 100_000, 2);
  expect(check(199_000, 100_000, 0.3)).toBe("plan");
  expect(check(100_000, 50_000, 0.3)).toBe("server");
  expect(check(100_000, 100_000, 0.95)).toBe("page");
  expect(check(100_000, 100_000, 0.3)).toBe("between");
  expect(check(100_000, null, 0.3)).toBe("unknown");
});

describe("a result", () => {
  const found = whole(plan, [
    ...taken(cell("websocket", 1), sample(1000), sample(1001), sample(999)),
    ...taken(cell("sse", 1), sample(1000), sample(1000), sample(1000)),
    ...taken(cell("websocket"), sample(100_000), sample(99_000), sample(101_000)),
    ...taken(
      cell("sse"),
      ...[50_000, 51_000, 52_000].map((rate) =>
        sample(rate, { madePerS: 100_000, busy: { share: 0.97, longTasks: 0.5 } }),
      ),
    ),
  ]);

  test("is saved and opened unchanged", () => {
    expect(parse(json(found))).toEqual(found);
    expect(() => parse("<html>")).toThrow(/not JSON/);
    expect(() => parse("{}")).toThrow(/not a result/);
    expect(() => parse("null")).toThrow(/not a result/);
    for (const broken of [
      { samples: [{}] },
      { samples: [null] },
      { samples: [{ cell: cell("sse"), sample: { kind: "rows" } }] },
      { samples: [{ cell: cell("sse"), sample: trips(1) }] },
      { plan: {} },
      { plan: { ...plan, batches: "1" } },
      { plan: { experiment: "b", transports: ["sse"] } },
      { environment: {} },
      { begun: 5 },
      { failures: [{}] },
    ]) {
      expect(() => parse(JSON.stringify({ ...found, ...broken })), JSON.stringify(broken)).toThrow(/not a result/);
    }
  });

  test("has a row for each cell, and findings", () => {
    const all = rows(found.samples, cells(plan));
    expect(all.map(({ figure, limit }) => [figure.median, limit])).toEqual([
      [1000, "plan"],
      [1000, "plan"],
      [100_000, "plan"],
      [51_000, "page"],
    ]);
    const words = findings(found).join("\n");
    expect(words).toContain("The highest rate was 100 k events/s");
    expect(words).toContain("1 row per ms × 1: all events arrived over websocket and sse.");
    expect(words).toContain("websocket delivered 100 k events/s, sse 51 k.");
    expect(words).toContain("100 rows per ms × 1, sse: 51 % of the planned rate. Limited by this page");
  });

  test("reports where no difference was found, and no ranking after one repeat", () => {
    const b: Plan = { experiment: "b", transports: ["websocket", "sse", "long-polling"], trips: 1000, repeats: 3 };
    const one = whole(b, [
      ...taken(cell("websocket", null), trips(300), trips(310), trips(305)),
      ...taken(cell("sse", null), trips(900), trips(1100), trips(1000)),
      ...taken(cell("long-polling", null), trips(1050), trips(1150), trips(1250)),
    ]);
    const words = findings(one).join("\n");
    expect(words).toContain("websocket took 305 ms, sse 1,000, long-polling 1,150 (no difference from sse found)");
    expect(words).toContain("sse took 3.3 times as long as websocket; published in 2013 for Chrome: 1.9 times");
    expect(findings({ ...one, plan: { ...b, repeats: 1 } }).join()).toContain("fewer than three repeats");
    expect(findings(whole(b, []))).toEqual(["The run has no samples."]);
  });

  test("as a table for people and for programs", () => {
    expect(csv(found).split("\n")).toHaveLength(1 + 12 + 1);
    expect(csv(found)).toContain("a1,websocket,1,1,1,1000,135000,,0,,0.200,3,0.200,\n");
    const text = markdown({ ...found, failures: [{ cell: cell("long-polling"), repeat: 1, why: "nothing came" }] });
    expect(text).toContain("| 100 rows per ms × 1 | sse | 51,000 | 50,000 to 52,000 | 3 |");
    expect(text).toContain("Not measured: 100 rows per ms × 1 over long-polling: nothing came.");
  });
});

test("the sources of a server", () => {
  expect(offer(["lab/rows/100", "lab/rows/1", "lab/runner/0", "lab/rows/x", "lab/runner/0/acks"])).toEqual({
    batches: [1, 100],
    runners: 1,
  });
});

test("the name of the browser", () => {
  const brands = [
    { brand: "Not:A-Brand", version: "24" },
    { brand: "Chromium", version: "140" },
  ];
  expect(browser({ userAgentData: { brands, platform: "Linux" } }, "")).toBe("Chromium 140 on Linux");
  expect(browser({}, "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0")).toBe(
    "Firefox 140 on Linux x86_64",
  );
});
