/**
 * A simulation by seed: tabs that share a connection open, are busy and die, also the one with the connection, while events are
 * published and connections break. Each tab gets each event once and in order, and in the end there is one subscription.
 */

import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { connectTabs } from "../src/tabs.js";
import { hostTabs } from "../src/tabs-host.js";
import { Channel, Context, locks } from "./browser.js";
import { CLOCK, settle } from "./fixture.js";
import { seeded } from "./random.js";
import { World } from "./world.js";

const SEEDS = Number(process.env["THALWEG_SEEDS"] ?? 60);
const STEPS = 60;

interface Tab {
  readonly context: Context;
  readonly seen: number[];
}

beforeEach(() => {
  vi.useFakeTimers(CLOCK);
  vi.stubGlobal("BroadcastChannel", Channel);
  vi.stubGlobal("navigator", { locks });
});

afterEach(() => {
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
  vi.useRealTimers();
});

async function live(seed: number): Promise<void> {
  const random = seeded(seed);
  Context.random = random;
  const upTo = (most: number): number => Math.floor(random() * most);
  const world = new World();
  vi.stubGlobal("WebSocket", world.WebSocket);
  vi.spyOn(Math, "random").mockImplementation(random);
  world.delay = () => upTo(5);
  const window = [0, 200, 4096][upTo(3)] as number;
  const tabs: Tab[] = [];
  let last = 0;

  const openTab = (): void => {
    const context = new Context();
    const seen: number[] = [];
    const isSlow = random() < 0.3;
    context.run(() => {
      const worker = () => ({
        postMessage(message: unknown) {
          if (context.isDead) return;
          const { thalwegTabs } = message as { thalwegTabs: [string, number] };
          const its = new Context();
          context.worker = its;
          // A Worker loads first.
          setTimeout(() => {
            if (!its.isDead) its.end = its.run(() => hostTabs(...thalwegTabs));
          }, 1 + upTo(5));
        },
      });
      const session = connectTabs(worker, "http://server/", { transports: ["websocket"], window });
      session.subscribe<number>("cars", { from: "earliest" }, ({ events, gap }) => {
        expect(gap).toBeNull();
        seen.push(...events);
        if (isSlow) return new Promise((done) => setTimeout(done, random() < 0.03 ? 6000 : upTo(20)));
      });
    });
    tabs.push({ context, seen });
  };

  openTab();
  for (let step = 0; step < STEPS; step++) {
    const what = random();
    if (what < 0.5) world.publish("cars", ...Array.from({ length: 1 + upTo(3) }, () => ++last));
    else if (what < 0.65 && tabs.length < 6) openTab();
    else if (what < 0.8 && tabs.length > 1) tabs.splice(upTo(tabs.length), 1)[0]?.context.kill();
    else if (what < 0.84) world.cut();
    await settle(random() < 0.7 ? upTo(10) : upTo(300));
  }
  await settle(90_000);
  // Tabs that are at different positions meet when no event comes.
  const all = Array.from({ length: last }, (_, index) => index + 1);
  for (const { seen } of tabs) expect(seen, `seed ${seed}`).toEqual(all);
  const carried = [...world.listeners].flatMap(({ cursors }) => [...cursors.keys()]);
  expect(carried, `seed ${seed}`).toEqual(["cars"]);
  for (const { context } of tabs) context.kill();
  await settle(10);
}

it(`${SEEDS} browsers`, async () => {
  const only = process.env["THALWEG_SEED"];
  for (let seed = 1; seed <= SEEDS; seed++) {
    await live(only ? Number(only) : seed);
    if (only) return;
  }
});
