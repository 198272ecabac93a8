/**
 * Events a second into one tab: as columns of Arrow, of which one is summed or every value is read,
 * beside rows of JSON over a WebSocket. One after the other in a random order, again and again: what
 * a page is to another is the median of the ratios of rounds.
 */

import { seeded } from "../../sdk/test/random.js";
import { type Tab, test } from "../harness/tab.js";
import { cores, cpuSeconds, renderer, seclude, shares } from "./process.js";
import { pairs, record } from "./record.js";
import { median, ratio } from "./statistics.js";

/** The first one is what the others are compared with. */
const WAYS = [
  { name: "websocket", by: "sdk", transport: "websocket", least: 1 },
  { name: "one column", by: "one column", transport: "arrow", least: 7 },
  { name: "every value", by: "every value", transport: "arrow", least: 5 },
] as const;
/** Until the kernel's buffers and the browser's heap have grown to what is needed. */
const WARMING_MS = 1000;
const SPAN_MS = 4000;
/** What is hot is compiled after so many rounds, which do not count. */
const WARMING_ROUNDS = 1;

interface Taken {
  readonly eventsPerS: number;
  readonly missedShare: number;
  readonly events: number;
  readonly cpuNsPerEvent: number;
  /** What each core did: a page that is the bound keeps its own busy. */
  readonly cores: { busy: number; stolen: number }[];
}

// The page is of another origin than the data, which goes past the network.
test.use({
  core: 0,
  args: [
    "--source",
    "fast=constant,batch=1000,interval=250us",
    "--history-bytes",
    "256MiB",
    "--history-events",
    "10000000",
    "--allow-origin",
    "*",
  ],
});

test("columns", async ({ browser, network, server, tab }) => {
  await tab.open(`${network.origin}/e2e/throughput.html`);
  await tab.until(() => "take" in globalThis);
  const take = (by: string, transport: string, spanMs: number): Promise<Omit<Taken, "cpuNsPerEvent" | "cores">> =>
    tab.evaluate(
      (...given) => (globalThis as never as Page).take(...given),
      by,
      transport,
      server.origin,
      WARMING_MS,
      spanMs,
    );
  await take("sdk", "websocket", WARMING_MS);
  const pid = await renderer(browser);
  await seclude(browser, [pid]);
  const random = seeded(1);
  const rounds: Record<string, Taken>[] = [];
  for (let number = -WARMING_ROUNDS; number < pairs(24); number++) {
    const round: Record<string, Taken> = {};
    for (const { name, by, transport } of shuffled(random)) {
      const [cpu, before] = [cpuSeconds(pid), cores()];
      const taken = await take(by, transport, SPAN_MS);
      const cpuNsPerEvent = ((cpuSeconds(pid) - cpu) * 1e9) / taken.events;
      round[name] = { ...taken, cpuNsPerEvent, cores: shares(before) };
    }
    if (number >= 0) rounds.push(round);
    const said = WAYS.map(({ name }) => `${name} ${Math.round((round[name] as Taken).eventsPerS / 1000)} k/s`);
    console.log(`round ${number}: ${said.join(", ")}`);
  }
  const of = (name: string, key: "eventsPerS" | "cpuNsPerEvent" | "missedShare"): number[] =>
    rounds.map((round) => (round[name] as Taken)[key]);
  const summary: Record<string, object> = {};
  for (const { name, least } of WAYS) {
    const beside = (key: "eventsPerS" | "cpuNsPerEvent") =>
      ratio(of(name, key).map((value, at) => [value, of(WAYS[0].name, key)[at] as number] as const));
    const found = beside("eventsPerS");
    const busy = (core: number): number => median(rounds.map((round) => (round[name] as Taken).cores[core]?.busy ?? 0));
    summary[name] = {
      rounds: rounds.length,
      eventsPerS: median(of(name, "eventsPerS")),
      cpuNsPerEvent: median(of(name, "cpuNsPerEvent")),
      missedShare: median(of(name, "missedShare")),
      toWebSocket: { eventsPerS: found, cpuPerEvent: beside("cpuNsPerEvent") },
      serverCore: busy(0),
      pageCore: busy(1),
      passes: found.ratio >= least,
    };
  }
  const placement = "server, and all of the browser but the page, on core 0; the page on core 1";
  record(browser, "columns", summary, { rounds }, placement);
});

function shuffled(random: () => number): (typeof WAYS)[number][] {
  return WAYS.map((way) => ({ way, at: random() }))
    .sort((one, other) => one.at - other.at)
    .map(({ way }) => way);
}

interface Page {
  take(...given: [string, string, string, number, number]): ReturnType<Tab["evaluate"]> & Promise<never>;
}
