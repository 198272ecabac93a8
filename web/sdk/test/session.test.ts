/** The guarantees of a session, over each transport, with the built bundle. */

import { describe, expect, it, vi } from "vitest";
import { type ConnectOptions, type Policy, ThalwegError } from "../dist/thalweg.js";
import { advance, begin, collect, statuses, useWorld, world } from "./fixture.js";

useWorld();

const ALL = [["websocket"], ["http-streaming"], ["sse"], ["long-polling"]] as const;

describe.each(ALL)("over %s", (name) => {
  const only: ConnectOptions = { transports: [name] };

  it("delivers each published event once and in order", async () => {
    const { events } = collect(begin(only));
    await advance();
    world.publish("cars", 1, 2);
    await advance();
    world.publish("cars", 3);
    await advance();
    expect(events).toEqual([1, 2, 3]);
    expect(statuses).toEqual([`connecting ${name}`, `open ${name}`]);
  });

  it("resumes when the connection breaks", async () => {
    const { events, gaps } = collect(begin(only));
    await advance();
    world.publish("cars", 1);
    await advance();
    world.cut();
    world.publish("cars", 2, 3);
    await advance(1000);
    world.publish("cars", 4);
    await advance();
    expect({ events, gaps }).toEqual({ events: [1, 2, 3, 4], gaps: [] });
  });

  it("reports deleted events as a gap with its size", async () => {
    const { events, gaps } = collect(begin(only), "cars", "earliest");
    world.publish("cars", 1);
    await advance();
    world.cut();
    world.publish("cars", 2, 3, 4, 5);
    world.trim("cars", 1);
    await advance(1000);
    expect({ events, gaps }).toEqual({ events: [1, 5], gaps: [{ missed: 3, reason: "trimmed" }] });
    world.restart();
    world.publish("cars", "new");
    await advance(2000);
    expect(events).toEqual([1, 5, "new"]);
    expect(gaps[1]).toEqual({ missed: null, reason: "epoch" });
  });

  it("carries several topics, and changes them", async () => {
    const session = begin(only);
    const cars = collect(session, "cars");
    const boats = collect(session, "boats");
    await advance();
    world.publish("cars", 1);
    world.publish("boats", 10);
    await advance();
    const trains = collect(session, "trains");
    boats.subscription.close();
    await advance();
    world.publish("cars", 2);
    world.publish("boats", 11);
    world.publish("trains", 20);
    await advance();
    expect([cars.events, boats.events, trains.events]).toEqual([[1, 2], [10], [20]]);
    expect(world.listeners.size).toBe(1);
  });

  it.each([
    [1000, "done", false],
    [1001, "draining", true],
    [1005, "", true],
    [1008, "too slow", false],
    [1013, "busy", true],
    [4002, "stalled", true],
    [4501, "not known", false],
  ])("close %i %s: to come back is %s", async (code, reason, reconnect) => {
    const session = begin(only);
    const { events } = collect(session);
    await advance();
    world.close(code, reason, reconnect);
    await advance(1000);
    if (reconnect) expect(session.status).toMatchObject({ state: "open", transport: name });
    else expect(session.status).toEqual({ state: "closed", transport: null, reason });
    world.publish("cars", 1);
    await advance();
    expect(events).toEqual(reconnect ? [1] : []);
  });

  it("subscribes to topics requested while it connects", async () => {
    const session = begin(only);
    const cars = collect(session, "cars");
    await Promise.resolve();
    await Promise.resolve();
    const boats = collect(session, "boats");
    await advance();
    world.publish("cars", 1);
    world.publish("boats", 2);
    await advance();
    expect([cars.events, boats.events]).toEqual([[1], [2]]);
  });

  it.each([
    ["at once", 0],
    ["while what was given up still arrives", 10],
  ])("begins anew with a topic that is given up and taken again %s", async (_, ms) => {
    const session = begin(only);
    collect(session, "boats");
    world.publish("cars", 1, 2, 3);
    const first = collect(session, "cars");
    await advance();
    world.delay = () => 100;
    world.publish("cars", 4);
    first.subscription.close();
    if (ms) await advance(ms);
    const again = collect(session, "cars", "earliest");
    await advance(20);
    world.publish("cars", 5);
    await advance(5000);
    expect(first.events).toEqual([]);
    expect(again).toMatchObject({ events: [1, 2, 3, 4, 5], gaps: [] });
    expect(world.listeners.size).toBe(1);
  });

  it("publishes, gets an answer, and receives the event", async () => {
    const session = begin(only);
    collect(session, "other");
    await advance();
    const published = await session.publish("cars", { speed: 39 });
    expect(published).toMatchObject({ topic: "cars", position: "e1.1", first: 1, count: 1 });
    expect(await session.publish("cars", 1, 2)).toMatchObject({ first: 2, count: 2 });
    expect(await session.request({ any: ["JSON"] })).toEqual({ any: ["JSON"] });
  });
});

it("iterates, and the loop ends with the subscription", async () => {
  const session = begin();
  const subscription = session.subscribe<number>("cars");
  const seen: number[] = [];
  const loop = (async () => {
    for await (const { events } of subscription) {
      seen.push(...events);
      if (seen.length === 3) break;
    }
  })();
  await advance();
  world.publish("cars", 1, 2);
  await advance();
  world.publish("cars", 3);
  await advance();
  await loop;
  expect(seen).toEqual([1, 2, 3]);
  await advance();
  expect(session.status.state).toBe("idle");
});

it("a waiting loop can be left", async () => {
  const session = begin();
  const loop = session.subscribe("cars")[Symbol.asyncIterator]();
  const waiting = loop.next();
  await advance();
  await loop.return();
  expect(await waiting).toEqual({ done: true, value: undefined });
  await advance();
  expect(session.status.state).toBe("idle");
  // A loop that has not begun can be left too.
  const other = session.subscribe("cars");
  await other[Symbol.asyncIterator]().return();
  session.subscribe("cars").close();
});

it("two loops share the batches, and both wake up", async () => {
  const session = begin();
  const subscription = session.subscribe<number>("cars", { from: "earliest" });
  const one = subscription[Symbol.asyncIterator]();
  const other = subscription[Symbol.asyncIterator]();
  const both = [one.next(), other.next()];
  await advance();
  world.publish("cars", 1);
  await advance();
  world.publish("cars", 2);
  await advance();
  const came = await Promise.all(both);
  expect(came.map(({ value }) => value?.events)).toEqual([[1], [2]]);
  const next = one.next();
  world.publish("cars", 3);
  await advance();
  expect((await next).value?.events).toEqual([3]);
  expect(subscription.position).toBe("e1.2");
});

it("backs off up to 30 s", async () => {
  for (const way of ["websocket", "http-streaming", "sse", "long-polling"] as const) world.blocked.add(way);
  collect(begin());
  await advance();
  const at = (): number => world.requests.length;
  const pauses: number[] = [];
  for (let round = 0; round < 7; round++) {
    const before = at();
    let waited = 0;
    while (at() === before) {
      await advance(250);
      waited += 250;
    }
    pauses.push(waited);
  }
  expect(pauses).toEqual([...pauses].sort((a, b) => a - b));
  expect(pauses.at(-1)).toBe(15_000);
});

it("repeats the publish of one event until it is answered, and the server appends it once", async () => {
  const session = begin({ transports: ["http-streaming"] });
  let failures = 3;
  world.interfere = (method) => {
    if (method !== "POST" || failures-- <= 0) return null;
    // The second attempt succeeded, but its answer was lost.
    if (failures === 1) throw new TypeError("network");
    return new Response("{}", { status: 503 });
  };
  const published = session.publish("cars", 7);
  await advance(10_000);
  expect(await published).toMatchObject({ first: 1, count: 1 });
  expect(world.topics.get("cars")?.events).toEqual([7]);
  const keys = new Set(world.requests.map(({ headers }) => headers["Idempotency-Key"]));
  expect(keys.size).toBe(1);
});

it.each([
  ["says only that there was an error, as Node's own", false],
  ["says both", true],
])("a WebSocket that %s is over, once and at once", async (_, hasClose) => {
  const tried: string[] = [];
  vi.stubGlobal(
    "WebSocket",
    class {
      onerror?: () => void;
      onclose?: (event: object) => void;
      constructor(url: URL) {
        tried.push(url.href);
        queueMicrotask(() => {
          this.onerror?.();
          if (hasClose) this.onclose?.({ code: 1006, reason: "" });
        });
      }
      close(): void {}
    },
  );
  collect(begin({ transports: ["websocket"], connectTimeout: Infinity }));
  for (let attempt = 1; attempt <= 5; attempt++) {
    await advance();
    expect(tried).toHaveLength(attempt);
    expect(statuses.at(-1)).toBe("waiting");
    await advance(1000 * 2 ** (attempt - 1));
  }
});

it("a listener that throws loses nothing", async () => {
  const errors: unknown[] = [];
  const caught = (error: unknown): void => void errors.push(error);
  process.on("uncaughtException", caught);
  const seen: unknown[] = [];
  begin().subscribe("cars", {}, ({ events }) => {
    seen.push(...events);
    throw new Error("the page's");
  });
  await advance();
  world.publish("cars", 1);
  await advance();
  world.publish("cars", 2);
  await advance();
  process.off("uncaughtException", caught);
  expect(seen).toEqual([1, 2]);
  expect(errors).toHaveLength(2);
  expect(statuses).toEqual(["connecting websocket", "open websocket"]);
});

it("a listener without types may return anything", async () => {
  const seen: unknown[] = [];
  begin().subscribe("cars", {}, (({ events }: { events: unknown[] }) => seen.push(...events)) as never);
  await advance();
  for (const event of [1, 2, 3]) {
    world.publish("cars", event);
    await advance();
  }
  expect(seen).toEqual([1, 2, 3]);
  expect(statuses).toEqual(["connecting websocket", "open websocket"]);
});

it("requests the options of a subscription", async () => {
  const options = { from: "e1.0", interval: 249.5, policy: "latest" as Policy };
  begin().subscribe("cars", options);
  begin({ transports: ["sse"] }).subscribe("cars", options);
  await advance();
  expect(world.commands[0]).toMatchObject({ cursor: "e1.0", interval: "250ms", policy: "latest" });
  const asked = Object.fromEntries((world.requests.at(-1)?.url.searchParams ?? []) as Iterable<[string, string]>);
  expect(asked).toEqual({ cursor: "e1.0", deltas: "patch", interval: "250ms", policy: "latest", transport: "sse" });
});

it("requests some keys, each topic its own", async () => {
  const names = ["bus 7", "a&b,c"];
  world.keyed.add("cars");
  begin().map("cars", { keys: names, prefix: "tram " });
  await advance();
  expect(world.commands[0]).toMatchObject({ keys: names, prefix: "tram " });
  const session = begin({ transports: ["sse"] });
  session.map("cars", { keys: names, prefix: "tram " });
  await advance();
  const { pathname, searchParams } = world.requests.at(-1)?.url ?? new URL("http://none");
  expect([pathname, searchParams.getAll("key"), searchParams.get("prefix")]).toEqual([
    "/v1/topics/cars",
    names,
    "tram ",
  ]);
  session.subscribe("boats");
  await advance();
  const topics = world.requests
    .at(-1)
    ?.url.searchParams.getAll("topic")
    .map((topic) => topic.split("?"));
  const filter = new URLSearchParams(topics?.[0]?.[1]);
  expect([filter.getAll("key"), filter.get("prefix"), topics?.[1]]).toEqual([names, "tram ", ["boats"]]);
  const refused = (code: string) => expect.objectContaining({ code });
  expect(() => session.map("cars", { keys: ["bus 7"] })).toThrow(refused("already_subscribed"));
  session.map("cars", { keys: names, prefix: "tram " });
  expect(() => session.map("trains", { keys: [] })).toThrow(refused("bad_key"));
});

it("has a policy for a one-way connection if all of its topics have the same", async () => {
  const session = begin({ transports: ["sse"] });
  const policy = (): string | null | undefined => world.requests.at(-1)?.url.searchParams.get("policy");
  session.subscribe("cars", { policy: "latest" });
  session.subscribe("boats", { policy: "latest" });
  await advance();
  expect(policy()).toBe("latest");
  session.subscribe("trains", { policy: "close" });
  await advance();
  expect(policy()).toBeNull();
});

it("distinguishes an unanswered publish from a rejected one", async () => {
  const session = begin();
  collect(session);
  await advance();
  const published = session.publish("cars", 1);
  const caught = expect(published).rejects.toMatchObject({ code: "unanswered" });
  world.cut();
  await advance();
  await caught;
  const error = { code: "unauthorized", message: "a token is needed" };
  world.interfere = (method) => (method === "POST" ? new Response(JSON.stringify({ error }), { status: 401 }) : null);
  const other = begin({ transports: ["long-polling"] });
  await expect(other.publish("cars", 1)).rejects.toEqual(new ThalwegError("unauthorized", "a token is needed", 401));
});

it("a proxy's response is no answer to a publish", async () => {
  let answers = 1;
  world.interfere = (method) => (method === "POST" && answers-- > 0 ? new Response("<h1>Please log in</h1>") : null);
  const session = begin();
  await expect(session.publish("cars", 1, 2)).rejects.toMatchObject({ code: "unreachable", status: null });
  answers = 1;
  const published = session.publish("cars", 1);
  await advance(1000);
  expect(await published).toMatchObject({ first: 1, count: 1 });
});

it("may wait without a timeout", async () => {
  const timers = vi.spyOn(globalThis, "setTimeout");
  const session = begin({ connectTimeout: Infinity, idleTimeout: Infinity });
  await expect(session.publish("cars", 1)).resolves.toMatchObject({ count: 1 });
  collect(session);
  await advance(10_000);
  expect(statuses.at(-1)).toBe("open websocket");
  expect(timers.mock.calls.length).toBeLessThan(10);
});

it("a status listener that throws does no harm", async () => {
  const errors: unknown[] = [];
  const caught = (error: unknown): void => void errors.push(error);
  process.on("uncaughtException", caught);
  const session = begin({
    onStatus: () => {
      throw new Error("the page's");
    },
  });
  const { events } = collect(session);
  await advance();
  world.publish("cars", 1);
  await advance();
  session.close();
  await advance();
  process.off("uncaughtException", caught);
  expect(events).toEqual([1]);
  expect(errors.length).toBeGreaterThan(0);
});

it("reports the time of its next attempt, and makes it at once on request", async () => {
  world.blocked.add("websocket");
  const session = begin({ transports: ["websocket"] });
  const { events } = collect(session);
  // Each failed attempt is followed by a longer delay.
  await advance(10_000);
  const { state, retryAt = 0 } = session.status;
  expect(state).toBe("waiting");
  expect(retryAt).toBeGreaterThan(Date.now() + 500);
  world.blocked.clear();
  await advance(100);
  expect(session.status).toMatchObject({ state: "waiting", retryAt });
  session.reconnect();
  await advance();
  expect(session.status).toMatchObject({ state: "open" });
  expect(session.status.retryAt).toBeUndefined();
  // `reconnect` does not touch a working connection.
  session.reconnect();
  world.publish("cars", 1);
  await advance();
  expect(events).toEqual([1]);
  session.close();
  expect(() => session.reconnect()).toThrow(ThalwegError);
});

it("begins with the events since a time", async () => {
  const from = { since: 1_764_437_000_000 };
  begin().subscribe("cars", { from });
  begin({ transports: ["sse"] }).subscribe("cars", { from });
  await advance();
  expect(world.commands[0]).toMatchObject({ cursor: "since.1764437000000" });
  expect(world.requests.at(-1)?.url.searchParams.get("cursor")).toBe("since.1764437000000");
  const wrong = expect.objectContaining({ code: "bad_cursor", message: "since.1.5 is not a cursor" });
  expect(() => begin().subscribe("cars", { from: { since: 1.5 } })).toThrow(wrong);
});

it("begins with a given number of the newest events", async () => {
  const from = { newest: 50 };
  begin().subscribe("cars", { from });
  begin({ transports: ["sse"] }).subscribe("cars", { from });
  await advance();
  expect(world.commands[0]).toMatchObject({ cursor: "newest.50" });
  expect(world.requests.at(-1)?.url.searchParams.get("cursor")).toBe("newest.50");
  for (const newest of [0, 1.5, 10_001]) {
    const wrong = expect.objectContaining({ code: "bad_cursor", message: `newest.${newest} is not a cursor` });
    expect(() => begin().subscribe("cars", { from: { newest } })).toThrow(wrong);
  }
});
