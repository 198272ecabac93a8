/** A session whose connection runs in a Worker, over a port. */

import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Batch, Session, Status, Subscription, TransportName } from "../dist/thalweg.js";
import { connectInWorker, ThalwegError, type WorkerLike, type WorkerOptions } from "../dist/worker.js";
import { host } from "../dist/worker-host.js";
import { storage, tab } from "./fixture.js";
import { World } from "./world.js";

let world: World;
let session: Session;
let statuses: Status[];

/** Acts as a Worker that gets a port. */
const worker: WorkerLike = { postMessage: (message) => host((message as { thalweg: MessagePort }).thalweg) };

function begin(options: WorkerOptions = {}): void {
  const onStatus = (status: Status): void => void statuses.push(status);
  session = connectInWorker(worker, "http://server/", { onStatus, ...options });
}

beforeEach(() => {
  world = new World();
  statuses = [];
  vi.stubGlobal("WebSocket", world.WebSocket);
  vi.stubGlobal("EventSource", undefined);
  // A Worker uses the platform's `fetch`.
  vi.stubGlobal("fetch", world.fetch);
});

afterEach(() => {
  session?.close();
  vi.unstubAllGlobals();
});

async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await new Promise((go) => setImmediate(go));
}

describe.each(["websocket", "http-streaming", "long-polling"] as TransportName[])("over %s", (name) => {
  it("delivers, carries several topics, answers", async () => {
    begin({ transports: [name] });
    const seen: unknown[] = [];
    const listener = ({ topic, first, events }: Batch<unknown>): void => void seen.push([topic, first, ...events]);
    session.subscribe("cars", { from: "earliest" }, listener);
    const boats = session.subscribe("boats", { from: "earliest" }, listener);
    await until(() => session.status.state === "open");
    world.publish("cars", 1, 2);
    world.publish("boats", 3);
    await until(() => seen.length === 2);
    expect(seen).toEqual(
      expect.arrayContaining([
        ["cars", 1, 1, 2],
        ["boats", 1, 3],
      ]),
    );
    expect(boats.position).toBe("e1.1");
    boats.close();
    expect(await session.request({ any: "JSON" })).toEqual({ any: "JSON" });
    expect(await session.publish("cars", 4)).toMatchObject({ first: 3, count: 1 });
    await until(() => seen.length === 3);
    expect(seen[2]).toEqual(["cars", 3, 4]);
    expect(session.status.transport).toBe(name);
  });
});

it("versions of a value topic are whole documents with their differences", async () => {
  begin();
  world.values.add("match");
  const seen: unknown[] = [];
  session.subscribe("match", {}, ({ events, changed }) => void seen.push([events, changed]));
  await until(() => session.status.state === "open");
  for (const score of [0, 1, 2]) {
    world.publish("match", { score });
    await until(() => seen.length === score + 1);
  }
  expect(seen).toEqual([
    [[{ score: 0 }], undefined],
    [[{ score: 1 }], ["/score"]],
    [[{ score: 2 }], ["/score"]],
  ]);
});

it("lists the members of a topic", async () => {
  begin();
  world.keyed.add("presence/rooms/7");
  world.put("presence/rooms/7", "ann", { user: "ann", since: 1 });
  const users: unknown[] = [];
  const { presence } = session;
  const people = presence("rooms/7", {}, () => void users.push([...people.map.values()].map(({ user }) => user)));
  await until(() => users.length === 1);
  expect(users).toEqual([["ann"]]);
});

it("maps have all keys, then the changes, and late ones first all keys", async () => {
  begin();
  world.keyed.add("cars");
  world.put("cars", "a", 1);
  const states: unknown[] = [];
  const early = session.map("cars", {}, () => void states.push([...early.map]));
  await until(() => states.length === 1);
  world.put("cars", "b", 2);
  await until(() => states.length === 2);
  const late = session.map("cars", {}, ({ changed }) => void states.push([changed, ...late.map]));
  await until(() => states.length === 3);
  await session.publish({ topic: "cars", key: "a" }, null);
  await until(() => states.length === 5);
  const [a, b] = [
    ["a", 1],
    ["b", 2],
  ];
  expect(states).toEqual([[a], [a, b], [["a", "b"], a, b], [b], [[], b]]);
});

it("iterates, and can subscribe to a topic again", async () => {
  begin();
  for (const round of [1, 2, 3]) {
    world.publish("cars", round);
    for await (const { events } of session.subscribe("cars", { from: "earliest" })) {
      expect(events).toEqual(Array.from({ length: round }, (_, index) => index + 1));
      break;
    }
  }
  await until(() => session.status.state === "idle");
});

it("the server waits until the page has processed its batches", async () => {
  begin({ window: 1024 });
  const sizes: number[] = [];
  let processed = (): void => {};
  session.subscribe("cars", {}, ({ events }) => {
    sizes.push(events.length);
    return new Promise<void>((done) => (processed = done));
  });
  await until(() => world.listeners.size === 1 && [...world.listeners][0]?.cursors.size === 1);
  for (let event = 0; event < 100; event++) world.publish("cars", event);
  await until(() => sizes.length === 1);
  const sent = (): number => [...world.listeners][0]?.cursors.get("cars") as number;
  expect(sent()).toBeLessThan(20);
  // The confirmation of a subscription has bytes, too: its position is acked as well.
  const acks = (): unknown[] =>
    world.commands.filter(({ command, position }) => command === "ack" && position !== "e1.0");
  expect(acks()).toEqual([]);
  while (sizes.reduce((sum, size) => sum + size, 0) < 100) {
    const before = sizes.length;
    processed();
    await until(() => sizes.length > before);
  }
  expect(acks().length).toBeGreaterThan(0);
  expect(sent()).toBe(100);
});

it("batches of a topic that the page has left count as processed", async () => {
  begin({ transports: ["http-streaming"] });
  const megabyte = "x".repeat(1 << 20);
  for (let round = 0; round < 3; round++) {
    let count = 0;
    const slow = session.subscribe("cars", {}, () => {
      count += 1;
      return new Promise<void>(() => {});
    });
    await until(() => [...world.listeners].some(({ cursors }) => cursors.has("cars")));
    for (let event = 0; event < 10; event++) world.publish("cars", megabyte);
    await until(() => count === 1);
    slow.close();
    await until(() => session.status.state === "idle");
  }
  world.publish("boats", 1);
  for await (const { events } of session.subscribe("boats", { from: "earliest" })) {
    expect(events).toEqual([1]);
    break;
  }
});

it("subscriptions to one topic share one in the Worker, and the slowest limits how far the server may be ahead", async () => {
  begin({ window: 1024 });
  const fast: unknown[] = [];
  const slow: unknown[] = [];
  let processed = (): void => {};
  const first = session.subscribe("cars", {}, ({ events }) => void fast.push(...events));
  const second = session.subscribe("cars", {}, ({ events }) => {
    slow.push(...events);
    return new Promise<void>((done) => (processed = done));
  });
  const cursors = (): unknown[] => [...world.listeners].flatMap((it) => [...it.cursors]);
  await until(() => cursors().length === 1);
  for (let event = 0; event < 100; event++) world.publish("cars", event);
  const [, sent] = cursors()[0] as [string, number];
  expect(sent).toBeLessThan(20);
  await until(() => fast.length === sent);
  expect(slow).toEqual([0]);
  const acks = (): unknown[] =>
    world.commands.filter(({ command, position }) => command === "ack" && position !== "e1.0");
  expect(acks()).toEqual([]);
  processed();
  await until(() => acks().length === 1);
  expect(acks()).toMatchObject([{ position: "e1.1" }]);
  second.close();
  await until(() => fast.length === 100);
  expect(fast).toEqual(Array.from({ length: 100 }, (_, event) => event));
  expect(slow.length).toBeLessThan(100);
  expect(world.commands.filter(({ command }) => command === "subscribe")).toHaveLength(1);
  const late: unknown[] = [];
  session.subscribe("cars", {}, ({ events }) => void late.push(...events));
  first.close();
  world.publish("cars", 100);
  await until(() => late.length === 1);
  expect([late, fast.length, second.position]).toEqual([[100], 100, "e1.1"]);
  expect(world.commands.filter(({ command }) => command === "unsubscribe")).toEqual([]);
});

it("a subscription that joins others to a value topic has the newest version at once", async () => {
  begin();
  world.values.add("match");
  const seen: unknown[] = [];
  session.subscribe("match", {}, ({ events, changed }) => void seen.push([events, changed]));
  await until(() => session.status.state === "open");
  for (const score of [0, 1]) {
    world.publish("match", { score });
    await until(() => seen.length === score + 1);
  }
  const late: unknown[] = [];
  session.subscribe("match", {}, ({ events, changed, previous }) => void late.push([events, changed, previous]));
  await until(() => late.length === 1);
  world.publish("match", { score: 2 });
  await until(() => late.length === 2);
  expect(late).toEqual([
    [[{ score: 1 }], undefined, 0],
    [[{ score: 2 }], ["/score"], 2],
  ]);
});

it("batches of an ended topic count as processed in the Worker", async () => {
  begin({ transports: ["http-streaming"] });
  const megabyte = "x".repeat(1 << 20);
  for (let round = 0; round < 3; round++) {
    let count = 0;
    let hasEnded = false;
    const onError = (): void => void (hasEnded = true);
    session.subscribe("cars", { onError }, () => {
      count += 1;
      return new Promise<void>(() => {});
    });
    await until(() => [...world.listeners].some(({ cursors }) => cursors.has("cars")));
    for (let event = 0; event < 3; event++) world.publish("cars", megabyte);
    await until(() => count === 1);
    world.end("cars", "deleted", "somebody deleted it");
    await until(() => hasEnded);
  }
  world.publish("boats", 1);
  for await (const { events } of session.subscribe("boats", { from: "earliest" })) {
    expect(events).toEqual([1]);
    break;
  }
});

it("acks at once on request", async () => {
  begin();
  const subscription: Subscription<unknown> = session.subscribe("cars", { from: "earliest" }, () => subscription.ack());
  for (const event of [1, 2, 3]) {
    world.publish("cars", event);
    await until(() => world.commands.some(({ position }) => position === `e1.${event}`));
  }
});

it("asks the page for each token", async () => {
  let number = 0;
  begin({ transports: ["http-streaming"], token: async () => `token-${++number}` });
  session.subscribe("cars");
  await until(() => session.status.state === "open");
  expect(world.requests.at(-1)?.headers).toMatchObject({ Authorization: "Bearer token-1" });
  await session.publish("cars", 1);
  expect(world.requests.at(-1)?.headers).toMatchObject({ Authorization: "Bearer token-2" });
});

it("reports a token that throws, and retries", async () => {
  let failures = 1;
  begin({
    transports: ["http-streaming"],
    token: () => {
      if (failures-- > 0) throw new Error("not signed in");
      return "token";
    },
  });
  session.subscribe("cars");
  await until(() => session.status.state === "open");
  expect(statuses).toContainEqual(expect.objectContaining({ state: "waiting", reason: "not signed in" }));
});

it("follows the page's visibility and remembers the transport for it", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  const page = tab();
  const items = storage();
  vi.stubGlobal("sessionStorage", items);
  world.blocked.add("websocket");
  begin();
  session.subscribe("cars");
  await until(() => session.status.state === "open");
  expect(items.getItem("thalweg:transport:http://server")).toBe("http-streaming");
  page.hide(true);
  vi.advanceTimersByTime(5000);
  await until(() => world.requests.at(-1)?.url.searchParams.get("interval") === "2000ms");
  session.close();
  world.blocked.clear();
  begin();
  session.subscribe("cars");
  await until(() => session.status.state === "open");
  expect(session.status.transport).toBe("http-streaming");
  vi.useRealTimers();
});

it("changes transport by hand", async () => {
  begin();
  const seen: unknown[] = [];
  session.subscribe("cars", {}, ({ events }) => void seen.push(...events));
  await until(() => session.status.state === "open");
  session.use("long-polling");
  await until(() => session.status.transport === "long-polling");
  world.publish("cars", 1);
  await until(() => seen.length === 1);
  expect(() => session.use({ name: "forever-frame" } as never)).toThrow("is not available in a Worker");
});

it("rejects invalid arguments at once", () => {
  begin();
  session.subscribe("cars");
  expect(() => session.subscribe("cars", { from: "earliest" })).toThrow("use another session");
  expect(() => session.subscribe("a//b")).toThrow("a//b is not a topic name");
  expect(() => session.subscribe("boats", { from: "yesterday" })).toThrow("is not a cursor");
});

it("fails as the session in the Worker fails", async () => {
  const error = { code: "bad_origin", message: "not from there" };
  world.interfere = () => new Response(JSON.stringify({ error }), { status: 403 });
  begin({ transports: ["http-streaming"] });
  const subscription = session.subscribe("cars");
  const loop = (async () => {
    for await (const batch of subscription) void batch;
  })();
  await expect(loop).rejects.toEqual(new ThalwegError("bad_origin", "not from there", 403));
  await until(() => session.status.state === "closed");
  expect(session.status.reason).toBe("not from there");
  expect(() => session.subscribe("boats")).toThrow("closed");
});

it("reports a missing transport, and a Worker that does not load", async () => {
  begin({ transports: ["sse"] });
  const closed = (): boolean => statuses.at(-1)?.state === "closed";
  await until(closed);
  expect(session.status.reason).toBe("no transport is available here");
  statuses.length = 0;
  let fail = (_: { message?: string }): void => {};
  const onStatus = (status: Status): void => void statuses.push(status);
  session = connectInWorker(
    { postMessage() {}, addEventListener: (_, listener) => (fail = listener) },
    "http://server/",
    { onStatus },
  );
  const published = expect(session.publish("cars", 1)).rejects.toMatchObject({ code: "no_worker" });
  fail({ message: "404" });
  await published;
  expect(session.status).toEqual({ state: "closed", transport: null, reason: "404" });
});

it("delivers the batches before an end in the same message", async () => {
  const lines = [
    '{"topic":"cars","position":"e1.0","first":1,"events":[]}',
    '{"topic":"cars","position":"e1.2","first":1,"events":[1,2]}',
    '{"close":{"code":1008,"reason":"too slow","reconnect":false}}',
  ];
  world.interfere = () => new Response(`${lines.join("\n")}\n`);
  begin({ transports: ["http-streaming"] });
  const seen: unknown[] = [];
  const loop = (async () => {
    for await (const { events } of session.subscribe("cars")) seen.push(...events);
  })();
  await expect(loop).rejects.toMatchObject({ code: "close_1008" });
  expect(seen).toEqual([1, 2]);
});

it("passes the errors of topics and of the session to onError", async () => {
  const errors: unknown[] = [];
  const onError = ({ code }: ThalwegError): void => void errors.push(code);
  world.refused.add("boats");
  begin();
  session.subscribe("boats", { onError }, () => {});
  session.subscribe("cars", { onError }, () => {});
  await until(() => errors.length === 1);
  world.close(1008, "too slow", false);
  await until(() => errors.length === 2);
  expect(errors).toEqual(["too_many_topics", "close_1008"]);
});

it("a status listener that throws does no harm", async () => {
  const errors: unknown[] = [];
  const caught = (error: unknown): void => void errors.push(error);
  process.on("uncaughtException", caught);
  begin({
    onStatus: () => {
      throw new Error("the page's");
    },
  });
  session.subscribe("cars");
  await until(() => world.listeners.size === 1);
  expect(() => session.close()).not.toThrow();
  await until(() => world.listeners.size === 0);
  process.off("uncaughtException", caught);
  expect(errors.length).toBeGreaterThan(0);
});

it("distinguishes an error of the page's token from a rejection by the server", async () => {
  let failures = 3;
  begin({
    transports: ["http-streaming"],
    token: () => {
      if (failures-- > 0) throw Object.assign(new Error("HTTP 404"), { status: 404 });
      return "token";
    },
  });
  session.subscribe("cars");
  await until(() => statuses.some(({ state }) => state === "waiting"));
  expect(session.status).toMatchObject({ state: "waiting", reason: "HTTP 404" });
});

it("closes the session in the Worker, and settles pending requests", async () => {
  begin();
  const subscription = session.subscribe("cars");
  const loop = (async () => {
    for await (const batch of subscription) void batch;
  })();
  await until(() => world.listeners.size === 1);
  world.interfere = () => new Response(new ReadableStream());
  const asked = expect(session.request(1)).rejects.toMatchObject({ code: "closed" });
  session.close();
  await Promise.all([loop, asked]);
  await until(() => world.listeners.size === 0);
  expect(statuses.at(-1)).toEqual({ state: "closed", transport: null, reason: null });
});
