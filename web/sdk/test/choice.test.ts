/** Which transport is used, and when it is changed. */

import { describe, expect, it, vi } from "vitest";
import { type Abilities, abilities, foreverFrame, published } from "../dist/forever-frame.js";
import { begin, gather, pass, stage, statuses, storage, world } from "./stage.js";

stage();

it("falls to what works, at once, and stays there", async () => {
  world.blocked.add("websocket").add("http-streaming").add("sse");
  const { events } = gather(begin());
  await pass();
  world.publish("cars", 1);
  await pass();
  expect(events).toEqual([1]);
  expect(statuses.at(-1)).toBe("open long-polling");
});

it("judges a transport by what arrives, not by whether it opened", async () => {
  world.silent.add("websocket").add("http-streaming").add("sse");
  gather(begin({ connectTimeout: 3000 }));
  await pass(2999);
  expect(statuses).toEqual(["connecting websocket"]);
  await pass(1);
  expect(statuses.at(-1)).toBe("connecting http-streaming");
  await pass(3000);
  expect(statuses.at(-1)).toBe("connecting sse");
  await pass(3000);
  expect(statuses.at(-1)).toBe("open long-polling");
});

it("gives up a connection whose heartbeats stay away", async () => {
  gather(begin({ idleTimeout: 60_000 }));
  await pass();
  for (let beat = 0; beat < 5; beat++) {
    await pass(25_000);
    world.heartbeat();
  }
  await pass();
  expect(world.requests).toHaveLength(1);
  world.silent.add("websocket");
  await pass(59_999);
  expect(statuses.at(-1)).toBe("open websocket");
  await pass(1);
  expect(statuses.at(-1)).toBe("waiting");
});

it("upgrades, and nothing is lost or repeated on the way", async () => {
  world.blocked.add("websocket");
  const { events } = gather(begin());
  await pass();
  expect(statuses.at(-1)).toBe("open http-streaming");
  world.publish("cars", 1);
  world.blocked.clear();
  await pass(29_000);
  expect(statuses.at(-1)).toBe("open http-streaming");
  world.publish("cars", 2);
  await pass(1000);
  world.publish("cars", 3);
  await pass();
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
    await pass(ms);
    world.blocked.clear();
    for (const way of before) world.blocked.add(way);
    statuses.length = 0;
    // No wait is longer than 30 s.
    for (let waited = 0; waited <= 30_000 && !statuses.at(-1)?.startsWith("open"); waited += 100) await pass(100);
    return statuses;
  }

  it.each([0, 1000, 3000, 10_000, 60_000, 600_000])("of %i ms it begins with what worked last", async (ms) => {
    gather(begin());
    await pass();
    expect(await outage(ms)).toEqual(["connecting websocket", "open websocket"]);
  });

  it("it begins with what worked last, though that is not the best", async () => {
    world.blocked.add("websocket").add("http-streaming");
    gather(begin());
    await pass();
    expect(await outage(3000)).toEqual(["connecting sse", "open sse"]);
    expect(await outage(3000)).toEqual(["connecting sse", "open sse"]);
  });

  it("it tries the others where that works no more", async () => {
    gather(begin());
    await pass();
    world.blocked.add("websocket");
    expect(await outage(3000)).toEqual(["connecting websocket", "connecting http-streaming", "open http-streaming"]);
    // And does not come back at once to what failed.
    await pass(29_000);
    expect(statuses).toHaveLength(3);
  });

  it("it is soon back at what worked last, if another was just being tried when the server came back", async () => {
    world.blocked.add("websocket");
    gather(begin({ connectTimeout: 5000 }));
    await pass();
    expect(statuses.at(-1)).toBe("open http-streaming");
    world.blocked.clear();
    for (const way of ALL) world.silent.add(way);
    world.cut();
    // Each takes its 5 s to fail: of the second round the third is being tried.
    while (!statuses.slice(10).includes("connecting sse")) await pass(1000);
    world.silent.clear();
    await pass(6000);
    expect(statuses.slice(-2)).toEqual(["open long-polling", "open http-streaming"]);
  });
});

it("changes transport by hand while data flows, and keeps to it", async () => {
  const session = begin();
  const { events } = gather(session);
  await pass();
  session.use("long-polling");
  world.publish("cars", 1);
  await pass();
  world.publish("cars", 2);
  await pass();
  expect(statuses.at(-1)).toBe("open long-polling");
  await pass(3_600_000);
  expect(statuses.at(-1)).toBe("open long-polling");
  session.use(null);
  await pass();
  world.publish("cars", 3);
  await pass();
  expect(statuses.at(-1)).toBe("open websocket");
  expect(events).toEqual([1, 2, 3]);
});

it("goes back to what was chosen by hand when that had failed", async () => {
  const session = begin();
  const { events } = gather(session);
  await pass();
  session.use("http-streaming");
  await pass();
  world.blocked.add("http-streaming");
  world.cut();
  await pass(2000);
  expect(statuses.at(-1)).toBe("open websocket");
  world.blocked.clear();
  await pass(30_000);
  expect(statuses.at(-1)).toBe("open http-streaming");
  world.publish("cars", 1);
  await pass();
  expect(events).toEqual([1]);
});

it("upgrades one transport at a time where the best stays out of reach", async () => {
  world.blocked.add("websocket").add("http-streaming").add("sse");
  gather(begin());
  await pass();
  expect(statuses.at(-1)).toBe("open long-polling");
  world.blocked.delete("http-streaming");
  await pass(30_000);
  expect(statuses.at(-1)).toBe("open long-polling");
  await pass(60_000);
  expect(statuses.at(-1)).toBe("open http-streaming");
});

it("tries a better one on time, however often topics change", async () => {
  world.blocked.add("websocket");
  const session = begin();
  gather(session);
  await pass();
  world.blocked.clear();
  for (let second = 0; second < 30; second++) {
    gather(session, `topic/${second}`);
    await pass(1000);
  }
  expect(statuses.at(-1)).toBe("open websocket");
});

it("a connection by hand carries what is subscribed to while it is opened", async () => {
  const session = begin();
  gather(session);
  await pass();
  world.delay = () => 1000;
  session.use("http-streaming");
  await pass();
  const boats = gather(session, "boats");
  await pass(3000);
  world.delay = () => 0;
  expect(statuses.at(-1)).toBe("open http-streaming");
  world.publish("boats", 1);
  await pass();
  expect(boats.events).toEqual([1]);
});

it("changes by hand though topics change in the same moment", async () => {
  const session = begin({ transports: ["websocket", "http-streaming"] });
  session.use("http-streaming");
  gather(session);
  await pass();
  expect(statuses.at(-1)).toBe("open http-streaming");
  session.use("websocket");
  const boats = gather(session, "boats");
  await pass(1000);
  expect(statuses.at(-1)).toBe("open websocket");
  world.publish("boats", 1);
  await pass();
  expect(boats.events).toEqual([1]);
});

it("says what it does when the one in use breaks before the next has come", async () => {
  const session = begin();
  gather(session);
  await pass();
  world.silent.add("http-streaming");
  session.use("http-streaming");
  await pass();
  [...world.listeners].find(({ way }) => way === "websocket")?.cut();
  await pass();
  expect(statuses).toEqual(["connecting websocket", "open websocket", "connecting http-streaming"]);
});

it("starts where volume is high with HTTP streaming", async () => {
  gather(begin({ volume: "high" }));
  await pass();
  expect(statuses).toEqual(["connecting http-streaming", "open http-streaming"]);
  world.blocked.add("http-streaming");
  world.cut();
  await pass(2000);
  expect(statuses.at(-1)).toBe("open websocket");
});

it("remembers what worked for the browser session, for each server, and upgrades from there", async () => {
  vi.stubGlobal("sessionStorage", storage());
  world.blocked.add("websocket").add("http-streaming");
  gather(begin());
  await pass();
  expect(statuses.at(-1)).toBe("open sse");
  statuses.length = 0;
  world.blocked.clear();
  gather(begin());
  await pass();
  expect(statuses).toEqual(["connecting sse", "open sse"]);
  await pass(30_000);
  expect(statuses.at(-1)).toBe("open websocket");
});

it("does not remember what was no choice", async () => {
  vi.stubGlobal("sessionStorage", storage());
  gather(begin({ transports: ["long-polling"] }));
  await pass();
  expect(statuses.at(-1)).toBe("open long-polling");
  gather(begin());
  await pass();
  expect(statuses.at(-1)).toBe("open websocket");
});

it("goes on without storage where there is none to be had", async () => {
  const forbidden = (): never => {
    throw new DOMException("The operation is insecure.", "SecurityError");
  };
  vi.stubGlobal("sessionStorage", { getItem: forbidden, setItem: forbidden });
  gather(begin());
  await pass();
  expect(statuses.at(-1)).toBe("open websocket");
});

it("passes over a transport that cannot even be opened", async () => {
  vi.stubGlobal("WebSocket", () => {
    throw new DOMException("The operation is insecure.", "SecurityError");
  });
  gather(begin());
  await pass();
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
    gather(begin({ transports: published(can) }));
    await pass();
    expect(statuses).toEqual(["connecting sse", "open sse"]);
    world.blocked.add("sse");
    world.cut();
    await pass(2000);
    expect(statuses.at(-1)).toBe("open long-polling");
  });

  it("finds out what this client can do", () => {
    vi.stubGlobal("location", new URL("http://server/page"));
    expect(abilities("/")).toEqual({ ...all, hasForeverFrame: false });
    expect(abilities("http://other/").isCrossOrigin).toBe(true);
    expect(foreverFrame.isSupported(new URL("http://server/"))).toBe(false);
  });
});
