/** Which transport is used, and when it is changed. */

import { describe, expect, it, vi } from "vitest";
import { type Abilities, abilities, foreverFrame, published } from "../dist/forever-frame.js";
import { advance, begin, collect, statuses, storage, useWorld, world } from "./fixture.js";

useWorld();

it("falls to what works, at once, and stays there", async () => {
  world.blocked.add("websocket").add("http-streaming").add("sse");
  const { events } = collect(begin());
  await advance();
  world.publish("cars", 1);
  await advance();
  expect(events).toEqual([1]);
  expect(statuses.at(-1)).toBe("open long-polling");
});

it("judges a transport by what arrives, not by whether it opened", async () => {
  world.silent.add("websocket").add("http-streaming").add("sse");
  collect(begin({ connectTimeout: 3000 }));
  await advance(2999);
  expect(statuses).toEqual(["connecting websocket"]);
  await advance(1);
  expect(statuses.at(-1)).toBe("connecting http-streaming");
  await advance(3000);
  expect(statuses.at(-1)).toBe("connecting sse");
  await advance(3000);
  expect(statuses.at(-1)).toBe("open long-polling");
});

it("gives up a connection whose heartbeats stay away", async () => {
  collect(begin({ idleTimeout: 60_000 }));
  await advance();
  for (let beat = 0; beat < 5; beat++) {
    await advance(25_000);
    world.heartbeat();
  }
  await advance();
  expect(world.requests).toHaveLength(1);
  world.silent.add("websocket");
  await advance(59_999);
  expect(statuses.at(-1)).toBe("open websocket");
  await advance(1);
  expect(statuses.at(-1)).toBe("waiting");
});

it("upgrades, and nothing is lost or repeated on the way", async () => {
  world.blocked.add("websocket");
  const { events } = collect(begin());
  await advance();
  expect(statuses.at(-1)).toBe("open http-streaming");
  world.publish("cars", 1);
  world.blocked.clear();
  await advance(29_000);
  expect(statuses.at(-1)).toBe("open http-streaming");
  world.publish("cars", 2);
  await advance(1000);
  world.publish("cars", 3);
  await advance();
  expect(statuses.at(-1)).toBe("open websocket");
  expect(events).toEqual([1, 2, 3]);
  expect(world.listeners.size).toBe(1);
});

describe("after an outage", () => {
  const ALL = ["websocket", "http-streaming", "sse", "long-polling"] as const;
  /** So many ms without a server, and then what the session says until it is open. */
  async function outage(ms: number): Promise<string[]> {
    const before = [...world.blocked];
    for (const way of ALL) world.blocked.add(way);
    world.cut();
    await advance(ms);
    world.blocked.clear();
    for (const way of before) world.blocked.add(way);
    statuses.length = 0;
    // No wait is longer than 30 s.
    for (let waited = 0; waited <= 30_000 && !statuses.at(-1)?.startsWith("open"); waited += 100) await advance(100);
    return statuses;
  }

  it.each([0, 1000, 3000, 10_000, 60_000, 600_000])("of %i ms it begins with what worked last", async (ms) => {
    collect(begin());
    await advance();
    expect(await outage(ms)).toEqual(["connecting websocket", "open websocket"]);
  });

  it("it begins with what worked last, though that is not the best", async () => {
    world.blocked.add("websocket").add("http-streaming");
    collect(begin());
    await advance();
    expect(await outage(3000)).toEqual(["connecting sse", "open sse"]);
    expect(await outage(3000)).toEqual(["connecting sse", "open sse"]);
  });

  it("it tries the others where that works no more", async () => {
    collect(begin());
    await advance();
    world.blocked.add("websocket");
    expect(await outage(3000)).toEqual(["connecting websocket", "connecting http-streaming", "open http-streaming"]);
    // And does not come back at once to what failed.
    await advance(29_000);
    expect(statuses).toHaveLength(3);
  });

  it("it is soon back at what worked last, if another was just being tried when the server came back", async () => {
    world.blocked.add("websocket");
    collect(begin({ connectTimeout: 5000 }));
    await advance();
    expect(statuses.at(-1)).toBe("open http-streaming");
    world.blocked.clear();
    for (const way of ALL) world.silent.add(way);
    world.cut();
    // Each takes its 5 s to fail: of the second round the third is being tried.
    while (!statuses.slice(10).includes("connecting sse")) await advance(1000);
    world.silent.clear();
    await advance(6000);
    expect(statuses.slice(-2)).toEqual(["open long-polling", "open http-streaming"]);
  });
});

it("changes transport by hand while data flows, and keeps to it", async () => {
  const session = begin();
  const { events } = collect(session);
  await advance();
  session.use("long-polling");
  world.publish("cars", 1);
  await advance();
  world.publish("cars", 2);
  await advance();
  expect(statuses.at(-1)).toBe("open long-polling");
  await advance(3_600_000);
  expect(statuses.at(-1)).toBe("open long-polling");
  session.use(null);
  await advance();
  world.publish("cars", 3);
  await advance();
  expect(statuses.at(-1)).toBe("open websocket");
  expect(events).toEqual([1, 2, 3]);
});

it("goes back to what was chosen by hand when that had failed", async () => {
  const session = begin();
  const { events } = collect(session);
  await advance();
  session.use("http-streaming");
  await advance();
  world.blocked.add("http-streaming");
  world.cut();
  await advance(2000);
  expect(statuses.at(-1)).toBe("open websocket");
  world.blocked.clear();
  await advance(30_000);
  expect(statuses.at(-1)).toBe("open http-streaming");
  world.publish("cars", 1);
  await advance();
  expect(events).toEqual([1]);
});

it("upgrades one transport at a time where the best stays out of reach", async () => {
  world.blocked.add("websocket").add("http-streaming").add("sse");
  collect(begin());
  await advance();
  expect(statuses.at(-1)).toBe("open long-polling");
  world.blocked.delete("http-streaming");
  await advance(30_000);
  expect(statuses.at(-1)).toBe("open long-polling");
  await advance(60_000);
  expect(statuses.at(-1)).toBe("open http-streaming");
});

it("tries a better one on time, however often topics change", async () => {
  world.blocked.add("websocket");
  const session = begin();
  collect(session);
  await advance();
  world.blocked.clear();
  for (let second = 0; second < 30; second++) {
    collect(session, `topic/${second}`);
    await advance(1000);
  }
  expect(statuses.at(-1)).toBe("open websocket");
});

it("a connection by hand carries what is subscribed to while it is opened", async () => {
  const session = begin();
  collect(session);
  await advance();
  world.delay = () => 1000;
  session.use("http-streaming");
  await advance();
  const boats = collect(session, "boats");
  await advance(3000);
  world.delay = () => 0;
  expect(statuses.at(-1)).toBe("open http-streaming");
  world.publish("boats", 1);
  await advance();
  expect(boats.events).toEqual([1]);
});

it("changes by hand though topics change in the same moment", async () => {
  const session = begin({ transports: ["websocket", "http-streaming"] });
  session.use("http-streaming");
  collect(session);
  await advance();
  expect(statuses.at(-1)).toBe("open http-streaming");
  session.use("websocket");
  const boats = collect(session, "boats");
  await advance(1000);
  expect(statuses.at(-1)).toBe("open websocket");
  world.publish("boats", 1);
  await advance();
  expect(boats.events).toEqual([1]);
});

it("says what it does when the one in use breaks before the next has come", async () => {
  const session = begin();
  collect(session);
  await advance();
  world.silent.add("http-streaming");
  session.use("http-streaming");
  await advance();
  [...world.listeners].find(({ way }) => way === "websocket")?.cut();
  await advance();
  expect(statuses).toEqual(["connecting websocket", "open websocket", "connecting http-streaming"]);
});

it("starts where volume is high with HTTP streaming", async () => {
  collect(begin({ volume: "high" }));
  await advance();
  expect(statuses).toEqual(["connecting http-streaming", "open http-streaming"]);
  world.blocked.add("http-streaming");
  world.cut();
  await advance(2000);
  expect(statuses.at(-1)).toBe("open websocket");
});

it("remembers what worked for the browser session, for each server, and upgrades from there", async () => {
  vi.stubGlobal("sessionStorage", storage());
  world.blocked.add("websocket").add("http-streaming");
  collect(begin());
  await advance();
  expect(statuses.at(-1)).toBe("open sse");
  statuses.length = 0;
  world.blocked.clear();
  collect(begin());
  await advance();
  expect(statuses).toEqual(["connecting sse", "open sse"]);
  await advance(30_000);
  expect(statuses.at(-1)).toBe("open websocket");
});

it("does not remember what was no choice", async () => {
  vi.stubGlobal("sessionStorage", storage());
  collect(begin({ transports: ["long-polling"] }));
  await advance();
  expect(statuses.at(-1)).toBe("open long-polling");
  collect(begin());
  await advance();
  expect(statuses.at(-1)).toBe("open websocket");
});

it("goes on without storage where there is none to be had", async () => {
  const forbidden = (): never => {
    throw new DOMException("The operation is insecure.", "SecurityError");
  };
  vi.stubGlobal("sessionStorage", { getItem: forbidden, setItem: forbidden });
  collect(begin());
  await advance();
  expect(statuses.at(-1)).toBe("open websocket");
});

it("passes over a transport that cannot even be opened", async () => {
  vi.stubGlobal("WebSocket", () => {
    throw new DOMException("The operation is insecure.", "SecurityError");
  });
  collect(begin());
  await advance();
  expect(statuses.at(-1)).toBe("open http-streaming");
});

it("says so where there is no transport", () => {
  vi.stubGlobal("EventSource", undefined);
  expect(() => begin({ transports: ["sse"] })).toThrow(expect.objectContaining({ code: "no_transport" }));
  const session = begin();
  expect(() => session.use("sse")).toThrow("there is no sse here");
});

describe("the policy published: the rules of experiment B", () => {
  const all: Abilities = {
    isCrossOrigin: false,
    hasCors: true,
    hasWebSocket: true,
    serverHasWebSocket: true,
    hasEventSource: true,
    hasForeverFrame: true,
  };
  const none: Abilities = {
    isCrossOrigin: false,
    hasCors: false,
    hasWebSocket: false,
    serverHasWebSocket: true,
    hasEventSource: false,
    hasForeverFrame: false,
  };
  const cross = { ...all, isCrossOrigin: true };
  const cases: [string, Abilities, string][] = [
    ["a client without any support: long polling", none, "long-polling"],
    ["cross-origin, CORS and WebSocket on both sides: WebSocket", cross, "websocket"],
    ["cross-origin, no CORS: long polling", { ...cross, hasCors: false }, "long-polling"],
    ["cross-origin, client has no WebSocket: long polling", { ...cross, hasWebSocket: false }, "long-polling"],
    ["cross-origin, server has no WebSocket: long polling", { ...cross, serverHasWebSocket: false }, "long-polling"],
    ["both have WebSocket: WebSocket", all, "websocket"],
    ["WebSocket without CORS matters to nobody: WebSocket", { ...all, hasCors: false }, "websocket"],
    ["client has no WebSocket: Server-Sent Events", { ...all, hasWebSocket: false }, "sse"],
    ["server has no WebSocket: Server-Sent Events", { ...all, serverHasWebSocket: false }, "sse"],
    ["nor EventSource: forever frame", { ...all, hasWebSocket: false, hasEventSource: false }, "forever-frame"],
    ["nor frames: long polling", { ...none, hasCors: true }, "long-polling"],
  ];
  it.each(cases)("%s", (_, can, first) => {
    const [used, ...others] = published(can);
    expect(typeof used === "string" ? used : used?.name).toBe(first);
    // Should it fail, long polling it is, which is also the end.
    expect(others).toEqual(first === "long-polling" ? [] : ["long-polling"]);
  });

  it("is what a session can be given", async () => {
    const can = { ...all, hasWebSocket: false };
    collect(begin({ transports: published(can) }));
    await advance();
    expect(statuses).toEqual(["connecting sse", "open sse"]);
    world.blocked.add("sse");
    world.cut();
    await advance(2000);
    expect(statuses.at(-1)).toBe("open long-polling");
  });

  it("finds out what this client can do", () => {
    vi.stubGlobal("location", new URL("http://server/page"));
    expect(abilities("/")).toEqual({ ...all, hasForeverFrame: false });
    expect(abilities("http://other/").isCrossOrigin).toBe(true);
    expect(foreverFrame.isSupported(new URL("http://server/"))).toBe(false);
  });
});
