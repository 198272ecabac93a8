/**
 * Events a second into a page, by the SDK and by hand, at the same time: in two tabs that
 * share one core, of which the server has more than both can take. What disturbs one
 * disturbs the other, and what bounds is what a page takes of its core for an event.
 */

import { type Tab, test } from "../harness/tab.js";
import { cores, cpuSeconds, renderer, rendering, seclude, shares } from "./process.js";
import { pairs, record } from "./record.js";
import { median, ratio } from "./statistics.js";

const TRANSPORTS = ["websocket", "sse", "http-streaming"] as const;
/** The last one is the noise: the same in both tabs. */
const CELLS = [
  ...TRANSPORTS.map((transport) => ({ name: transport, transport, ways: ["sdk", "hand"] as const })),
  { name: "a-a", transport: "websocket", ways: ["hand", "hand"] as const },
];
/** Until the kernel's buffers and the browser's heap have grown to what is needed. */
const WARMING_MS = 1000;
const SPAN_MS = 4000;
/** What is hot is compiled after so many pairs, which do not count. */
const WARMING_PAIRS = 1;
const BOUND = 0.95;

interface Taken {
  /** In the span. */
  readonly eventsPerS: number;
  /** Of what the server had, the part that did not come: it could have given more. */
  readonly missedShare: number;
  /** In all. */
  readonly events: number;
  /** What the page's process used for them. */
  readonly cpuNsPerEvent: number;
}

/** Of one way and the other, and what each core did meanwhile. */
interface Pair {
  readonly taken: readonly [Taken, Taken];
  readonly cores: { busy: number; stolen: number }[];
}

// The page is of another origin than the data, which goes past the network.
test.use({
  core: 0,
  args: ["--source", "fast=constant,batch=1000,interval=1ms", "--history-bytes", "64MiB", "--allow-origin", "*"],
});

test("throughput", async ({ browser, network, server, tab, other }) => {
  const take = async (tab: Tab, pid: number, by: string, transport: string): Promise<Taken> => {
    const begun = cpuSeconds(pid);
    const taken = await tab.evaluate(
      (...given) => (globalThis as never as Ways).take(...given),
      by,
      transport,
      server.origin,
      WARMING_MS,
      SPAN_MS,
    );
    return { ...taken, cpuNsPerEvent: ((cpuSeconds(pid) - begun) * 1e9) / taken.events };
  };
  const tabs = [tab, other] as const;
  const pids: number[] = [];
  for (const one of tabs) {
    await one.open(`${network.origin}/e2e/throughput.html`);
    await one.until(() => "take" in globalThis);
    const before = await rendering(browser);
    await take(one, process.pid, "hand", "websocket");
    pids.push(await renderer(browser, before));
  }
  if (pids[0] === pids[1]) throw new Error("both tabs are of one process");
  await seclude(browser, pids);

  const raw: Record<string, Pair[]> = {};
  for (let number = -WARMING_PAIRS; number < pairs(24); number++) {
    for (const { name, transport, ways } of CELLS) {
      // In turn one or the other tab has the one or the other.
      const swap = Math.abs(number) % 2;
      const before = cores();
      const of = (way: 0 | 1): Promise<Taken> => {
        const place = way ^ swap;
        return take(tabs[place] as Tab, pids[place] as number, ways[way], transport);
      };
      const taken = await Promise.all([of(0), of(1)]);
      if (number >= 0) (raw[name] ??= []).push({ taken, cores: shares(before) });
      const [one, two] = taken.map((it) => Math.round(it.eventsPerS / 1000));
      console.log(`pair ${number}: ${name} ${one} k/s by ${ways[0]}, ${two} k/s by ${ways[1]}`);
    }
  }
  const summary: Record<string, object> = {};
  for (const { name, ways } of CELLS) {
    const all = raw[name] ?? [];
    const of = (key: keyof Taken) => ratio(all.map(({ taken: [one, two] }) => [one[key], two[key]] as const));
    const middle = (look: (pair: Pair) => number): number => median(all.map(look));
    const found = of("eventsPerS");
    summary[name] = {
      pairs: all.length,
      eventsPerS: found,
      cpuPerEvent: of("cpuNsPerEvent"),
      passes: found.ratio >= BOUND,
      medians: ways.map((by, way) => ({
        by,
        eventsPerS: middle(({ taken }) => (taken[way] as Taken).eventsPerS),
        cpuNsPerEvent: middle(({ taken }) => (taken[way] as Taken).cpuNsPerEvent),
        missedShare: middle(({ taken }) => (taken[way] as Taken).missedShare),
      })),
      serverCore: middle(({ cores }) => cores[0]?.busy ?? 0),
      pagesCore: middle(({ cores }) => cores[1]?.busy ?? 0),
      stolen: middle(({ cores }) => cores[1]?.stolen ?? 0),
    };
  }
  record(
    browser,
    "throughput",
    summary,
    { taken: raw },
    "server, and all of the browser but the pages, on core 0; the two pages on core 1",
  );
});

interface Ways {
  take(...given: [string, string, string, number, number]): Promise<Omit<Taken, "cpuNsPerEvent">>;
}
