/** One sample of experiment A1: connections that receive the rows of a source. */

import { type Batch, connect, type Session } from "thalweg";
import { foreverFrame } from "thalweg/forever-frame";
import { topic } from "../live/topics.js";
import { token } from "../server.js";
import { watch } from "./busy.js";
import { type Cell, WARM_UP_MS } from "./plan.js";
import type { RowsSample } from "./sample.js";
import { sleep } from "./sleep.js";
import { quantile } from "./statistics.js";

/** Time that a connection may take to deliver its first row, ms. */
const TIMEOUT_MS = 10_000;
const TELL_MS = 200;
/** The column with the due time of a row, µs of the server's clock. */
const DUE = 1;

/** The total of all connections of a sample. */
class Taken {
  events = 0;
  bytes = 0;
  batches = 0;
  missed = 0;
  /** Time from due to received, ms. The clocks of server and browser differ by an unknown constant. */
  apartMs: number[] = [];

  take({ events, bytes, gap }: Batch<unknown>): void {
    this.missed += gap?.missed ?? 0;
    if (!events.length) return;
    this.events += events.length;
    this.bytes += bytes;
    this.batches += 1;
    const due = (events[0] as unknown[])[DUE];
    if (typeof due === "number") this.apartMs.push(performance.now() - due / 1000);
  }
}

/** Measures one sample. @param onProgress - receives the rate, events/s. @throws Error with a sentence, even if the signal aborts. */
export async function sampleRows(
  { transport, batch, connections }: Cell,
  seconds: number,
  signal: AbortSignal,
  onProgress: (eventsPerS: number) => void,
): Promise<RowsSample> {
  const name = `lab/rows/${batch}`;
  const sessions: Session[] = [];
  let taken = new Taken();
  try {
    const begun = Array.from({ length: connections }, () => {
      const way = transport === "forever-frame" ? foreverFrame : transport;
      const session = connect(".", { transports: [way], token, hiddenInterval: 0 });
      sessions.push(session);
      return new Promise<void>((go) => {
        session.subscribe(name, {}, (batch) => {
          go();
          taken.take(batch);
        });
      });
    });
    await inTime(begun, signal);
    await sleep(WARM_UP_MS, signal);

    const before = await made(name);
    const busy = watch();
    taken = new Taken();
    const begunMs = performance.now();
    for (let leftMs = seconds * 1000; leftMs > 0; leftMs = begunMs + seconds * 1000 - performance.now()) {
      await sleep(Math.min(TELL_MS, leftMs), signal);
      onProgress((taken.events * 1000) / (performance.now() - begunMs));
    }
    const all = taken;
    taken = new Taken();
    const spanMs = performance.now() - begunMs;
    const share = busy();
    const after = await made(name);
    const least = all.apartMs.reduce((least, ms) => Math.min(least, ms), Infinity);
    return {
      kind: "rows",
      spanMs,
      eventsPerS: (all.events * 1000) / spanMs,
      bytesPerS: (all.bytes * 1000) / spanMs,
      batchesPerS: (all.batches * 1000) / spanMs,
      madePerS: before && after ? ((after.offset - before.offset) * 1000) / (after.atMs - before.atMs) : null,
      missed: all.missed,
      laterP50Ms: quantile(all.apartMs, 0.5) - least,
      laterP99Ms: quantile(all.apartMs, 0.99) - least,
      busy: share,
    };
  } finally {
    for (const session of sessions) session.close();
  }
}

/** Returns the newest offset, and when it was read. It is the number of events sent, because offsets are consecutive. */
async function made(name: string): Promise<{ offset: number; atMs: number } | null> {
  const askedMs = performance.now();
  const known = await topic(name).catch(() => null);
  const offset = Number(known?.position?.split(".")[1]);
  return Number.isFinite(offset) ? { offset, atMs: (askedMs + performance.now()) / 2 } : null;
}

async function inTime(begun: readonly Promise<void>[], signal: AbortSignal): Promise<void> {
  let open = 0;
  for (const one of begun) void one.then(() => (open += 1));
  const late = async (): Promise<never> => {
    await sleep(TIMEOUT_MS, signal);
    throw new Error(
      `${begun.length - open} of ${begun.length} connections received no event within ${TIMEOUT_MS / 1000} s`,
    );
  };
  await Promise.race([Promise.all(begun), late()]);
}
