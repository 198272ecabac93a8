/** The choice of the transport, and its changes. */

import { describe, expect, it, vi } from "vitest";
import { type Abilities, abilities, foreverFrame, published } from "../dist/forever-frame.js";
import { advance, begin, collect, statuses, storage, useWorld, world } from "./fixture.js";

useWorld();

it("falls back to a working transport at once, and keeps it", async () => {
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

it("gives up a connection without heartbeats", async () => {
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

it("upgrades without lost or repeated events", async () => {
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
  /** Runs an outage of this many ms, and returns the statuses until the session is open. */
  async function outage(ms: number): Promise<string[]> {
    const before = [...world.blocked];
    for (const way of ALL) world.blocked.add(way);
    world.cut();
    await advance(ms);
    world.blocked.clear();
    for (const way of before) world.blocked.add(way);
    statuses.length = 0;
    // No delay is longer than 30 s.
    for (let waited = 0; waited <= 30_000 && !statuses.at(-1)?.startsWith("open"); waited += 100) await advance(100);
    return statuses;
  }

  it.each([0, 1000, 3000, 10_000, 60_000, 600_000])(
    "of %i ms begins with the transport that worked last",
    async (ms) => {
      collect(begin());
      await advance();
      expect(await outage(ms)).toEqual(["connecting websocket", "open websocket"]);
    },
  );

  it("begins with the transport that worked last, even if it is not the best", async () => {
    world.blocked.add("websocket").add("http-streaming");
    collect(begin());
    await advance();
    expect(await outage(3000)).toEqual(["connecting sse", "open sse"]);
    expect(await outage(3000)).toEqual(["connecting sse", "open sse"]);
  });

  it("tries the others if that one no longer works", async () => {
    collect(begin());
    await advance();
    world.blocked.add("websocket");
    expect(await outage(3000)).toEqual(["connecting websocket", "connecting http-streaming", "open http-streaming"]);
    // The failed transport is not retried at once.
    await advance(29_000);
    expect(statuses).toHaveLength(3);
  });

  it("soon returns to the transport that worked last, if the server came back during an attempt with another one", async () => {
    world.blocked.add("websocket");
    collect(begin({ connectTimeout: 5000 }));
    await advance();
    expect(statuses.at(-1)).toBe("open http-streaming");
    world.blocked.clear();
    for (const way of ALL) world.silent.add(way);
    world.cut();
    // Each takes its 5 s to fail: in the second round the third one is being tried.
    while (!statuses.slice(10).includes("connecting sse")) await advance(1000);
    world.silent.clear();
    await advance(6000);
    expect(statuses.slice(-2)).toEqual(["open long-polling", "open http-streaming"]);
  });
});

it("switches the transport by hand while data flows, and keeps it", async () => {
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

it("returns to the transport chosen by hand after that one failed", async () => {
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

it("upgrades one transport at a time while the best one does not work", async () => {
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

it("tries a better transport on time, even if topics change often", async () => {
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

it("a connection opened by hand carries topics subscribed in the meantime", async () => {
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

it("switches by hand even if topics change at the same time", async () => {
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

it("reports its status if the connection breaks before the next one is established", async () => {
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

it("starts with HTTP streaming if volume is high", async () => {
  collect(begin({ volume: "high" }));
  await advance();
  expect(statuses).toEqual(["connecting http-streaming", "open http-streaming"]);
  world.blocked.add("http-streaming");
  world.cut();
  await advance(2000);
  expect(statuses.at(-1)).toBe("open websocket");
});

it("remembers the working transport per server for the browser session, and upgrades from there", async () => {
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

it("remembers no transport if there was no choice", async () => {
  vi.stubGlobal("sessionStorage", storage());
  collect(begin({ transports: ["long-polling"] }));
  await advance();
  expect(statuses.at(-1)).toBe("open long-polling");
  collect(begin());
  await advance();
  expect(statuses.at(-1)).toBe("open websocket");
});

it("works without storage", async () => {
  const forbidden = (): never => {
    throw new DOMException("The operation is insecure.", "SecurityError");
  };
  vi.stubGlobal("sessionStorage", { getItem: forbidden, setItem: forbidden });
  collect(begin());
  await advance();
  expect(statuses.at(-1)).toBe("open websocket");
});

it("skips a transport that cannot be opened", async () => {
  vi.stubGlobal("WebSocket", () => {
    throw new DOMException("The operation is insecure.", "SecurityError");
  });
  collect(begin());
  await advance();
  expect(statuses.at(-1)).toBe("open http-streaming");
});

it("throws if no transport is available", () => {
  vi.stubGlobal("EventSource", undefined);
  expect(() => begin({ transports: ["sse"] })).toThrow(expect.objectContaining({ code: "no_transport" }));
  const session = begin();
  expect(() => session.use("sse")).toThrow("sse is not available here");
});

describe("the policy published: the rules of experiment B", () => {
  const all: Abilities = {
    isJsonpRequested: false,
    isCrossOrigin: false,
    hasCors: true,
    hasWebSocket: true,
    serverHasWebSocket: true,
    hasEventSource: true,
    hasForeverFrame: true,
  };
  const none: Abilities = {
    isJsonpRequested: false,
    isCrossOrigin: false,
    hasCors: false,
    hasWebSocket: false,
    serverHasWebSocket: true,
    hasEventSource: false,
    hasForeverFrame: false,
  };
  const cross = { ...all, isCrossOrigin: true };
  const [ws, frame, poll] = ["websocket", "forever-frame", "long-polling"];
  const cases: [string, Abilities, string[]][] = [
    ["JSONP is requested", { ...all, isJsonpRequested: true }, [poll]],
    ["JSONP is requested, cross-origin", { ...cross, isJsonpRequested: true }, [poll]],
    ["cross-origin, CORS and WebSocket on both sides", cross, [ws, poll]],
    ["cross-origin, no CORS", { ...cross, hasCors: false }, [poll]],
    ["cross-origin, the client has no WebSocket", { ...cross, hasWebSocket: false }, [poll]],
    ["cross-origin, the server has no WebSocket", { ...cross, serverHasWebSocket: false }, [poll]],
    ["same origin, with everything", all, [ws, "sse", frame, poll]],
    ["same origin, without CORS", { ...all, hasCors: false }, [ws, "sse", frame, poll]],
    ["same origin, the client has no WebSocket", { ...all, hasWebSocket: false }, ["sse", frame, poll]],
    ["same origin, the server has no WebSocket", { ...all, serverHasWebSocket: false }, ["sse", frame, poll]],
    ["same origin, no EventSource", { ...all, hasEventSource: false }, [ws, frame, poll]],
    ["same origin, neither WebSocket nor EventSource", { ...none, hasForeverFrame: true }, [frame, poll]],
    ["a client without any of these", none, [poll]],
  ];
  it.each(cases)("%s", (_, can, expected) => {
    const names = published(can).map((transport) => (typeof transport === "string" ? transport : transport.name));
    expect(names).toEqual(expected);
  });

  it("the URL of the server decides the abilities", () => {
    vi.stubGlobal("location", new URL("http://server/page"));
    vi.stubGlobal("document", {});
    expect(published("/")).toEqual([ws, "sse", foreverFrame, poll]);
    expect(published(new URL("http://server:80/live"))).toEqual([ws, "sse", foreverFrame, poll]);
    expect(published("ws://server/live")).toEqual([ws, "sse", foreverFrame, poll]);
    expect(published("http://other/")).toEqual([ws, poll]);
    // Without the URL, a server of another origin would get the rules of the page's own.
    // @ts-expect-error: the URL is missing.
    expect(() => published()).toThrow("published() needs the URL");
  });

  it("each transport follows when those before it fail, in a client without forever frames", async () => {
    vi.stubGlobal("location", new URL("http://server/page"));
    world.blocked.add("websocket");
    collect(begin({ transports: published("/") }));
    await advance(2000);
    expect(statuses.at(-1)).toBe("open sse");
    world.blocked.add("sse");
    world.cut();
    await advance(2000);
    expect(statuses.at(-1)).toBe("open long-polling");
  });

  it("is a valid option of a session", async () => {
    const can = { ...all, hasWebSocket: false };
    collect(begin({ transports: published(can) }));
    await advance();
    expect(statuses).toEqual(["connecting sse", "open sse"]);
    world.blocked.add("sse");
    world.cut();
    await advance(2000);
    expect(statuses.at(-1)).toBe("open long-polling");
  });

  it("detects the abilities of this client", () => {
    vi.stubGlobal("location", new URL("http://server/page"));
    expect(abilities("/")).toEqual({ ...all, hasForeverFrame: false });
    expect(abilities("http://other/").isCrossOrigin).toBe(true);
    expect(foreverFrame.isSupported(new URL("http://server/"))).toBe(false);
  });
});
