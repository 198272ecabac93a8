/**
 * A simulation by seed. Topics are published to, left and subscribed to again by two subscribers that share them;
 * connections break, transports are blocked or silent, tabs are hidden, the transport is switched by hand, and
 * envelopes are lost. In every case a subscription gets each event once and in order, or a gap with the number of
 * missed events (without the number if offsets are not consecutive). A subscription to a value topic gets only
 * published documents, in order, and finally the newest, even if patches are corrupted.
 */

import { beforeAll, expect, it, vi } from "vitest";
import { type Batch, connect, type Subscription, type TransportName } from "../dist/thalweg.js";
import { page, settle, storage, usePage } from "./fixture.js";
import { seeded } from "./random.js";
import { type Way, World } from "./world.js";

const SEEDS = Number(process.env["THALWEG_SEEDS"] ?? 200);
const STEPS = 60;
const WAYS: Way[] = ["websocket", "http-streaming", "sse", "long-polling"];
const TOPICS = ["a", "b", "c", "d"];
const SPARSE = ["c", "d"];
const VALUES = ["v", "w"];

let world: World;

// In a page, loading the module for patches takes real time. These worlds have none.
beforeAll(() => import("../dist/deltas.js"));

usePage();

/** The events of one subscriber. Throws at the first wrong one. */
class Account {
  /** Number of the next event, from 0. */
  next: number | null = null;
  /** @param published - the offset of each event n, whose value is n + 1. @param forgotten - deleted events. */
  take({ first, events, offsets, gap }: Batch<unknown>, published: readonly number[], forgotten: number): void {
    const start = published.filter((offset) => offset < first).length;
    if (this.next === null) {
      // It begins with the earliest event, or at the position of the others.
      if (!gap) expect(start).toBeLessThanOrEqual(forgotten);
    } else if (gap) {
      expect(start).toBeGreaterThan(this.next);
      const offset = (number: number): number => published[number] ?? 0;
      // An envelope that begins in the middle of a publish does not report holes before that.
      const isCounted =
        gap.reason === "unannounced" ? offset(start - 1) === first - 1 : published.length === published.at(-1);
      expect(gap.missed).toBe(isCounted ? first - 1 - offset(this.next - 1) : null);
    } else {
      expect(start).toBe(this.next);
    }
    if (events.length) expect(first).toBe(published[start]);
    events.forEach((event, index) => {
      expect(event).toBe(start + index + 1);
      expect(offsets?.[index] ?? first + index).toBe(published[start + index]);
    });
    this.next = start + events.length;
  }
}

const TREATMENTS: World["treat"][] = [
  (operations, previous) => ({ operations, previous }),
  (operations, previous) => ({ operations, previous: previous + 1 }),
  (operations, previous) => ({ operations: [...operations, { op: "remove", path: "/nothing" }], previous }),
];

function sorted(document: object): [string, unknown][] {
  return Object.entries(document).sort(([one], [other]) => (one < other ? -1 : 1));
}

async function live(seed: number): Promise<void> {
  const random = seeded(seed);
  vi.spyOn(Math, "random").mockImplementation(random);
  world.delay = random() < 0.5 ? () => 0 : () => Math.floor(random() * 300);
  const upTo = (most: number): number => Math.floor(random() * most);
  if (random() < 0.5) world.most = () => 1 + upTo(4);
  const isLossy = random() < 0.3;
  if (isLossy) world.loses = () => random() < 0.1;
  const session = connect("http://server/", {
    fetch: world.fetch as typeof fetch,
    window: [0, 200, 4096][upTo(3)] as number,
    volume: random() < 0.3 ? "high" : "normal",
    ...(random() < 0.3 && { token: async () => "token" }),
  });
  const accounts = new Map<string, Account>();
  const subscriptions = new Map<string, Subscription<unknown>>();
  const offsets = new Map(TOPICS.map((topic) => [topic, [] as number[]]));
  const offsetsOf = (topic: string): number[] => offsets.get(topic) as number[];
  for (const topic of SPARSE) world.sparse.add(topic);
  const publish = (topic: string): void => {
    const its = offsetsOf(topic);
    const events = Array.from({ length: 1 + upTo(3) }, (_, index) => its.length + index + 1);
    const { first } = world.publish(topic, ...events) as { first: number };
    its.push(...events.map((_, index) => first + index));
  };
  const wrong: unknown[] = [];
  /** `isOther`: joins the first one and begins at its position. */
  const subscribe = (topic: string, isOther = false): void => {
    const key = isOther ? `${topic}, other` : topic;
    // The first one begins with the earliest event. One that joins another cannot.
    const isFirst = !accounts.has(topic) && !accounts.has(`${topic}, other`);
    if (accounts.has(key) || isFirst === isOther) return;
    const account = new Account();
    accounts.set(key, account);
    const subscription = session.subscribe(topic, isOther ? {} : { from: "earliest" }, async (batch) => {
      try {
        const { trimmed = 0 } = world.topics.get(topic) ?? {};
        const its = offsetsOf(topic);
        account.take(batch, its, isOther ? Infinity : its.filter((offset) => offset <= trimmed).length);
      } catch (error) {
        wrong.push(error);
      }
      if (random() < 0.2) await new Promise((go) => setTimeout(go, upTo(200)));
    });
    subscriptions.set(key, subscription);
  };
  /** Documents by position. */
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
  const watch = (topic: string, key = topic): void => {
    if (versions.has(key)) return;
    const it = { offset: 0, json: "" } as { subscription: Subscription<unknown>; offset: number; json: string };
    versions.set(key, it);
    it.subscription = session.subscribe(topic, {}, async ({ position, events, gap }) => {
      const json = JSON.stringify(sorted(events[0] as object));
      const offset = Number(position.split(".")[1]);
      const isRight = events.length === 1 && !gap && offset >= it.offset && json === published.get(topic + position);
      if (!isRight) wrong.push([topic, position, json, published.get(topic + position), it.offset]);
      Object.assign(it, { offset, json });
      if (random() < 0.2) await new Promise((go) => setTimeout(go, upTo(200)));
    });
  };
  const turnAway = (key: string): void => {
    versions.get(key)?.subscription.close();
    versions.delete(key);
  };
  const leave = (key: string): void => {
    subscriptions.get(key)?.close();
    accounts.delete(key);
  };
  const steps: (() => void)[] = [
    () => publish(TOPICS[upTo(TOPICS.length)] as string),
    () => publish(TOPICS[upTo(TOPICS.length)] as string),
    () => subscribe(TOPICS[upTo(TOPICS.length)] as string),
    () => leave(TOPICS[upTo(TOPICS.length)] as string),
    () => subscribe(TOPICS[upTo(TOPICS.length)] as string, true),
    () => leave(`${TOPICS[upTo(TOPICS.length)]}, other`),
    () => {
      const topic = TOPICS[upTo(TOPICS.length)] as string;
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
    () => {
      // The other connection delivers several of these batches together.
      const topic = TOPICS[upTo(TOPICS.length)] as string;
      publish(topic);
      publish(topic);
      session.use(WAYS[upTo(4)] as TransportName);
    },
    () => world.trim(TOPICS[upTo(TOPICS.length)] as string, upTo(5)),
    () => world.heartbeat(),
    () => world.close(1001, "draining", true),
    () => page.dispatchEvent(new Event("online")),
    () => replace(VALUES[upTo(2)] as string),
    () => replace(VALUES[upTo(2)] as string),
    () => watch(VALUES[upTo(2)] as string),
    () => watch(VALUES[upTo(2)] as string),
    () => turnAway(VALUES[upTo(2)] as string),
    () => {
      const topic = VALUES[upTo(2)] as string;
      watch(topic, `${topic}, other`);
    },
    () => turnAway(`${VALUES[upTo(2)]}, other`),
    () => (world.treat = TREATMENTS[upTo(TREATMENTS.length)] as World["treat"]),
  ];
  for (let step = 0; step < STEPS; step++) {
    (steps[upTo(steps.length)] as () => void)();
    await settle(random() < 0.5 ? 0 : upTo(20_000));
  }
  // The network works again: each subscriber must get everything, or know the size of the gap.
  world.blocked.clear();
  world.silent.clear();
  world.treat = (operations, previous) => ({ operations, previous });
  world.loses = () => false;
  // A lost envelope is noticed with the next one.
  if (isLossy) for (const topic of TOPICS) publish(topic);
  for (const topic of VALUES) replace(topic);
  page.hide(false);
  for (let minute = 0; minute < 10; minute++) {
    world.heartbeat();
    await settle(25_000);
  }
  expect(wrong, `seed ${seed}`).toEqual([]);
  for (const [key, account] of accounts) {
    const [topic = ""] = key.split(",");
    // Events deleted before a subscription, and events before it joined another, are not reported.
    const isGone = account.next === null && (key !== topic || !world.topics.get(topic)?.events.length);
    if (!isGone) expect(account.next, `seed ${seed}, ${key}`).toBe(offsetsOf(topic).length);
    expect(world.listeners.size, `seed ${seed}`).toBeLessThanOrEqual(1);
  }
  for (const [key, { offset, json }] of versions) {
    const [topic = ""] = key.split(",");
    const newest = `${world.epoch}.${world.topics.get(topic)?.events.length}`;
    expect([offset, json], `seed ${seed}, ${key}`).toEqual([
      world.topics.get(topic)?.events.length,
      published.get(topic + newest),
    ]);
  }
  session.close();
  await settle();
  expect(world.listeners.size, `seed ${seed}`).toBe(0);
}

it(`${SEEDS} worlds`, async () => {
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
