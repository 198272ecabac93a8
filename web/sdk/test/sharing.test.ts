/** Several subscriptions of a page to one topic: one on the wire, each with its own batches to process. */

import { beforeAll, describe, expect, it } from "vitest";
import type { Batch, Session, SubscribeOptions, Subscription, ThalwegError, TransportName } from "../dist/thalweg.js";
import { advance, begin, collect, statuses, useWorld, world } from "./fixture.js";

useWorld();

// In a page, loading the module for patches takes real time. These worlds have none.
beforeAll(() => import("../dist/deltas.js"));

/** Topics of subscribe commands, one for each command. */
const carried = (): string[] => [...world.listeners].flatMap(({ cursors }) => [...cursors.keys()]);
const sent = (command: string): Record<string, unknown>[] => world.commands.filter((it) => it["command"] === command);
const ackedPositions = (): unknown[] => [...new Set(sent("ack").map(({ position }) => position))];

/** A subscription whose listener finishes a batch when the test says so. */
function slow(session: Session, topic = "cars", options: SubscribeOptions = {}) {
  const seen: unknown[] = [];
  const waiting: (() => void)[] = [];
  const subscription = session.subscribe(topic, options, ({ events }) => {
    seen.push(...events);
    return new Promise<void>((done) => waiting.push(done));
  });
  return { subscription, seen, done: () => waiting.shift()?.() };
}

describe.each(["websocket", "http-streaming", "sse", "long-polling"] as TransportName[])("over %s", (name) => {
  it("shares one subscription on the wire, until the last is closed", async () => {
    const session = begin({ transports: [name] });
    const first = collect(session);
    const second = collect(session);
    await advance();
    world.publish("cars", 1);
    await advance();
    const late = collect(session);
    await advance();
    world.publish("cars", 2);
    await advance();
    expect([first.events, second.events, late.events]).toEqual([[1, 2], [1, 2], [2]]);
    // Between two polls there is no connection.
    if (name !== "long-polling") expect(carried()).toEqual(["cars"]);
    first.subscription.close();
    second.subscription.close();
    await advance();
    world.publish("cars", 3);
    await advance();
    expect([first.events, second.events, late.events]).toEqual([
      [1, 2],
      [1, 2],
      [2, 3],
    ]);
    const before = world.requests.length;
    late.subscription.close();
    await advance();
    world.publish("cars", 4);
    await advance(1000);
    expect(late.events).toEqual([2, 3]);
    expect(carried()).toEqual([]);
    expect(world.requests).toHaveLength(before);
    if (name === "websocket") expect(sent("subscribe")).toHaveLength(1);
  });

  it("joining others does not interrupt them", async () => {
    const session = begin({ transports: [name] });
    const { events } = collect(session);
    await advance();
    world.publish("cars", 1);
    await advance(100);
    const before = [world.requests.length, sent("subscribe").length, statuses.length];
    const late = collect(session);
    await advance(100);
    expect([world.requests.length, sent("subscribe").length, statuses.length]).toEqual(before);
    late.subscription.close();
    await advance(100);
    expect([world.requests.length, sent("unsubscribe").length, statuses.length]).toEqual([before[0], 0, before[2]]);
    world.publish("cars", 2);
    await advance(1000);
    expect([events, late.events]).toEqual([[1, 2], []]);
  });

  it("each resumes after a break, and gets the gap", async () => {
    const session = begin({ transports: [name] });
    const first = collect(session);
    await advance();
    world.publish("cars", 1);
    await advance();
    const late = collect(session);
    world.cut();
    world.publish("cars", 2, 3, 4);
    world.trim("cars", 1);
    await advance(2000);
    expect([first.events, late.events]).toEqual([[1, 4], [4]]);
    const gap = { missed: 2, reason: "trimmed" };
    expect([first.gaps, late.gaps]).toEqual([[gap], [gap]]);
  });

  it("a subscription that joins others to a value topic gets the newest version at once, and then its patches", async () => {
    world.values.add("match");
    const session = begin({ transports: [name] });
    const batches: Batch<unknown>[] = [];
    session.subscribe("match", {}, (batch) => void batches.push(batch));
    world.publish("match", { score: 0, players: [] });
    await advance();
    world.publish("match", { score: 1, players: [] });
    await advance();
    expect(batches.at(-1)?.changed).toEqual(["/score"]);
    const its: Batch<unknown>[] = [];
    const before = world.requests.length;
    const late = session.subscribe("match", {}, (batch) => void its.push(batch));
    // A listener may use the result of `subscribe`.
    expect([its, late.position]).toEqual([[], null]);
    await advance();
    expect(its).toHaveLength(1);
    expect(its[0]).toMatchObject({ topic: "match", position: "e1.2", first: 2, previous: 0, gap: null });
    expect(its[0]?.changed).toBeUndefined();
    expect(its[0]?.events).toEqual([{ score: 1, players: [] }]);
    expect(its[0]?.events[0]).toBe(batches.at(-1)?.events[0]);
    expect(late.position).toBe("e1.2");
    expect(world.requests).toHaveLength(before);
    world.publish("match", { score: 2, players: [] });
    await advance();
    expect(its.at(-1)).toMatchObject({ events: [{ score: 2, players: [] }], changed: ["/score"], previous: 2 });
    expect(its.at(-1)).toBe(batches.at(-1));
    expect([its.length, batches.length]).toEqual([2, 3]);
  });
});

it("has a position of its own", async () => {
  const session = begin();
  const fast = session.subscribe("cars", {}, () => {});
  const held = slow(session);
  expect([fast.position, held.subscription.position]).toEqual([null, null]);
  await advance();
  expect([fast.position, held.subscription.position]).toEqual(["e1.0", "e1.0"]);
  world.publish("cars", 1);
  await advance();
  world.publish("cars", 2);
  await advance();
  const late = session.subscribe("cars", {}, () => {});
  expect([fast.position, held.subscription.position, late.position]).toEqual(["e1.2", "e1.0", "e1.2"]);
  held.done();
  await advance();
  expect(held.subscription.position).toBe("e1.1");
});

it("the slowest limits how far the server may be ahead, until it is closed", async () => {
  const session = begin({ window: 1024 });
  const fast = collect(session);
  const held = slow(session);
  await advance(100);
  for (let event = 0; event < 100; event++) {
    world.publish("cars", event);
    await advance();
  }
  await advance(10_000);
  expect(fast.events.length).toBeLessThan(20);
  expect(held.seen).toEqual([0]);
  expect(ackedPositions()).toEqual(["e1.0"]);
  held.done();
  await advance(50);
  expect(ackedPositions()).toEqual(["e1.0", "e1.1"]);
  held.subscription.close();
  await advance(1000);
  expect(fast.events).toEqual(Array.from({ length: 100 }, (_, event) => event));
  expect(ackedPositions().at(-1)).toBe("e1.100");
  expect(held.seen).toEqual([0, 1]);
});

it("does not ack batches that the last subscription drops", async () => {
  const session = begin({ window: 1024 });
  collect(session, "boats");
  const one = slow(session);
  const other = slow(session);
  await advance(100);
  // This share of the window would be acked at once.
  world.publish("cars", "x".repeat(1000));
  await advance(100);
  one.subscription.close();
  await advance(100);
  other.subscription.close();
  await advance(1000);
  expect(sent("ack").map(({ topic, position }) => [topic, position])).toEqual([
    ["boats", "e1.0"],
    ["cars", "e1.0"],
  ]);
});

it("a new connection after a break does not ack batches processed before", async () => {
  const session = begin();
  const fast = session.subscribe("cars", {}, () => {});
  const held = slow(session);
  await advance(100);
  world.publish("cars", 1);
  await advance(100);
  world.cut();
  await advance(5000);
  expect([fast.position, held.subscription.position, ackedPositions()]).toEqual(["e1.1", "e1.0", ["e1.0"]]);
  held.done();
  await advance(100);
  expect([held.subscription.position, ackedPositions()]).toEqual(["e1.1", ["e1.0", "e1.1"]]);
});

it.each(["websocket", "http-streaming"] as const)("over %s an ack waits for the slowest", async (name) => {
  const session = begin({ transports: [name], window: 0 });
  const fast: Subscription<unknown> = session.subscribe("cars", {}, () => fast.ack());
  const held = slow(session);
  await advance();
  for (const event of [1, 2, 3]) {
    world.publish("cars", event);
    await advance();
  }
  await advance(1000);
  expect([fast.position, ackedPositions()]).toEqual(["e1.3", []]);
  held.done();
  await advance();
  expect(ackedPositions()).toEqual(["e1.1"]);
  // The current batch counts as processed too.
  held.subscription.ack();
  await advance();
  expect(ackedPositions()).toEqual(["e1.1", "e1.2"]);
  held.subscription.close();
  await advance();
  expect(ackedPositions()).toEqual(["e1.1", "e1.2", "e1.3"]);
});

it("without backpressure, a page holds a batch once, and the connection closes when the slowest holds too much", async () => {
  const session = begin({ transports: ["sse"] });
  const fast = collect(session);
  const held = [slow(session), slow(session), slow(session)];
  await advance();
  const megabyte = "x".repeat(1 << 20);
  for (let event = 0; event < 15; event++) world.publish("cars", megabyte);
  await advance();
  expect(statuses.at(-1)).toBe("open sse");
  for (let event = 0; event < 2; event++) world.publish("cars", megabyte);
  await advance();
  expect([statuses.at(-1), fast.events.length]).toEqual(["waiting", 16]);
  world.publish("cars", "next");
  for (const { subscription } of held) subscription.close();
  await advance(1000);
  expect([statuses.at(-1), fast.events.at(-1)]).toEqual(["open sse", "next"]);
});

it("loops and listeners can be mixed, and leaving a loop ends only that loop", async () => {
  const session = begin();
  const { events } = collect(session);
  const loop = (async () => {
    for await (const { events } of session.subscribe<number>("cars")) if (events.includes(2)) return events;
    return [];
  })();
  await advance();
  for (const event of [1, 2, 3]) {
    world.publish("cars", event);
    await advance();
  }
  expect([await loop, events]).toEqual([[2], [1, 2, 3]]);
});

it("a listener may subscribe and close others in the middle of a batch", async () => {
  const session = begin();
  const late: unknown[] = [];
  session.subscribe("cars", {}, ({ events: [event] }) => {
    if (event === 1) session.subscribe("cars", {}, ({ events }) => void late.push(...events));
    if (event === 2) last.subscription.close();
  });
  const last = collect(session);
  await advance();
  for (const event of [1, 2, 3]) {
    world.publish("cars", event);
    await advance();
  }
  expect([late, last.events]).toEqual([[2, 3], [1]]);
});

it("a listener that throws does not affect others", async () => {
  const errors: unknown[] = [];
  const caught = (error: unknown): void => void errors.push(error);
  process.on("uncaughtException", caught);
  const session = begin();
  session.subscribe("cars", {}, () => {
    throw new Error("the page's");
  });
  const { events } = collect(session);
  await advance();
  world.publish("cars", 1);
  world.publish("cars", 2);
  await advance();
  await new Promise((go) => setImmediate(go));
  process.off("uncaughtException", caught);
  expect([events, errors.length]).toEqual([[1, 2], 2]);
});

it("each gets the end, and the page can subscribe again", async () => {
  const session = begin();
  const codes: string[] = [];
  const onError = ({ code }: ThalwegError): void => void codes.push(code);
  session.subscribe("cars", { onError }, () => {});
  session.subscribe("cars", { onError }, () => {});
  const loop = (async () => {
    for await (const batch of session.subscribe("cars")) void batch;
  })();
  const thrown = expect(loop).rejects.toMatchObject({ code: "deleted" });
  await advance();
  world.publish("cars", 1);
  world.end("cars", "deleted", "somebody deleted it");
  await advance();
  await thrown;
  expect(codes).toEqual(["deleted", "deleted"]);
  const { events } = collect(session, "cars", "earliest");
  await advance();
  world.publish("cars", 2);
  await advance();
  expect(events).toEqual([2]);
});

it("waiting batches of an ended topic may be dropped, and count as processed", async () => {
  const session = begin({ transports: ["sse"] });
  const boats = collect(session, "boats");
  const megabyte = "x".repeat(1 << 20);
  for (let round = 0; round < 3; round++) {
    const held = slow(session, "cars", { onError: () => {} });
    await advance(1000);
    for (let event = 0; event < 8; event++) world.publish("cars", megabyte);
    await advance();
    world.end("cars", "deleted", "somebody deleted it");
    await advance(1000);
    expect(held.seen).toHaveLength(1);
    held.subscription.close();
  }
  world.publish("boats", 1);
  await advance(1000);
  expect(boats.events).toEqual([1]);
  expect(statuses).not.toContain("waiting");
});

it("events in flight when the last one is closed count as processed", async () => {
  const session = begin({ transports: ["sse"] });
  const boats = collect(session, "boats");
  const cars = collect(session);
  await advance(1000);
  world.delay = () => 100;
  for (let event = 0; event < 17; event++) world.publish("cars", "x".repeat(1 << 20));
  cars.subscription.close();
  world.publish("boats", 1);
  await advance(5000);
  expect([cars.events, boats.events]).toEqual([[], [1]]);
  expect(statuses).not.toContain("waiting");
});

it("closing before subscribing starts a new subscription on the wire; subscribing before closing shares one", async () => {
  const session = begin();
  const first = collect(session, "cars", "earliest");
  await advance();
  world.publish("cars", 1);
  await advance();
  first.subscription.close();
  const second = collect(session, "cars", "earliest");
  await advance();
  expect([first.events, second.events, sent("subscribe").length]).toEqual([[1], [1], 2]);
  const third = collect(session);
  second.subscription.close();
  await advance();
  world.publish("cars", 2);
  await advance();
  expect([second.events, third.events, sent("subscribe").length]).toEqual([[1], [2], 2]);
});

describe("options of a subscription that joins others", () => {
  const REMEDY = /another session.*over HTTP/;

  it("begins at the position of the others, or with the next batch", async () => {
    const session = begin();
    const first = collect(session, "cars", "earliest");
    const same = collect(session, "cars", "earliest");
    world.publish("cars", 1);
    await advance();
    expect([first.events, same.events]).toEqual([[1], [1]]);
    for (const from of ["earliest", "e1.0", "newest.2", { newest: 2 }]) {
      const refused = expect.objectContaining({ code: "already_subscribed", message: expect.stringMatching(REMEDY) });
      expect(() => session.subscribe("cars", { from }), JSON.stringify(from)).toThrow(refused);
    }
    const at = collect(session, "cars", "e1.1");
    expect(at.subscription.position).toBe("e1.1");
    world.publish("cars", 2);
    await advance();
    expect(at.events).toEqual([2]);
    expect(sent("subscribe")).toHaveLength(1);
  });

  it("a position equal to that of the others does not request the document again", async () => {
    world.values.add("match");
    const session = begin();
    const first = collect(session, "match");
    world.publish("match", { score: 0 });
    await advance();
    const at = collect(session, "match", "e1.1");
    await advance();
    world.publish("match", { score: 1 });
    await advance();
    expect([first.events, at.events]).toEqual([[{ score: 0 }, { score: 1 }], [{ score: 1 }]]);
  });

  it("interval and policy are those of the first", () => {
    const session = begin();
    session.subscribe("cars");
    session.subscribe("boats", { interval: 100, policy: "close" });
    const refused = expect.objectContaining({ code: "already_subscribed", message: expect.stringMatching(REMEDY) });
    for (const options of [{ interval: 100 }, { policy: "close" }] satisfies SubscribeOptions[]) {
      expect(() => session.subscribe("cars", options)).toThrow(refused);
    }
    for (const options of [{ interval: 0 }, { policy: "skip" }] satisfies SubscribeOptions[]) {
      expect(() => session.subscribe("cars", options)).not.toThrow();
      expect(() => session.subscribe("boats", options)).toThrow(refused);
    }
    expect(() => session.subscribe("boats", {})).not.toThrow();
    expect(() => session.subscribe("boats", { interval: 100, policy: "close" })).not.toThrow();
  });

  it("a rejected subscription has no effect", async () => {
    const session = begin();
    const { subscription } = collect(session);
    await advance();
    expect(() => session.subscribe("cars", { from: "earliest" })).toThrow(REMEDY);
    subscription.close();
    await advance();
    expect(carried()).toEqual([]);
  });
});

it("a joining subscription does not get a value that the server has lost", async () => {
  world.values.add("match");
  const session = begin();
  const first = collect(session, "match");
  world.publish("match", { score: 0 });
  await advance();
  world.restart();
  await advance(1000);
  expect(first.gaps).toEqual([{ missed: null, reason: "unknown" }]);
  const late = collect(session, "match");
  await advance(1000);
  expect(late.events).toEqual([]);
  world.publish("match", { score: 1 });
  await advance(1000);
  expect([first.events, late.events]).toEqual([[{ score: 0 }, { score: 1 }], [{ score: 1 }]]);
});
