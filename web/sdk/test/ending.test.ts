/** Ends: of topics, subscriptions and sessions, and who is informed. */

import { describe, expect, it, vi } from "vitest";
import { ThalwegError, type TransportName } from "../dist/thalweg.js";
import { advance, begin, collect, statuses, useWorld, world } from "./fixture.js";

useWorld();

it("does not reconnect after a rejection, and reports the reason", async () => {
  const error = { code: "bad_topic", message: "no such topic can be" };
  world.blocked.add("websocket");
  world.interfere = () => new Response(JSON.stringify({ error }), { status: 400 });
  const session = begin();
  const subscription = session.subscribe("cars");
  const loop = (async () => {
    for await (const batch of subscription) void batch;
  })();
  const caught = expect(loop).rejects.toMatchObject({ code: "bad_topic", status: 400 });
  await advance();
  await caught;
  expect(session.status).toEqual({ state: "closed", transport: null, reason: error.message });
  const before = world.requests.length;
  await advance(120_000);
  expect(world.requests.length).toBe(before);
  expect(() => session.subscribe("other")).toThrow("closed");
});

it("reports the rejected topic, and continues with the others", async () => {
  world.refused.add("boats");
  const session = begin();
  const cars = collect(session, "cars");
  const boats = session.subscribe("boats");
  const loop = (async () => {
    for await (const batch of boats) void batch;
  })();
  const caught = expect(loop).rejects.toMatchObject({ code: "too_many_topics" });
  await advance();
  await caught;
  world.publish("cars", 1);
  await advance();
  expect(cars.events).toEqual([1]);
});

it("forgets a rejected topic: the page can subscribe again, and without other topics the session is idle", async () => {
  const errors: unknown[] = [];
  const onError = (error: ThalwegError): void => void errors.push(error.code);
  world.refused.add("boats");
  const session = begin();
  session.subscribe("boats", { onError }, () => {});
  await advance();
  expect(session.status.state).toBe("idle");
  collect(session, "cars");
  session.subscribe("boats", { onError }, () => {});
  await advance();
  expect(errors).toEqual(["too_many_topics", "too_many_topics"]);
  world.refused.clear();
  const boats = collect(session, "boats");
  await advance();
  world.publish("boats", 1);
  await advance();
  expect(boats.events).toEqual([1]);
});

it("throws an uncaught error if a rejected topic has no onError", async () => {
  const errors: unknown[] = [];
  const caught = (error: unknown): void => void errors.push(error);
  process.on("uncaughtException", caught);
  world.refused.add("boats");
  collect(begin(), "boats");
  await advance();
  process.off("uncaughtException", caught);
  expect(errors).toMatchObject([{ name: "ThalwegError", code: "too_many_topics" }]);
});

it("passes the session's error to onError", async () => {
  const errors: unknown[] = [];
  begin().subscribe("cars", { onError: (error) => errors.push(error) }, () => {});
  await advance();
  world.close(1008, "too slow", false);
  await advance();
  expect(errors).toEqual([new ThalwegError("close_1008", "too slow")]);
});

it("becomes idle when a pending request can no longer be answered", async () => {
  const session = begin();
  const { subscription } = collect(session);
  await advance();
  world.delay = () => 1000;
  const published = expect(session.publish("cars", 1)).rejects.toMatchObject({ code: "unanswered" });
  subscription.close();
  await advance(10);
  world.cut();
  await published;
  await advance(60_000);
  expect(statuses).toEqual(["connecting websocket", "open websocket", "waiting", "idle"]);
  expect(world.requests).toHaveLength(1);
});

it("becomes idle although a command could not be sent", async () => {
  const session = begin();
  const { subscription } = collect(session);
  await advance();
  await expect(session.publish("cars", 1n)).rejects.toThrow(TypeError);
  subscription.close();
  await advance();
  expect(session.status.state).toBe("idle");
});

it("waits for answers before it disconnects after the last topic", async () => {
  const session = begin();
  const { subscription } = collect(session);
  await advance();
  world.delay = () => 100;
  const published = session.publish("cars", 1);
  subscription.close();
  await advance(50);
  expect(world.listeners.size).toBe(1);
  await advance(50);
  expect(await published).toMatchObject({ first: 1 });
  await advance(100);
  expect(session.status.state).toBe("idle");
  expect(world.listeners.size).toBe(0);
});

it("stays closed if the page closes it in the status waiting", async () => {
  for (const way of ["websocket", "http-streaming", "sse", "long-polling"] as const) world.blocked.add(way);
  const states: string[] = [];
  const session = begin({
    onStatus: ({ state }) => {
      states.push(state);
      if (state === "waiting") session.close();
    },
  });
  collect(session);
  await advance(60_000);
  expect(states.slice(-2)).toEqual(["waiting", "closed"]);
  expect(world.requests).toHaveLength(4);
  expect(vi.getTimerCount()).toBe(0);
});

it("leaves no connection if the page closes it in the status open", async () => {
  world.blocked.add("websocket");
  const session = begin({ onStatus: ({ state }) => state === "open" && session.close() });
  collect(session);
  await advance();
  expect(session.status.state).toBe("closed");
  expect(world.listeners.size).toBe(0);
  expect(vi.getTimerCount()).toBe(0);
});

describe.each(["websocket", "http-streaming", "sse", "long-polling"] as TransportName[])("over %s", (name) => {
  it("reports the end of a topic after all of its events, and the others continue", async () => {
    const session = begin({ transports: [name] });
    const told: unknown[] = [];
    const onError = ({ code, message }: ThalwegError): void => void told.push([code, message]);
    const cars = collect(session, "cars");
    session.subscribe("boats", { onError }, ({ events }) => void told.push(...events));
    await advance();
    const before = world.requests.length;
    world.publish("boats", 1);
    // A long poll would disconnect after the end.
    if (name === "long-polling") await advance();
    world.end("boats", "deleted", "the topic was deleted");
    world.publish("cars", 2);
    await advance(30_000);
    expect(told).toEqual([1, ["deleted", "the topic was deleted"]]);
    expect(cars.events).toEqual([2]);
    expect(session.status).toMatchObject({ state: "open", transport: name });
    // A two-way connection is kept, and a one-way connection is replaced once.
    if (name !== "long-polling") expect(world.requests.length - before).toBe(name === "websocket" ? 0 : 1);
    // The name can be subscribed to again.
    const again = collect(session, "boats");
    await advance();
    world.publish("boats", 3);
    await advance(1000);
    expect(again.events).toEqual([3]);
  });

  it("is idle without topics, and can subscribe to others", async () => {
    const session = begin({ transports: [name] });
    const boats = session.subscribe("boats");
    const loop = (async () => {
      for await (const batch of boats) void batch;
    })();
    const caught = expect(loop).rejects.toMatchObject({ code: "gone", message: "there is no such thing" });
    await advance();
    world.end("boats", "gone", "there is no such thing");
    await advance(30_000);
    await caught;
    expect(session.status.state).toBe("idle");
    expect(world.listeners.size).toBe(0);
    const cars = collect(session, "cars");
    await advance();
    world.publish("cars", 1);
    await advance(1000);
    expect(cars.events).toEqual([1]);
  });
});
