/**
 * Events a second into a page, by the SDK and by hand, in pairs, in one tab. The server has
 * more than a page can take: what bounds is the browser's core, which is said with each.
 */

import { test } from "../harness/tab.js";
import { cores, shares } from "./process.js";
import { pairs, record } from "./record.js";
import { median, ratio } from "./statistics.js";

const TRANSPORTS = ["websocket", "sse", "http-streaming"] as const;
const WAYS = ["sdk", "hand"] as const;
const WARMING_MS = 400;
const SPAN_MS = 1000;
/** A sample is taken again while another machine had more than this of the browser's core. */
const STOLEN_MAX = 0.1;
const AGAIN_MAX = 1;
/** What is hot is compiled after so many pairs, which do not count. */
const WARMING_PAIRS = 2;
const BOUND = 0.95;

interface Taken {
  readonly eventsPerS: number;
  /** Of what the server had, the part that did not come: it could have given more. */
  readonly missedShare: number;
  readonly cores: { busy: number; stolen: number }[];
}

// The page is of another origin than the data, which goes past the network.
test.use({
  core: 0,
  args: ["--source", "fast=constant,batch=1000,interval=1ms", "--history-bytes", "64MiB", "--allow-origin", "*"],
});

test("throughput", async ({ browser, network, server, tab }) => {
  await tab.open(`${network.origin}/e2e/throughput.html`);
  await tab.until(() => "take" in globalThis);
  let again = 0;
  const take = async (by: string, transport: string): Promise<Taken> => {
    for (let more = AGAIN_MAX; ; more--) {
      const before = cores();
      const taken = await tab.evaluate(
        (...given) => (globalThis as never as Ways).take(...given),
        by,
        transport,
        server.origin,
        WARMING_MS,
        SPAN_MS,
      );
      const load = shares(before);
      if ((load[1]?.stolen ?? 0) <= STOLEN_MAX || !more) return { ...taken, cores: load };
      again++;
    }
  };
  const raw: Record<string, Record<string, Taken>[]> = {};
  for (let pair = -WARMING_PAIRS; pair < pairs(60); pair++) {
    for (const transport of TRANSPORTS) {
      const taken: Record<string, Taken> = {};
      // In turn one or the other comes first.
      for (const by of pair % 2 ? WAYS : [...WAYS].reverse()) taken[by] = await take(by, transport);
      if (pair >= 0) (raw[transport] ??= []).push(taken);
      const [sdk, hand] = WAYS.map((by) => Math.round((taken[by]?.eventsPerS ?? 0) / 1000));
      console.log(`pair ${pair}: ${transport} ${sdk} k/s by the SDK, ${hand} k/s by hand`);
    }
  }
  const summary: Record<string, object> = {};
  for (const transport of TRANSPORTS) {
    const all = raw[transport] ?? [];
    const of = (by: string, key: (taken: Taken) => number): number[] => all.map((it) => key(it[by] as Taken));
    const found = ratio(all.map((it) => [(it["sdk"] as Taken).eventsPerS, (it["hand"] as Taken).eventsPerS]));
    summary[transport] = {
      pairs: all.length,
      ...found,
      passes: found.ratio >= BOUND,
      ...Object.fromEntries(
        WAYS.map((by) => [
          by,
          {
            eventsPerS: median(of(by, (it) => it.eventsPerS)),
            missedShare: median(of(by, (it) => it.missedShare)),
            serverCore: median(of(by, (it) => it.cores[0]?.busy ?? 0)),
            browserCore: median(of(by, (it) => it.cores[1]?.busy ?? 0)),
            stolen: median(of(by, (it) => it.cores[1]?.stolen ?? 0)),
          },
        ]),
      ),
    };
  }
  record(browser, "throughput", { ...summary, again }, { taken: raw });
});

interface Ways {
  take(...given: [string, string, string, number, number]): Promise<Omit<Taken, "cores">>;
}
