/** Flow control of slow and hidden pages. */

import { expect, it } from "vitest";
import type { Session, Subscription } from "../dist/thalweg.js";
import { advance, begin, collect, statuses, tab, useWorld, world } from "./fixture.js";

useWorld();

it("opens a window on WebSocket and acks processed events", async () => {
  let processed = (): void => {};
  const session = begin({ window: 4096 });
  session.subscribe("cars", {}, () => new Promise<void>((done) => (processed = done)));
  await advance();
  expect(world.commands[0]).toMatchObject({ command: "subscribe", window: "4096" });
  const acks = (): unknown[] => {
    const all = world.commands.filter(({ command }) => command === "ack");
    return all.map(({ position }) => position);
  };
  await advance(50);
  // The ack of the start.
  expect(acks()).toEqual(["e1.0"]);
  world.publish("cars", "x".repeat(2000));
  world.publish("cars", 2);
  await advance(1000);
  expect(acks()).toEqual(["e1.0"]);
  processed();
  await advance();
  expect(acks()).toEqual(["e1.0", "e1.1"]);
  processed();
  await advance(49);
  expect(acks()).toHaveLength(2);
  await advance(1);
  expect(acks()).toEqual(["e1.0", "e1.1", "e1.2"]);
});

it("acks the start as soon as it is known, on request", async () => {
  for (const transports of [["websocket"], ["http-streaming"]] as const) {
    world.commands.length = 0;
    begin({ transports, window: 0 }).subscribe("cars").ack();
    await advance();
    expect(world.commands.at(-1)).toEqual({ command: "ack", topic: "cars", position: "e1.0" });
  }
});

it("acks at once on request, including the current batch", async () => {
  const session = begin();
  const subscription: Subscription<unknown> = session.subscribe("cars", {}, () => subscription.ack());
  await advance();
  world.publish("cars", 1);
  await advance();
  world.publish("cars", 2);
  await advance();
  const acks = world.commands.filter(({ command }) => command === "ack");
  expect(acks.map(({ position }) => position)).toEqual(["e1.1", "e1.2"]);
});

it("acks by POST over one-way transports, and only on request", async () => {
  const session = begin({ transports: ["http-streaming"] });
  const subscription = session.subscribe("cars");
  const loop = (async () => {
    for await (const { events } of subscription) {
      if (events.includes(2)) subscription.ack();
      if (events.includes(3)) return;
    }
  })();
  await advance();
  for (const event of [1, 2, 3]) {
    world.publish("cars", event);
    await advance(1000);
  }
  await loop;
  expect(world.commands).toEqual([{ command: "ack", topic: "cars", position: "e1.2" }]);
});

it.each([
  ["closed", (session: Session) => session.close()],
  ["cut off", () => world.cut()],
  ["on another transport", (session: Session) => session.use("http-streaming")],
])("asks for nothing by POST that it was not told to, when it is %s before an ack is due", async (_, leave) => {
  const session = begin();
  collect(session);
  await advance();
  world.publish("cars", 1);
  await advance();
  leave(session);
  await advance(200);
  expect(world.requests.map(({ method }) => method)).not.toContain("POST");
});

it("acks only events since the page subscribed again", async () => {
  const session = begin();
  world.publish("cars", 1, 2, 3);
  const { subscription } = collect(session, "cars", "earliest");
  await advance();
  subscription.close();
  session.subscribe("cars", { from: "earliest" }, () => new Promise<void>(() => {}));
  await advance(1000);
  const acks = world.commands.filter(({ command }) => command === "ack");
  expect(acks.map(({ position }) => position)).toEqual(["e1.0"]);
});

it("a slow page gets at most a window, then all waiting events at once", async () => {
  const batches: number[] = [];
  let processed = (): void => {};
  begin({ window: 1024 }).subscribe("cars", {}, ({ events }) => {
    batches.push(events.length);
    return new Promise<void>((done) => (processed = done));
  });
  await advance();
  for (let event = 0; event < 100; event++) world.publish("cars", event);
  await advance(10_000);
  expect(batches).toEqual([1]);
  const sent = [...world.listeners][0]?.cursors.get("cars") as number;
  expect(sent).toBeLessThan(20);
  while (batches.reduce((sum, length) => sum + length, 0) < 100) {
    processed();
    await advance(50);
  }
  expect(batches.at(-1)).toBe(100 - sent);
});

it("repeats over two connections do not use up a window", async () => {
  world.blocked.add("websocket");
  const { events } = collect(begin({ window: 1024 }));
  await advance();
  world.blocked.clear();
  // The first message of the new connection is late, so the old one delivers the same events.
  world.delay = () => 200;
  await advance(30_000);
  world.delay = () => 10;
  for (let event = 0; event < 40; event++) world.publish("cars", event);
  await advance(20);
  expect([statuses.at(-1), events.length]).toEqual(["open http-streaming", 40]);
  await advance(5000);
  expect(statuses.at(-1)).toBe("open websocket");
  world.publish("cars", 40);
  await advance(1000);
  expect(events).toEqual(Array.from({ length: 41 }, (_, event) => event));
});

it("requests no window and sends no acks if the window is 0", async () => {
  collect(begin({ window: 0 }));
  await advance();
  world.publish("cars", 1);
  await advance(1000);
  expect(world.commands).toEqual([{ command: "subscribe", id: 1, topic: "cars", cursor: "latest" }]);
});

it("closes a connection without backpressure when the page holds too much, and resumes later", async () => {
  const seen: unknown[] = [];
  let processed = (): void => {};
  begin({ transports: ["sse"] }).subscribe("cars", {}, ({ first, events }) => {
    seen.push(...events.map((_, index) => first + index));
    return new Promise<void>((done) => (processed = done));
  });
  await advance();
  const megabyte = "x".repeat(1 << 20);
  for (let event = 0; event < 17; event++) world.publish("cars", megabyte);
  await advance();
  expect(statuses.at(-1)).toBe("waiting");
  expect(world.listeners.size).toBe(0);
  world.publish("cars", 18);
  await advance(60_000);
  expect(world.requests).toHaveLength(1);
  while (seen.length < 18) {
    processed();
    await advance(100);
  }
  expect(statuses.at(-1)).toBe("open sse");
  expect(seen).toEqual(Array.from({ length: 18 }, (_, index) => index + 1));
});

it("stops reading a stream while the page holds much", async () => {
  let processed = (): void => {};
  let count = 0;
  begin({ transports: ["http-streaming"] }).subscribe("cars", {}, () => {
    count += 1;
    return new Promise<void>((done) => (processed = done));
  });
  await advance();
  const megabyte = "x".repeat(1 << 20);
  for (let event = 0; event < 40; event++) world.publish("cars", megabyte);
  await advance();
  const [{ unread }] = [...world.bodies] as [{ unread(): number }];
  expect(unread()).toBeGreaterThan(30);
  // The wait for the page does not count as silence of the connection.
  await advance(600_000);
  expect(world.requests).toHaveLength(1);
  while (count < 40) {
    processed();
    await advance();
  }
  expect(unread()).toBe(0);
  expect(statuses.at(-1)).toBe("open http-streaming");
});

it("dropped batches of a closed subscription count as processed", async () => {
  const session = begin({ transports: ["sse"] });
  const megabyte = "x".repeat(1 << 20);
  for (let round = 0; round < 5; round++) {
    const subscription = session.subscribe("cars", {}, () => new Promise<void>(() => {}));
    await advance();
    for (let event = 0; event < 8; event++) world.publish("cars", megabyte);
    await advance();
    subscription.close();
    await advance();
  }
  const loop = session.subscribe("boats");
  await advance();
  world.publish("boats", 1);
  for await (const { events } of loop) {
    expect(events).toEqual([1]);
    break;
  }
  expect(statuses).not.toContain("waiting");
});

const STREAMS = ["websocket", "http-streaming", "sse"] as const;
it.each(STREAMS)("a hidden tab over %s requests fewer batches", async (name) => {
  const page = tab();
  const { events } = collect(begin({ transports: [name], hiddenInterval: 3000 }));
  const interval = (): unknown => {
    const subscribed = world.commands.filter(({ command }) => command === "subscribe");
    if (name === "websocket") return subscribed.at(-1)?.["interval"];
    return world.requests.at(-1)?.url.searchParams.get("interval") ?? undefined;
  };
  await advance();
  expect(interval()).toBeUndefined();
  page.hide(true);
  await advance(4999);
  expect(interval()).toBeUndefined();
  world.publish("cars", 1);
  await advance(1);
  expect(interval()).toBe("3000ms");
  world.publish("cars", 2);
  page.hide(false);
  await advance();
  expect(interval()).toBeUndefined();
  world.publish("cars", 3);
  await advance();
  expect(events).toEqual([1, 2, 3]);
  expect(world.listeners.size).toBe(1);
});

it("a briefly hidden tab, or one with hiddenInterval 0, keeps its rate", async () => {
  const page = tab();
  collect(begin());
  collect(begin({ hiddenInterval: 0 }));
  await advance(1000);
  const before = world.commands.length;
  page.hide(true);
  await advance(4000);
  page.hide(false);
  await advance(4000);
  expect(world.commands).toHaveLength(before);
});

it.each([
  ["the page is visible again", (page: ReturnType<typeof tab>) => page.hide(false)],
  ["the network is back", (page: ReturnType<typeof tab>) => page.dispatchEvent(new Event("online"))],
])("comes back at once when %s", async (_, wake) => {
  const page = tab();
  for (const way of ["websocket", "http-streaming", "sse", "long-polling"] as const) world.blocked.add(way);
  collect(begin());
  await advance(60_000);
  expect(statuses.at(-1)).toBe("waiting");
  world.blocked.clear();
  wake(page);
  await advance();
  expect(statuses.at(-1)).toMatch(/^open/);
});
