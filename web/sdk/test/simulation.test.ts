/**
 * Worlds by seed: topics are published to, given up and taken again, connections cut,
 * transports blocked and silent, tabs hidden, the transport switched by hand. Whatever happens, each subscription
 * has every event once and in order, or was told how many it missed. Each subscription to a
 * value topic has only documents that were published, in order, and the newest in the end, also
 * where patches are wrong on their way.
 */

import { afterEach, beforeAll, beforeEach, expect, it, vi } from "vitest";
import { connect, type Subscription, type TransportName } from "../dist/thalweg.js";
import { storage, type Tab, tab } from "./fixture.js";
import { seeded } from "./random.js";
import { type Way, World } from "./world.js";

const SEEDS = Number(process.env["THALWEG_SEEDS"] ?? 200);
const STEPS = 60;
const WAYS: Way[] = ["websocket", "http-streaming", "sse", "long-polling"];
const TOPICS = ["a", "b", "c"];
const VALUES = ["v", "w"];

let world: World;
let page: Tab;

// What loads them in a page takes real time, and these worlds have none.
beforeAll(() => import("../dist/deltas.js"));

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date"] });
  page = tab();
});

afterEach(() => {
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
  vi.useRealTimers();
});

async function settle(ms = 0): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms);
  for (let turn = 0; turn < 30; turn++) await Promise.resolve();
  await vi.advanceTimersByTimeAsync(0);
}

/** What one subscriber has had; throws as soon as it is wrong. */
class Account {
  next: number | null = null;
  missed = 0;
  had = 0;
  /** @param trimmed - how many events have been forgotten by now. */
  take(first: number, events: readonly unknown[], missed: number | null, trimmed: number): void {
    // It begins with the earliest.
    if (this.next === null && missed === null) expect(first).toBeLessThanOrEqual(trimmed + 1);
    if (missed !== null && this.next !== null) this.next += missed;
    if (this.next !== null) expect(first).toBe(this.next);
    events.forEach((event, index) => expect(event).toBe(first + index));
    this.next = first + events.length;
    this.had += events.length;
    this.missed += missed ?? 0;
  }
}

/** What happens to patches on their way. */
const TREATMENTS: World["treat"][] = [
  (operations, previous) => ({ operations, previous }),
  (operations, previous) => ({ operations, previous: previous + 1 }),
  (operations, previous) => ({ operations: [...operations, { op: "remove", path: "/nothing" }], previous }),
];

/** With its members in one order. */
function sorted(document: object): [string, unknown][] {
  return Object.entries(document).sort(([one], [other]) => (one < other ? -1 : 1));
}

async function live(seed: number): Promise<void> {
  const random = seeded(seed);
  vi.spyOn(Math, "random").mockImplementation(random);
  world.delay = random() < 0.5 ? () => 0 : () => Math.floor(random() * 300);
  const upTo = (most: number): number => Math.floor(random() * most);
  const session = connect("http://server/", {
    fetch: world.fetch as typeof fetch,
    window: [0, 200, 4096][upTo(3)] as number,
    volume: random() < 0.3 ? "high" : "normal",
    ...(random() < 0.3 && { token: async () => "token" }),
  });
  const accounts = new Map<string, Account>();
  const subscriptions = new Map<string, Subscription<unknown>>();
  const counts = new Map<string, number>();
  const publish = (topic: string): void => {
    const events = Array.from({ length: 1 + upTo(3) }, () => {
      counts.set(topic, (counts.get(topic) ?? 0) + 1);
      return counts.get(topic);
    });
    world.publish(topic, ...events);
  };
  const wrong: unknown[] = [];
  const subscribe = (topic: string): void => {
    if (accounts.has(topic)) return;
    const account = new Account();
    accounts.set(topic, account);
    const subscription = session.subscribe(topic, { from: "earliest" }, async ({ first, events, gap }) => {
      try {
        account.take(first, events, gap && gap.missed, world.topics.get(topic)?.trimmed ?? 0);
      } catch (error) {
        wrong.push(error);
      }
      if (random() < 0.2) await new Promise((go) => setTimeout(go, upTo(200)));
    });
    subscriptions.set(topic, subscription);
  };
  /** Documents by their positions. */
  const published = new Map<string, string>();
  const versions = new Map<string, { subscription: Subscription<unknown>; offset: number; json: string }>();
  let document: Record<string, unknown> = {};
  let timeline: number[] = [];
  for (const topic of VALUES) world.values.add(topic);
  const replace = (topic: string): void => {
    timeline = [timeline.length, ...timeline];
    document = { ...document, topic, timeline, [`m${upTo(4)}`]: [upTo(9), { [`n${upTo(3)}`]: upTo(9) }] };
    if (random() < 0.2) delete document[`m${upTo(4)}`];
    const { position } = world.publish(topic, document) as { position: string };
    published.set(topic + position, JSON.stringify(sorted(document)));
  };
  const watch = (topic: string): void => {
    if (versions.has(topic)) return;
    const it = { offset: 0, json: "" } as { subscription: Subscription<unknown>; offset: number; json: string };
    versions.set(topic, it);
    it.subscription = session.subscribe(topic, {}, async ({ position, events, gap }) => {
      const json = JSON.stringify(sorted(events[0] as object));
      const offset = Number(position.split(".")[1]);
      const isRight = events.length === 1 && !gap && offset >= it.offset && json === published.get(topic + position);
      if (!isRight) wrong.push([topic, position, json, published.get(topic + position), it.offset]);
      Object.assign(it, { offset, json });
      if (random() < 0.2) await new Promise((go) => setTimeout(go, upTo(200)));
    });
  };
  const turnAway = (topic: string): void => {
    versions.get(topic)?.subscription.close();
    versions.delete(topic);
  };
  const leave = (topic: string): void => {
    subscriptions.get(topic)?.close();
    accounts.delete(topic);
  };
  const steps: (() => void)[] = [
    () => publish(TOPICS[upTo(3)] as string),
    () => publish(TOPICS[upTo(3)] as string),
    () => subscribe(TOPICS[upTo(3)] as string),
    () => leave(TOPICS[upTo(3)] as string),
    () => {
      const topic = TOPICS[upTo(3)] as string;
      leave(topic);
      subscribe(topic);
    },
    () => world.cut(),
    () => void world.blocked.add(WAYS[upTo(4)] as Way),
    () => void world.silent.add(WAYS[upTo(4)] as Way),
    () => (world.blocked.clear(), world.silent.clear()),
    () => page.hide(!page.hidden),
    () => session.use(WAYS[upTo(4)] as TransportName),
    () => session.use(null),
    () => world.trim(TOPICS[upTo(3)] as string, upTo(5)),
    () => world.heartbeat(),
    () => world.close(1001, "draining", true),
    () => page.dispatchEvent(new Event("online")),
    () => replace(VALUES[upTo(2)] as string),
    () => replace(VALUES[upTo(2)] as string),
    () => watch(VALUES[upTo(2)] as string),
    () => watch(VALUES[upTo(2)] as string),
    () => turnAway(VALUES[upTo(2)] as string),
    () => (world.treat = TREATMENTS[upTo(TREATMENTS.length)] as World["treat"]),
  ];
  for (let step = 0; step < STEPS; step++) {
    (steps[upTo(steps.length)] as () => void)();
    await settle(random() < 0.5 ? 0 : upTo(20_000));
  }
  // All is well again: then everybody has everything, or knows how much is gone.
  world.blocked.clear();
  world.silent.clear();
  world.treat = (operations, previous) => ({ operations, previous });
  for (const topic of VALUES) replace(topic);
  page.hide(false);
  for (let minute = 0; minute < 10; minute++) {
    world.heartbeat();
    await settle(25_000);
  }
  expect(wrong, `seed ${seed}`).toEqual([]);
  for (const [topic, account] of accounts) {
    const published = counts.get(topic) ?? 0;
    // Of what was forgotten before the subscription nobody is told.
    const isGone = account.next === null && !world.topics.get(topic)?.events.length;
    if (!isGone) expect(account.next, `seed ${seed}, ${topic}`).toBe(published + 1);
    expect(world.listeners.size, `seed ${seed}`).toBeLessThanOrEqual(1);
  }
  for (const [topic, { offset, json }] of versions) {
    const newest = `${world.epoch}.${world.topics.get(topic)?.events.length}`;
    expect([offset, json], `seed ${seed}, ${topic}`).toEqual([
      world.topics.get(topic)?.events.length,
      published.get(topic + newest),
    ]);
  }
  session.close();
  await settle();
  expect(world.listeners.size, `seed ${seed}`).toBe(0);
}

it(`${SEEDS} worlds`, { timeout: 120_000 }, async () => {
  const only = process.env["THALWEG_SEED"];
  for (let seed = 1; seed <= SEEDS; seed++) {
    world = new World();
    vi.stubGlobal("WebSocket", world.WebSocket);
    vi.stubGlobal("EventSource", world.EventSource);
    vi.stubGlobal("sessionStorage", storage());
    page.hidden = false;
    await live(only ? Number(only) : seed);
    if (only) return;
  }
});
