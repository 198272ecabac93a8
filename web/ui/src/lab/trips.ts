/** One sample of experiment B. A round trip lasts from the page's ack of a record to the arrival of the next record. */

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

/** Warm-up trips, which are not counted. */
const WARM_UP_TRIPS = 20;
/** Time that the page waits for a record, ms. */
const TIMEOUT_MS = 10_000;
/** Number of attempts to find a free topic, and the time between two attempts, ms. */
const ATTEMPTS_MAX = 10;
const AGAIN_MS = 100;

/** Measures one sample. @param onProgress - receives the number of trips done. @throws Error with a sentence, even if the signal aborts. */
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
    // Each trip sends its own ack: acks for a window would distort the measurement.
    window: 0,
    onStatus: ({ state }) => state === "open" && opened(),
  });
  const each: number[] = [];
  let count = 0;
  let sentMs = Number.NaN;
  let receivedMs = performance.now();
  let busy: ReturnType<typeof watch> | undefined;
  try {
    await new Promise<void>((done, fail) => {
      signal.addEventListener("abort", () => fail(signal.reason as Error), { once: true });
      timeout(() => performance.now() - receivedMs, signal).catch(() => {
        const { state, reason } = session.status;
        fail(new Error(`no record arrived within ${TIMEOUT_MS / 1000} s after ${count} records (${reason ?? state})`));
      });
      const subscription = session.subscribe(topic, { from: position }, ({ events, gap }: Batch<unknown>) => {
        receivedMs = performance.now();
        if (gap) fail(new Error("a gap between two records: another client runs this experiment too"));
        if (!events.length) return;
        count += 1;
        if (count > WARM_UP_TRIPS + 1) each.push(receivedMs - sentMs);
        if (count === WARM_UP_TRIPS + 1) busy = watch();
        if (each.length === trips) {
          done();
          return;
        }
        if (each.length % 50 === 0) onProgress(each.length);
        // The batch counts as processed when this listener returns.
        queueMicrotask(() => {
          sentMs = performance.now();
          subscription.ack();
        });
      });
      // An ack of the current position makes the server send the first record.
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

/** Returns a topic of the source `runner` without subscribers, and its position. */
async function freeRunner(signal: AbortSignal): Promise<{ topic: string; position: string }> {
  for (let attempt = 1; ; attempt++) {
    const all = (await topics("lab/runner/")).topics.filter(({ topic }) => RUNNER.test(topic));
    // A source feeds the topic, so the server knows its position.
    const found = all.find(({ subscribers, position }) => subscribers === 0 && position !== null);
    if (found?.position) return { topic: found.topic, position: found.position };
    if (!all.length) throw new Error("the server has no source for this experiment");
    if (attempt === ATTEMPTS_MAX) throw new Error("every source is in use: close other tabs with the lab");
    // The topic of the previous sample may become free in a moment.
    await sleep(AGAIN_MS, signal);
  }
}

async function kick(topic: string, position: string): Promise<void> {
  const response = await request("v1/commands", { method: "POST", body: { command: "ack", topic, position } });
  if (!response.ok) throw new Error(await errorMessage(response));
}

async function timeout(silentMs: () => number, signal: AbortSignal): Promise<never> {
  for (;;) {
    await sleep(TIMEOUT_MS / 4, signal);
    if (silentMs() > TIMEOUT_MS) throw new Error("silent");
  }
}
