/**
 * The live page at 100,000 events a second, for ten minutes: its lag and its memory do not
 * grow, and input is not kept waiting.
 */

import { setTimeout as after } from "node:timers/promises";
import { expect, type Tab, test } from "../harness/tab.js";
import { tap, watch } from "./input.js";
import { cores, type Memory, memory, renderer, shares } from "./process.js";
import { record, seconds } from "./record.js";
import { median, quantile, slope } from "./statistics.js";

const EVENTS_PER_S = 100_000;
const MEMORY_GROWTH_MAX = 50 * 1024 * 1024;
/** From an input to its handler, as Event Timing has it; the paint after it is told as well. */
const INPUT_MS_MAX = 100;
/** Lag may differ between two spans by what comes between two draws, and a bit. */
const LAG_GROWTH_MAX = 0.5 * EVENTS_PER_S;
/** What is held fills, and what is hot is compiled: this part of the time is not judged. */
const WARMING = 0.2;

interface Look extends Memory {
  readonly s: number;
  readonly heap: number;
  /** Events between the newest row that the page shows and the newest that there is. */
  readonly lag: number;
}

test.use({ core: 0, args: ["--source", "rows=cars,cars=100,interval=1ms"] });

test("live", async ({ tab, server, browser }) => {
  const span = seconds(600);
  await watch(tab);
  await tab.open(`${server.origin}/?topic=rows&view=table`);
  await tab.until(() => Number(document.querySelector("tbody tr:last-child th")?.textContent) > 0);
  const place = await tab.evaluate(() => {
    const { x, y } = document.querySelector(".stats dl")?.getBoundingClientRect() ?? { x: 0, y: 0 };
    return { x: x + 2, y: y + 2 };
  });
  const pid = await renderer(browser);
  const looks: Look[] = [];
  const before = cores();
  const begun = performance.now();
  const since = (): number => (performance.now() - begun) / 1000;
  const delays = tap(tab, place);
  while (since() < span) {
    const [shown, head] = await Promise.all([newest(tab), offset(server.origin)]);
    const { usedSize } = await tab.send("Runtime.getHeapUsage");
    looks.push({ s: since(), heap: usedSize, lag: head - shown, ...memory(pid) });
    await after(1000);
  }
  const { handler, paint, timing } = await delays();
  const begins = span * WARMING;
  const part = (span - begins) / 4;
  const of = (key: "rss" | "pss" | "heap" | "lag", from: number): number =>
    median(looks.filter(({ s }) => s >= from && s < from + part).map((look) => look[key]));
  const growth = (key: "rss" | "pss" | "heap" | "lag"): number => of(key, span - part) - of(key, begins);
  const summary = {
    seconds: span,
    eventsPerS: EVENTS_PER_S,
    lag: {
      first: of("lag", begins),
      last: of("lag", span - part),
      most: Math.max(...looks.filter(({ s }) => s >= begins).map(({ lag }) => lag)),
      slopePerS: slope(looks.filter(({ s }) => s >= begins).map(({ s, lag }) => [s, lag])),
    },
    growthBytes: { rss: growth("rss"), pss: growth("pss"), heap: growth("heap") },
    lastBytes: { rss: of("rss", span - part), pss: of("pss", span - part), heap: of("heap", span - part) },
    cores: shares(before),
    inputs: handler.length,
    handlerMs: { p50: quantile(handler, 0.5), p95: quantile(handler, 0.95), p99: quantile(handler, 0.99) },
    paintMs: { p50: quantile(paint, 0.5), p95: quantile(paint, 0.95), p99: quantile(paint, 0.99) },
    passes: {
      lag: growth("lag") < LAG_GROWTH_MAX,
      memory: growth("rss") < MEMORY_GROWTH_MAX && growth("pss") < MEMORY_GROWTH_MAX,
      input: quantile(handler, 0.95) < INPUT_MS_MAX,
    },
  };
  record(browser, "live", summary, { looks, handler, paint, timing });
  expect(summary.passes).toEqual({ lag: true, memory: true, input: true });
});

/** Offset of the newest row that is drawn. */
function newest(tab: Tab): Promise<number> {
  return tab.evaluate(() => Number([...document.querySelectorAll("tbody th")].at(-1)?.textContent));
}

/** Offset of the newest event. */
async function offset(origin: string): Promise<number> {
  const { topics } = (await (await fetch(`${origin}/v1/topics?prefix=rows`)).json()) as {
    topics: { position: string }[];
  };
  return Number(topics[0]?.position.split(".")[1]);
}
