/** Value topics: whole documents, received whole or as patches. */

import { beforeAll, describe, expect, it } from "vitest";
import type { Batch, Session, TransportName } from "../dist/thalweg.js";
import { advance, begin, useWorld, world } from "./fixture.js";

interface Match {
  score: number[];
  [name: string]: unknown;
}

useWorld();

// In a page, loading the module for patches takes real time. These worlds have none.
beforeAll(() => import("../dist/deltas.js"));

function follow(session: Session, topic = "match", from?: string) {
  const batches: Batch<Match>[] = [];
  world.values.add(topic);
  session.subscribe<Match>(topic, from ? { from } : {}, (batch) => void batches.push(batch));
  return { batches, documents: () => batches.map(({ events }) => events[0]) };
}

const subscribes = (): Record<string, unknown>[] => world.commands.filter(({ command }) => command === "subscribe");

describe.each(["websocket", "http-streaming", "sse", "long-polling"] as TransportName[])("over %s", (name) => {
  it("versions arrive as patches, and are delivered as whole documents with their changes", async () => {
    const { batches } = follow(begin({ transports: [name] }));
    world.publish("match", { score: [0, 0], players: [{ id: 1 }] });
    await advance();
    world.publish("match", { score: [1, 0], players: [{ id: 1 }] });
    await advance();
    world.publish("match", { score: [1, 1], players: [{ id: 1 }], end: null });
    await advance();
    expect(batches.map(({ events }) => events)).toEqual([
      [{ score: [0, 0], players: [{ id: 1 }] }],
      [{ score: [1, 0], players: [{ id: 1 }] }],
      [{ score: [1, 1], players: [{ id: 1 }], end: null }],
    ]);
    expect(batches.map(({ changed }) => changed)).toEqual([undefined, ["/score"], ["/score", "/end"]]);
    expect(batches.map(({ position, first, gap }) => [position, first, gap])).toEqual([
      ["e1.1", 1, null],
      ["e1.2", 2, null],
      ["e1.3", 3, null],
    ]);
    // Unchanged parts are the same object.
    expect(batches[2]?.events[0]?.["players"]).toBe(batches[0]?.events[0]?.["players"]);
    expect(world.requests.find(({ method }) => method !== "POST")?.url.searchParams.get("deltas")).toBe("patch");
  });

  it("resumes with patches after a break", async () => {
    const { documents, batches } = follow(begin({ transports: [name] }));
    world.publish("match", { score: [0, 0] });
    await advance();
    world.cut();
    world.publish("match", { score: [1, 0] });
    world.publish("match", { score: [2, 0] });
    await advance(1000);
    expect(documents()).toEqual([{ score: [0, 0] }, { score: [2, 0] }]);
    expect(batches.at(-1)?.changed).toEqual(["/score"]);
    world.cut();
    for (let goals = 3; goals < 10; goals++) world.publish("match", { score: [goals, 0] });
    await advance(2000);
    expect(batches.at(-1)).toMatchObject({ events: [{ score: [9, 0] }], gap: null });
    expect(batches.at(-1)?.changed).toBeUndefined();
  });

  it("a server that has lost the newest version reports an unknown value, and the next version arrives whole", async () => {
    const { batches } = follow(begin({ transports: [name] }));
    world.publish("match", { score: [0, 0] });
    await advance();
    world.restart();
    await advance(1000);
    expect(batches.at(-1)).toMatchObject({ events: [], position: "e11.0", gap: { missed: null, reason: "unknown" } });
    // The gap is reported once, and not by each poll.
    expect(batches).toHaveLength(2);
    world.publish("match", { score: [3, 0] });
    await advance(1000);
    expect(batches.at(-1)).toMatchObject({ events: [{ score: [3, 0] }], previous: 0, gap: null });
    expect(batches.at(-1)?.changed).toBeUndefined();
    world.publish("match", { score: [4, 0] });
    await advance(1000);
    expect(batches.at(-1)).toMatchObject({ events: [{ score: [4, 0] }], changed: ["/score"] });
  });

  it("also within an epoch, if the server has dropped the version", async () => {
    const { batches } = follow(begin({ transports: [name] }));
    world.publish("match", { score: [0, 0] });
    await advance();
    for (const listener of world.listeners) {
      const gap = { missed: null, reason: "unknown" };
      listener.cursors.set("match", 0);
      listener.say(JSON.stringify({ topic: "match", position: "e1.0", gap }));
    }
    await advance(1000);
    const told = batches.filter(({ gap }) => gap?.reason === "unknown");
    expect(told.length).toBeGreaterThan(0);
    world.publish("match", { score: [1, 0] });
    await advance(1000);
    expect(batches.at(-1)).toMatchObject({ events: [{ score: [1, 0] }], gap: null });
  });

  it("requests the document if a patch has no base version, and the others continue", async () => {
    const session = begin({ transports: [name] });
    const { documents } = follow(session);
    const others: unknown[] = [];
    session.subscribe("cars", { from: "earliest" }, ({ events }) => void others.push(...events));
    world.publish("cars", 1);
    world.publish("match", { score: [0, 0] });
    await advance();
    world.treat = (operations, previous) => ({ operations, previous: previous + 7 });
    world.publish("match", { score: [1, 0] });
    world.publish("match", { score: [2, 0] });
    world.publish("cars", 2);
    world.treat = (operations, previous) => ({ operations, previous });
    await advance(1000);
    world.publish("match", { score: [3, 0] });
    world.publish("cars", 3);
    await advance(1000);
    expect(documents().at(-1)).toEqual({ score: [3, 0] });
    // Over SSE these two topics arrived whole.
    if (name !== "sse") expect(documents()).not.toContainEqual({ score: [1, 0] });
    expect(others).toEqual([1, 2, 3]);
    expect(session.status.state).toBe("open");
  });

  it("drops a patch that does not apply; after several in a row it requests none", async () => {
    const session = begin({ transports: [name] });
    const { documents } = follow(session);
    world.publish("match", { score: [0, 0] });
    await advance();
    world.treat = (_, previous) => ({ operations: [{ op: "remove", path: "/nothing" }], previous });
    for (let goals = 1; goals < 10; goals++) {
      world.publish("match", { score: [goals, 0] });
      await advance(1000);
      // The error concerns its own document only.
      for (const document of documents()) expect(Object.keys(document as Match)).toEqual(["score"]);
    }
    expect(documents().at(-1)).toEqual({ score: [9, 0] });
    world.cut();
    world.publish("match", { score: [10, 0] });
    await advance(1000);
    expect(world.requests.at(-1)?.url.searchParams.get("deltas")).toBeNull();
    world.publish("match", { score: [11, 0] });
    await advance(1000);
    expect(documents().at(-1)).toEqual({ score: [11, 0] });
  });
});

it("several topics over SSE arrive whole", async () => {
  const session = begin({ transports: ["sse"] });
  const one = follow(session, "one");
  const other = follow(session, "other");
  for (const goals of [0, 1]) {
    world.publish("one", { score: [goals, 0] });
    world.publish("other", { score: [0, goals] });
    await advance();
  }
  expect(one.documents()).toEqual([{ score: [0, 0] }, { score: [1, 0] }]);
  expect(other.documents()).toEqual([{ score: [0, 0] }, { score: [0, 1] }]);
  expect(one.batches.at(-1)?.changed).toBeUndefined();
});

it("a stored position without its document leads to the document", async () => {
  world.values.add("match");
  world.publish("match", { score: [0, 0] });
  world.publish("match", { score: [1, 0] });
  const { documents } = follow(begin(), "match", "e1.1");
  await advance(1000);
  expect(documents()).toEqual([{ score: [1, 0] }]);
  expect(subscribes().map(({ cursor }) => cursor)).toEqual(["e1.1", "latest"]);
});

it("a topic that is subscribed to again begins with its document", async () => {
  const session = begin();
  world.values.add("match");
  world.publish("match", { score: [0, 0] });
  for (const _ of [1, 2]) {
    for await (const { events, changed } of session.subscribe<Match>("match")) {
      expect(events).toEqual([{ score: [0, 0] }]);
      expect(changed).toBeUndefined();
      break;
    }
  }
});

it("versions stay right when transports change", async () => {
  const session = begin();
  const { documents } = follow(session);
  let goals = 0;
  for (const name of ["http-streaming", "sse", "long-polling", "websocket"] as TransportName[]) {
    world.publish("match", { score: [++goals, 0] });
    session.use(name);
    world.publish("match", { score: [++goals, 0] });
    await advance(500);
    world.publish("match", { score: [++goals, 0] });
    await advance(500);
  }
  const scores = documents().map((it) => it?.score[0] as number);
  expect(scores.at(-1)).toBe(goals);
  expect(scores).toEqual([...new Set(scores)].sort((one, other) => one - other));
});

it("another epoch begins with the document", async () => {
  const { documents } = follow(begin());
  world.publish("match", { score: [5, 5] });
  await advance();
  world.restart();
  world.publish("match", { score: [0, 0] });
  await advance(1000);
  world.publish("match", { score: [0, 1] });
  await advance(1000);
  expect(documents()).toEqual([{ score: [5, 5] }, { score: [0, 0] }, { score: [0, 1] }]);
});
