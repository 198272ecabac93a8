/**
 * One sample of experiment B: the server sends a Runner, the page acks it, and only then
 * comes the next. A round trip is from an ack to the Runner that follows it.
 */

import { type Batch, connect } from "thalweg";
import { foreverFrame } from "thalweg/forever-frame";
import { topics } from "../live/topics.js";
import { errorMessage, request, token } from "../server.js";
import { watch } from "./busy.js";
import { RUNNER } from "./offer.js";
import type { Cell } from "./plan.js";
import type { TripsSample } from "./sample.js";
import { sleep } from "./sleep.js";
import { quantile } from "./statistics.js";

/** Trips before those that count. */
const WARM_UP_TRIPS = 20;
/** A Runner that has not come by then does not come, ms. */
const TIMEOUT_MS = 10_000;
/** How often a free Runner is looked for, and how long after one another, ms. */
const ATTEMPTS_MAX = 10;
const AGAIN_MS = 100;

/**
 * @param onProgress - hears how many trips are done.
 * @throws Error with a sentence, if no Runner comes; and when the signal is given.
 */
export async function sampleTrips(
  { transport }: Cell,
  trips: number,
  signal: AbortSignal,
  onProgress: (done: number) => void,
): Promise<TripsSample> {
  const { topic, position } = await freeRunner(signal);
  const way = transport === "forever-frame" ? foreverFrame : transport;
  let opened = (): void => {};
  const isOpen = new Promise<void>((go) => (opened = go));
  const session = connect(".", {
    transports: [way],
    token,
    hiddenInterval: 0,
    // Every ack is a trip's: none is sent for a window.
    window: 0,
    onStatus: ({ state }) => state === "open" && opened(),
  });
  const each: number[] = [];
  let count = 0;
  let sentMs = Number.NaN;
  let heardMs = performance.now();
  let busy: ReturnType<typeof watch> | undefined;
  try {
    await new Promise<void>((done, fail) => {
      signal.addEventListener("abort", () => fail(signal.reason as Error), { once: true });
      timeout(() => performance.now() - heardMs, signal).catch(() => {
        const { state, reason } = session.status;
        fail(new Error(`no Runner came in ${TIMEOUT_MS / 1000} s after ${count} (${reason ?? state})`));
      });
      const subscription = session.subscribe(topic, { from: position }, ({ events, gap }: Batch<unknown>) => {
        heardMs = performance.now();
        if (gap) fail(new Error("a gap where one Runner follows the other: somebody else runs this experiment too"));
        if (!events.length) return;
        count += 1;
        if (count > WARM_UP_TRIPS + 1) each.push(heardMs - sentMs);
        if (count === WARM_UP_TRIPS + 1) busy = watch();
        if (each.length === trips) {
          done();
          return;
        }
        if (each.length % 50 === 0) onProgress(each.length);
        // It counts as processed when this function is over.
        queueMicrotask(() => {
          sentMs = performance.now();
          subscription.ack();
        });
      });
      // The first Runner comes with the ack of where one is.
      isOpen.then(() => kick(topic, position)).catch(fail);
    });
    const totalMs = each.reduce((sum, ms) => sum + ms, 0);
    return {
      kind: "trips",
      trips,
      totalMs,
      p50Ms: quantile(each, 0.5),
      p99Ms: quantile(each, 0.99),
      busy: busy?.() ?? { share: 0, longTasks: null },
    };
  } finally {
    busy?.();
    session.close();
  }
}

/** A Runner that nobody else listens to, and where it stands. */
async function freeRunner(signal: AbortSignal): Promise<{ topic: string; position: string }> {
  for (let attempt = 1; ; attempt++) {
    const all = (await topics("lab/runner/")).topics.filter(({ topic }) => RUNNER.test(topic));
    const found = all.find(({ subscribers }) => subscribers === 0);
    if (found) return found;
    if (!all.length) throw new Error("the server has no Runner");
    if (attempt === ATTEMPTS_MAX) throw new Error("every Runner is in use: close other tabs with the lab");
    // The one of the sample before is perhaps about to be free.
    await sleep(AGAIN_MS, signal);
  }
}

async function kick(topic: string, position: string): Promise<void> {
  const response = await request("v1/commands", { method: "POST", body: { command: "ack", topic, position } });
  if (!response.ok) throw new Error(await errorMessage(response));
}

/** Rejects when nothing has come for too long, or nobody wants it any more. */
async function timeout(silentMs: () => number, signal: AbortSignal): Promise<never> {
  for (;;) {
    await sleep(TIMEOUT_MS / 4, signal);
    if (silentMs() > TIMEOUT_MS) throw new Error("silent");
  }
}
