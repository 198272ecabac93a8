/** Maps: the newest event of each key of a keyed topic. */

import { beforeAll, describe, expect, it } from "vitest";
import { connect, type KeyedBatch, type KeyedSubscription, type PublishTarget, type Session } from "../dist/thalweg.js";
import { advance, begin, collect, useWorld, world } from "./fixture.js";
import { mockFetch } from "./platform-mocks.js";

useWorld();

// In a page, loading the module for maps takes real time. These worlds have none.
beforeAll(() => import("../dist/keyed.js"));

interface Car {
  speed: number;
}

/** Subscribes and collects the batches. */
function watch(session: Session, topic = "cars") {
  const batches: Omit<KeyedBatch, "values">[] = [];
  const states: Record<string, Car>[] = [];
  const errors: string[] = [];
  const onError = ({ code }: { code: string }): void => void errors.push(code);
  const subscription: KeyedSubscription<Car> = session.map<Car>(topic, { onError }, (batch) => {
    batches.push(batch);
    states.push(Object.fromEntries(subscription.map));
  });
  return { subscription, batches, states, errors };
}

function put(key: string, speed: number | null, topic = "cars"): void {
  world.keyed.add(topic);
  world.put(topic, key, speed === null ? null : { speed });
}

describe("a map", () => {
  it("has the newest event of each key, and then the changes", async () => {
    put("a", 1);
    put("b", 2);
    put("a", 3);
    const { batches, states } = watch(begin());
    await advance();
    expect(states).toEqual([{ a: { speed: 3 }, b: { speed: 2 } }]);
    expect(batches).toMatchObject([{ topic: "cars", changed: ["b", "a"], removed: [], isWhole: true, gap: null }]);
    put("c", 4);
    put("b", null);
    await advance();
    expect(states.at(-1)).toEqual({ a: { speed: 3 }, c: { speed: 4 } });
    expect(batches.slice(1)).toMatchObject([
      { position: "e1.4", changed: ["c"], removed: [] },
      { position: "e1.5", changed: [], removed: ["b"] },
    ]);
  });

  it("is whole without keys", async () => {
    world.keyed.add("cars");
    const { batches } = watch(begin());
    await advance();
    expect(batches).toMatchObject([{ position: "e1.0", changed: [], removed: [], isWhole: true }]);
  });

  it("lists the members of a topic", async () => {
    put("~k3", null, "presence/rooms/7");
    world.put("presence/rooms/7", "ann", { user: "ann", since: 1, info: { name: "Ann" } });
    const { presence } = begin();
    const names: (string | undefined)[][] = [];
    const people = presence<{ name: string }>("rooms/7", {}, () => {
      names.push([...people.map.values()].map(({ info }) => info?.name));
    });
    await advance();
    world.put("presence/rooms/7", "~k3", { since: 2, info: { name: "Guest" } });
    await advance();
    world.put("presence/rooms/7", "ann", null);
    await advance();
    expect(names).toEqual([["Ann"], ["Ann", "Guest"], ["Guest"]]);
    expect(people.topic).toBe("presence/rooms/7");
  });

  it("arrives in pages, and the page gets none alone", async () => {
    for (let car = 0; car < 10; car++) put(`c${car}`, car);
    world.most = () => 1;
    world.pauses = () => 100;
    // Without a window no ack asks for the next page.
    const { batches, states } = watch(begin({ window: 0 }));
    await advance(250);
    put("c0", 100);
    put("c9", null);
    expect(batches).toEqual([]);
    await advance(10_000);
    expect(Object.keys(states[0] as object)).toHaveLength(9);
    expect(states[0]).toMatchObject({ c0: { speed: 100 } });
  });

  it("acks the positions of a snapshot's pages", async () => {
    for (let car = 0; car < 20; car++) put(`c${car}`, car);
    world.most = () => 1;
    const { batches } = watch(begin({ window: 300 }));
    await advance(10_000);
    expect(batches).toMatchObject([{ isWhole: true, position: "e1.20" }]);
    const acks = world.commands.filter(({ command }) => command === "ack").map(({ position }) => position);
    expect(acks.length).toBeGreaterThan(3);
    for (const position of acks) expect(position).toMatch(/^e1\.\d+$/);
  });

  it("resumes within a snapshot", async () => {
    for (let car = 0; car < 20; car++) put(`c${car}`, car);
    world.most = () => 1;
    world.pauses = () => 100;
    // Without a window no ack asks for the next page.
    const { batches } = watch(begin({ window: 0 }));
    await advance(450);
    world.cut();
    await advance(10_000);
    const cursors = world.commands.filter(({ command }) => command === "subscribe").map(({ cursor }) => cursor);
    expect(cursors).toEqual(["latest", "e1.5~20"]);
    expect(batches).toHaveLength(1);
    expect(batches[0]?.changed).toHaveLength(20);
  });

  it("resumes after an old page, and removals since then concern it", async () => {
    put("a", 1);
    put("b", 2);
    const first = begin();
    watch(first);
    await advance();
    first.close();
    put("a", null);
    for (let car = 0; car < 8; car++) put(`c${car}`, car);
    // The second session gets the page of the first one, which ends where the topic ended then.
    world.repeats = () => true;
    world.pauses = () => 1000;
    const { subscription } = watch(begin({ window: 0 }));
    await advance(500);
    world.purge("cars");
    world.cut();
    world.pauses = () => 0;
    await advance(10_000);
    const cursors = world.commands.filter(({ command }) => command === "subscribe").map(({ cursor }) => cursor);
    expect(cursors).toEqual(["latest", "latest", "e1.2"]);
    expect([...subscription.map.keys()]).not.toContain("a");
    expect(subscription.map.size).toBe(9);
  });

  it("keeps its keys after a gap, until all have come again", async () => {
    put("a", 1);
    put("b", 2);
    const { batches, states, subscription } = watch(begin());
    await advance();
    world.blocked.add("websocket").add("http-streaming").add("sse").add("long-polling");
    world.cut();
    put("a", null);
    put("c", 3);
    world.purge("cars");
    world.blocked.clear();
    world.pauses = () => 100;
    world.most = () => 1;
    put("d", 4);
    await advance(10_000);
    expect(batches[1]).toMatchObject({ isWhole: false, changed: [], removed: [], gap: { reason: "trimmed" } });
    expect(states[1]).toEqual(states[0]);
    expect(batches.slice(2)).toMatchObject([{ isWhole: true, changed: ["b", "c", "d"], removed: ["a"], gap: null }]);
    expect([...subscription.map.keys()].sort()).toEqual(["b", "c", "d"]);
  });

  it("is empty after a restart of a server that stores nothing", async () => {
    put("a", 1);
    const { batches, subscription } = watch(begin());
    await advance();
    world.restart();
    await advance(1000);
    expect(batches.slice(1)).toMatchObject([
      { gap: { reason: "epoch" }, isWhole: false },
      { gap: null, isWhole: true, removed: ["a"], changed: [] },
    ]);
    expect(subscription.map.size).toBe(0);
  });

  it("ignores the removal of a key that it lacks", async () => {
    put("a", 1);
    const { batches } = watch(begin());
    await advance();
    put("b", null);
    await advance();
    expect(batches).toHaveLength(1);
  });

  it("is read by a loop, and closed with it", async () => {
    put("a", 1);
    const cars = begin().map<Car>("cars");
    for await (const { changed } of cars) {
      expect(changed.map((key) => cars.map.get(key)?.speed)).toEqual([1]);
      break;
    }
    await advance();
    expect(world.listeners.size).toBe(0);
  });

  it("does not change while the page processes a batch", async () => {
    put("a", 1);
    const session = begin();
    let done = (): void => {};
    const cars = session.map<Car>("cars", {}, () => new Promise<void>((go) => (done = go)));
    await advance();
    put("a", 2);
    await advance();
    expect(cars.map.get("a")).toEqual({ speed: 1 });
    done();
    await advance();
    expect(cars.map.get("a")).toEqual({ speed: 2 });
  });

  it("begins again if a message is missing", async () => {
    put("a", 1);
    const { batches, states } = watch(begin());
    await advance();
    const say = (message: object): void => {
      for (const listener of world.listeners) listener.say(JSON.stringify({ topic: "cars", ...message }));
    };
    // The server lost an event, or has another epoch, and does not report it.
    for (const position of ["e1.9", "e2.9"]) {
      say({ position, first: 9, keys: ["x"], events: [{ speed: 9 }] });
      await advance(10_000);
      put("a", batches.length + 10);
      await advance();
      const last = world.commands.findLast(({ command }) => command === "subscribe");
      expect(last?.["cursor"]).toBe("latest");
    }
    expect(states.map((state) => Object.keys(state))).toEqual(states.map(() => ["a"]));
    expect(states.at(-1)).toEqual({ a: { speed: batches.length + 9 } });
  });
});

describe("several maps of a topic", () => {
  it("share a subscription, and a late one first gets all keys", async () => {
    put("a", 1);
    const session = begin();
    const early = watch(session);
    await advance();
    put("b", 2);
    await advance();
    const late = watch(session);
    expect(late.batches).toEqual([]);
    await advance();
    expect(late.batches).toMatchObject([{ position: "e1.2", changed: ["a", "b"], removed: [], isWhole: true }]);
    put("a", null);
    await advance();
    expect(late.states.at(-1)).toEqual({ b: { speed: 2 } });
    expect(late.batches.at(-1)).toEqual(early.batches.at(-1));
    early.subscription.close();
    put("b", 3);
    await advance();
    expect(late.states.at(-1)).toEqual({ b: { speed: 3 } });
    expect(world.commands.filter(({ command }) => command === "subscribe")).toHaveLength(1);
  });

  it("do not share one with events", async () => {
    world.keyed.add("cars");
    const session = begin();
    session.map("cars");
    expect(() => session.subscribe("cars")).toThrow("already subscribed");
    session.subscribe("boats");
    expect(() => session.map("boats")).toThrow("already subscribed");
  });
});

it("a map does not begin at a position", () => {
  const session = begin();
  for (const from of ["9f.7", "earliest", { newest: 3 }]) {
    expect(() => session.map("cars", { from } as object)).toThrow("omit from");
  }
  session.map("cars", { from: "latest" } as object);
});

it("a log or a value is no map", async () => {
  const session = begin();
  world.publish("log", 1);
  world.values.add("value");
  world.publish("value", 1);
  for (const topic of ["log", "value"]) {
    const { errors } = watch(session, topic);
    await advance();
    expect(errors).toEqual(["not_keyed"]);
  }
  await advance();
  expect(session.status.state).not.toBe("closed");
});

it("events have their keys", async () => {
  put("a", 1);
  put("b", 2);
  const session = begin();
  const keys: unknown[] = [];
  session.subscribe("cars", {}, (batch) => void keys.push(batch.keys));
  await advance();
  put("a", null);
  await advance();
  expect(keys).toEqual([["a", "b"], ["a"]]);
});

it("a gap at offset 0 is told even in the same epoch", async () => {
  const lines = [
    { topic: "cars", position: "9f.7", first: 7, after: 0, keys: ["a"], events: [1] },
    { topic: "cars", position: "9f.0", gap: { missed: null, reason: "trimmed" } },
    { topic: "cars", position: "9f.0", gap: { missed: null, reason: "trimmed" } },
    { topic: "cars", position: "9f.8", first: 8, after: 0, keys: ["a"], events: [2] },
  ];
  const bytes = Buffer.from(lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
  const session = connect("http://server/", { transports: ["http-streaming"], fetch: mockFetch(bytes, 1 << 20) });
  const { events, gaps } = collect(session, "cars", "earliest");
  await advance();
  expect([events, gaps]).toEqual([[1, 2], [{ missed: null, reason: "trimmed" }]]);
  session.close();
});

describe("publish", () => {
  it.each(["websocket", "sse"] as const)("names a key over %s", async (transport) => {
    world.keyed.add("cars");
    const session = begin({ transports: [transport] });
    const { subscription } = watch(session);
    await advance();
    const published = session.publish({ topic: "cars", key: "ü &?#" }, { speed: 1 });
    await advance();
    expect(await published).toMatchObject({ topic: "cars", position: "e1.1" });
    await advance();
    expect([...subscription.map]).toEqual([["ü &?#", { speed: 1 }]]);
    void session.publish({ topic: "cars", key: "ü &?#" }, null);
    await advance();
    expect(subscription.map.size).toBe(0);
  });

  it.each(["websocket", "sse"] as const)("has terms over %s", async (transport) => {
    const session = begin({ transports: [transport] });
    session.subscribe("any");
    await advance();
    const terms = { topic: "cars", key: undefined, if: "9f.7", ttl: 30_000 };
    void session.publish(terms as object as PublishTarget, 1);
    await advance();
    const { url } = world.requests.at(-1) as { url: URL };
    const command = world.commands.find(({ command }) => command === "publish");
    const sent = transport === "sse" ? Object.fromEntries(url.searchParams) : command;
    expect(sent).toMatchObject({ if: "9f.7", ttl: "30000ms" });
    expect(sent).not.toHaveProperty("key");
  });

  it("checks the topic", async () => {
    await expect(begin().publish({ topic: "no topic", key: "a" }, 1)).rejects.toThrow("is not a topic name");
  });
});
