/**
 * A tab on a sixth of a core at 100,000 events a second over WebSocket: with the SDK its
 * memory and the age of its data are bounded, and what it misses is announced. Beside it the
 * same page with a raw WebSocket, from the same server (`raw`), and from one as they are
 * written, which sends and does not look back (`plain`). Ends what drowns at 1.5 GB.
 */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as after } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { expect, test } from "../harness/tab.js";
import { type Memory, memory, renderer, whole } from "./process.js";
import { record, seconds } from "./record.js";
import { median, quantile, slope } from "./statistics.js";

const EVENTS_PER_S = 100_000;
const SLOWER = 6;
const BYTES_MAX = 1.5e9;
const MEMORY_GROWTH_MAX = 50 * 1024 * 1024;
/** Does not grow by more than this in a second of measuring, ms. */
const AGE_SLOPE_MAX_MS = 10;
const LOOK_MS = 500;
const FIRST_LOOKS = 20;
/** Fills and compiles; not judged. */
const WARMING = 0.25;

/** What the page says of itself at each drawing. */
interface Said {
  readonly atMs: number;
  readonly count: number;
  readonly missed: number;
  /** When the newest event was due, µs of the machine's monotonic clock. */
  readonly due: number | null;
}

interface Look extends Memory {
  readonly s: number;
  /** Proportional, of all of the browser's processes. */
  readonly whole: number;
  /** Resident, of the server. */
  readonly server: number;
}

// The page is of another origin than the data, which goes past the proxy.
test.use({ core: 0, args: ["--source", "rows=constant,batch=100,interval=1ms", "--allow-origin", "*"] });

for (const by of ["sdk", "raw", "plain"] as const) {
  test(by, async ({ browser, network, server, tab }) => {
    const span = seconds(120);
    await tab.send("Emulation.setCPUThrottlingRate", { rate: SLOWER });
    const plain = by === "plain" ? await plainServer() : null;
    const origin = plain?.origin ?? server.origin;
    await tab.open(`${network.origin}/e2e/drown.html?by=${by}&origin=${origin}`);
    const begunMs = Date.now();
    const monotonicMs = Number(process.hrtime.bigint()) / 1e6 - begunMs;
    const said = (): Said[] => tab.debug.map((text) => JSON.parse(text) as Said);
    // A page that drowns may never get to say anything.
    for (let looked = 0; looked < FIRST_LOOKS && !said().at(-1)?.count; looked++) await after(LOOK_MS);
    const pid = await renderer(browser);
    const all = await whole(browser);
    const looks: Look[] = [];
    const since = (): number => (Date.now() - begunMs) / 1000;
    const most = (): number => Math.max(looks.at(-1)?.whole ?? 0, looks.at(-1)?.server ?? 0);
    while (since() < span && most() < BYTES_MAX) {
      looks.push({ s: since(), ...memory(pid), whole: all(), server: memory((plain ?? server).pid).rss });
      await after(LOOK_MS);
    }
    plain?.stop();
    const ended = since();
    const begins = ended * WARMING;
    const ages = said().flatMap(({ atMs, due }): [number, number][] => {
      const s = (atMs - begunMs) / 1000;
      return due === null || s < begins ? [] : [[s, atMs + monotonicMs - due / 1000]];
    });
    const part = (ended - begins) / 4;
    const of = (key: "rss" | "whole" | "server", from: number): number =>
      median(looks.filter(({ s }) => s >= from && s < from + part).map((look) => look[key]));
    const last = said().at(-1);
    const summary = {
      by,
      eventsPerS: EVENTS_PER_S,
      slower: SLOWER,
      seconds: ended,
      rssBytes: {
        first: of("rss", begins),
        last: of("rss", ended - part),
        most: Math.max(...looks.map(({ rss }) => rss)),
      },
      wholeBytes: { first: of("whole", begins), last: of("whole", ended - part) },
      serverBytes: { first: of("server", begins), last: of("server", ended - part) },
      growthBytes: of("rss", ended - part) - of("rss", begins),
      ageMs: {
        p50: quantile(
          ages.map(([, age]) => age),
          0.5,
        ),
        most: Math.max(...ages.map(([, age]) => age)),
        slopePerS: slope(ages),
      },
      drawings: said().length,
      stillMsMost: stillMost([begunMs, ...said().map(({ atMs }) => atMs), begunMs + ended * 1000]),
      count: last?.count,
      missed: last?.missed,
    };
    const isFlat = summary.growthBytes < MEMORY_GROWTH_MAX && most() < BYTES_MAX;
    const isCurrent = summary.ageMs.slopePerS < AGE_SLOPE_MAX_MS;
    const passes = { isFlat, isCurrent, isTold: (last?.missed ?? 0) > 0 };
    record(browser, `slow-${by}`, { ...summary, passes }, { looks, said: said() });
    if (by === "sdk") expect(passes).toEqual({ isFlat: true, isCurrent: true, isTold: true });
  });
}

/** The longest time between two of these. */
function stillMost(times: readonly number[]): number {
  return Math.max(...times.slice(1).map((time, index) => time - (times[index] as number)));
}

interface Plain {
  readonly origin: string;
  readonly pid: number;
  stop(): void;
}

/** Where Thalweg's server is, on core 0. */
async function plainServer(): Promise<Plain> {
  const path = fileURLToPath(new URL("plain-server.js", import.meta.url));
  const child = spawn("taskset", ["-c", "0", "node", path], { stdio: ["ignore", "pipe", "inherit"] });
  // Also if what measures fails.
  process.once("exit", () => void child.kill());
  const [port] = (await once(child.stdout, "data")) as [Buffer];
  return { origin: `http://127.0.0.1:${Number(port)}`, pid: child.pid ?? 0, stop: () => void child.kill() };
}
