/**
 * A simulation by seed. Keyed topics are published to, and removals are forgotten; fast and slow subscribers join and
 * leave; connections break within a snapshot, transports are switched, and the server restarts. Each map is at each batch
 * a state that its topic had, and in the end the newest one.
 */

import { beforeAll, expect, it, vi } from "vitest";
import { connect, type KeyedBatch, type KeyedSubscription, type TransportName } from "../dist/thalweg.js";
import { page, settle, storage, usePage } from "./fixture.js";
import { seeded } from "./random.js";
import { type Way, World } from "./world.js";

const SEEDS = Number(process.env["THALWEG_SEEDS"] ?? 200);
const STEPS = 60;
const WAYS: Way[] = ["websocket", "http-streaming", "sse", "long-polling"];
const TOPICS = ["cars", "boats"];

/** Situations that must occur in some world. */
const seen = { gaps: 0, late: 0, removed: 0, replacedAfterGap: 0, heldBack: 0 };

// In a page, loading the module for maps takes real time. These worlds have none.
beforeAll(() => import("../dist/keyed.js"));

usePage();

type State = Map<string, unknown>;

function sorted(state: ReadonlyMap<string, unknown>): [string, unknown][] {
  return [...state].sort(([one], [other]) => (one < other ? -1 : 1));
}

/** The events of all topics in all epochs. */
class History {
  readonly #logs = new Map<string, [string, unknown][]>();

  log(topic: string, epoch: string): [string, unknown][] {
    const log = this.#logs.get(topic + epoch) ?? [];
    this.#logs.set(topic + epoch, log);
    return log;
  }

  stateAt(topic: string, position: string): State {
    const [epoch = "", offset] = position.split(".");
    const state: State = new Map();
    for (const [key, event] of this.log(topic, epoch).slice(0, Number(offset))) {
      if (event === null) state.delete(key);
      else state.set(key, event);
    }
    return state;
  }
}

/** One subscriber. Throws at the first wrong batch. */
class Account {
  position: string | null = null;
  #kept: State = new Map();
  #isAfterGap = false;

  constructor(
    readonly topic: string,
    readonly history: History,
  ) {}

  take({ topic, position, changed, removed, isWhole, gap }: KeyedBatch, map: ReadonlyMap<string, unknown>): void {
    expect(topic).toBe(this.topic);
    for (const key of removed) {
      // A subscriber that joined after the others had a gap does not have the keys that they lose.
      const had = this.#kept.delete(key);
      if (this.position) expect(had, `${key} was there`).toBe(true);
    }
    for (const key of changed) this.#kept.set(key, map.get(key));
    expect(sorted(map), "the map has the changes").toEqual(sorted(this.#kept));
    expect(isWhole).toBe(!gap);
    if (gap) {
      expect([...changed, ...removed]).toEqual([]);
      seen.gaps++;
      this.#isAfterGap = true;
      return;
    }
    expect(sorted(map), `at ${position}`).toEqual(sorted(this.history.stateAt(topic, position)));
    const [epoch, offset] = position.split(".");
    const [itsEpoch, itsOffset] = this.position?.split(".") ?? [];
    if (epoch === itsEpoch) expect(Number(offset)).toBeGreaterThanOrEqual(Number(itsOffset));
    if (removed.length) seen[this.#isAfterGap ? "replacedAfterGap" : "removed"]++;
    this.#isAfterGap = false;
    this.position = position;
  }
}

async function live(seed: number, world: World): Promise<void> {
  const random = seeded(seed);
  vi.spyOn(Math, "random").mockImplementation(random);
  const upTo = (most: number): number => Math.floor(random() * most);
  world.delay = random() < 0.5 ? () => 0 : () => upTo(300);
  if (random() < 0.7) world.most = () => 1 + upTo(4);
  if (random() < 0.7) world.pauses = () => (random() < 0.5 ? 0 : upTo(2000));
  if (random() < 0.5) world.repeats = () => random() < 0.5;
  const session = connect("http://server/", {
    fetch: world.fetch as typeof fetch,
    window: [0, 200, 4096][upTo(3)] as number,
    volume: random() < 0.3 ? "high" : "normal",
  });
  const history = new History();
  const wrong: unknown[] = [];
  const readers = new Map<string, { account: Account; subscription: KeyedSubscription<unknown> }>();
  for (const topic of TOPICS) world.keyed.add(topic);
  const keys = 1 + upTo(20);

  const put = (topic: string): void => {
    const log = history.log(topic, world.epoch);
    const key = `${'<é"\n'[upTo(4)]}${upTo(keys)}`;
    const event = random() < 0.25 ? null : { n: log.length };
    log.push([key, event]);
    world.put(topic, key, event);
  };
  const any = (): string => TOPICS[upTo(TOPICS.length)] as string;
  const join = (name: string, topic: string): void => {
    if (readers.has(name)) return;
    if (readers.size) seen.late++;
    const account = new Account(topic, history);
    const isSlow = random() < 0.3;
    const work = async (batch: KeyedBatch): Promise<void> => {
      try {
        account.take(batch, subscription.map);
        const before = sorted(subscription.map);
        if (isSlow) await new Promise((go) => setTimeout(go, upTo(3000)));
        expect(sorted(subscription.map), "the map waits for the page").toEqual(before);
      } catch (error) {
        wrong.push(error);
      }
    };
    const isLoop = random() < 0.5;
    const subscription = session.map(topic, {}, isLoop ? null : work);
    readers.set(name, { account, subscription });
    if (isLoop) {
      void (async () => {
        for await (const batch of subscription) await work(batch);
      })();
    }
  };
  const leave = (name: string): void => {
    readers.get(name)?.subscription.close();
    readers.delete(name);
  };
  const burst = (): void => {
    const topic = any();
    for (let count = upTo(12); count >= 0; count--) put(topic);
  };
  const steps: (() => void)[] = [
    burst,
    burst,
    burst,
    () => put(any()),
    () => put(any()),
    () => join("one", any()),
    () => join("two", any()),
    () => join("three", any()),
    () => leave("one"),
    () => leave("three"),
    () => world.cut(),
    () => world.cut(),
    () => world.purge(any()),
    () => (burst(), world.cut(), burst(), world.purge(any())),
    () => random() < 0.3 && world.restart(),
    () => void world.blocked.add(WAYS[upTo(4)] as Way),
    () => void world.silent.add(WAYS[upTo(4)] as Way),
    () => (world.blocked.clear(), world.silent.clear()),
    () => page.hide(!page.hidden),
    () => session.use(WAYS[upTo(4)] as TransportName),
    () => session.use(null),
    () => world.heartbeat(),
    () => world.close(1001, "draining", true),
  ];
  for (let step = 0; step < STEPS; step++) {
    (steps[upTo(steps.length)] as () => void)();
    await settle(random() < 0.5 ? 0 : upTo(20_000));
    for (const { account, subscription } of readers.values()) {
      const newest = history.stateAt(account.topic, `${world.epoch}.${Infinity}`);
      if (JSON.stringify(sorted(subscription.map)) !== JSON.stringify(sorted(newest))) seen.heldBack++;
    }
  }
  world.blocked.clear();
  world.silent.clear();
  page.hide(false);
  for (let minute = 0; minute < 10; minute++) {
    world.heartbeat();
    await settle(25_000);
  }
  expect(wrong, `seed ${seed}`).toEqual([]);
  for (const [name, { account, subscription }] of readers) {
    const newest = history.stateAt(account.topic, `${world.epoch}.${Infinity}`);
    expect(sorted(subscription.map), `seed ${seed}, ${name}`).toEqual(sorted(newest));
    expect(account.position, `seed ${seed}, ${name}`).not.toBeNull();
  }
  session.close();
  await settle();
  expect(world.listeners.size, `seed ${seed}`).toBe(0);
}

it(`${SEEDS} worlds of maps`, async () => {
  const only = process.env["THALWEG_SEED"];
  for (let seed = 1; seed <= SEEDS; seed++) {
    const world = new World();
    vi.stubGlobal("WebSocket", world.WebSocket);
    vi.stubGlobal("EventSource", world.EventSource);
    vi.stubGlobal("sessionStorage", storage());
    page.hidden = false;
    await live(only ? Number(only) : seed, world);
    if (only) return;
  }
  for (const [situation, count] of Object.entries(seen)) expect(count, situation).toBeGreaterThan(SEEDS / 20);
});
