/** Reconnect delays (vectors/reconnecting.json); servers are never polled in a tight loop. */

import { describe, expect, it, vi } from "vitest";
import { connect, ThalwegError } from "../dist/thalweg.js";
import { backoff, retryAfter } from "../src/backoff.js";
import { advance, begin, collect, statuses, useWorld, world } from "./fixture.js";
import { read } from "./vectors.js";

interface Sequence {
  what: string;
  rounds: { lived_ms: number; retry_after?: string; delay_ms: [number, number] }[];
}
const { now_ms, sequences } = read<{ now_ms: number; sequences: Sequence[] }>("reconnecting.json");

useWorld();

it.each(sequences)("waits between attempts: $what", ({ rounds }) => {
  vi.setSystemTime(now_ms);
  const delays = (random: number): number[] => {
    vi.mocked(Math.random).mockReturnValue(random);
    const next = backoff();
    return rounds.map(({ lived_ms, retry_after }) => {
      const headers = new Headers(retry_after === undefined ? {} : { "Retry-After": retry_after });
      return next(lived_ms, retryAfter(new Response("", { headers })));
    });
  };
  expect(delays(0)).toEqual(rounds.map(({ delay_ms: [least] }) => least));
  expect(delays(1)).toEqual(rounds.map(({ delay_ms: [, most] }) => most));
});

/** Returns the times of requests within the next `ms`, in ms. */
async function requestsWithin(ms: number): Promise<number[]> {
  const times: number[] = [];
  const beganAt = Date.now();
  for (let seen = world.requests.length; Date.now() - beganAt < ms; await advance(10)) {
    for (; seen < world.requests.length; seen++) times.push(Math.round((Date.now() - beganAt) / 1000));
  }
  return times;
}

describe.each([["websocket"], ["http-streaming"], ["sse"], ["long-polling"]] as const)("over %s", (name) => {
  it("backs off from a server that confirms and closes", async () => {
    collect(begin({ transports: [name] }));
    const closeAtOnce = setInterval(() => world.close(1013, "busy", true), 100);
    const times = await requestsWithin(60_000);
    clearInterval(closeAtOnce);
    expect(statuses).toContain(`open ${name}`);
    // A round of polls has two requests, and a third if the close comes between two of them.
    expect(times.length).toBeLessThan(8 * (name === "long-polling" ? 3 : 1));
  });
});

it("does not poll in a tight loop if polls return empty at once", async () => {
  collect(begin({ transports: ["long-polling"] }));
  await advance();
  world.interfere = () => new Response('{"heartbeat":{}}\n');
  const times = await requestsWithin(60_000);
  expect(times.length).toBeLessThan(8);
  world.interfere = () => null;
  await advance(30_000);
  world.publish("cars", 1);
  await advance(30_000);
  expect(statuses.at(-1)).toBe("open long-polling");
});

it("obeys Retry-After of the server and of proxies", async () => {
  const error = { code: "too_many_requests", message: "too many" };
  const headers = { "Retry-After": "20" };
  for (const body of [JSON.stringify({ error }), "<h1>Busy</h1>"]) {
    const asked = world.requests.length;
    world.interfere = () => new Response(body, { status: 429, headers });
    const session = begin({ transports: ["http-streaming", "long-polling"] });
    collect(session);
    await advance(19_900);
    expect(world.requests).toHaveLength(asked + 1);
    world.interfere = () => null;
    await advance(200);
    expect(session.status.state).toBe("open");
    session.close();
  }
});

it("a publish obeys Retry-After, and gives up if it is longer than the server remembers a key", async () => {
  let seconds = "7";
  world.interfere = (method) =>
    method === "POST" ? new Response("", { status: 503, headers: { "Retry-After": seconds } }) : null;
  const session = begin({ transports: ["http-streaming"] });
  const published = session.publish("cars", 1);
  await advance(6_900);
  expect(world.requests).toHaveLength(1);
  world.interfere = () => null;
  await advance(200);
  expect(await published).toMatchObject({ count: 1 });
  seconds = "86400";
  world.interfere = (method) =>
    method === "POST" ? new Response("", { status: 503, headers: { "Retry-After": seconds } }) : null;
  await expect(session.publish("cars", 1)).rejects.toMatchObject({ code: "unreachable" });
});

it("calls a failing token function once per round, for any number of transports", async () => {
  let count = 0;
  const token = (): never => {
    count += 1;
    throw new Error("HTTP 500");
  };
  const session = begin({ token });
  collect(session);
  await advance();
  expect(count).toBe(1);
  expect(session.status).toMatchObject({ state: "waiting", reason: "HTTP 500" });
  await advance(1000);
  expect(count).toBe(2);
});

it("rejects bytes with the remedy, and sends no request", async () => {
  const session = begin();
  for (const bytes of [new Uint8Array([1, 2]), new ArrayBuffer(2), new DataView(new ArrayBuffer(1))]) {
    const refused = expect(session.publish("cars", bytes)).rejects;
    await refused.toBeInstanceOf(ThalwegError);
    await expect(session.publish("cars", 1, bytes)).rejects.toMatchObject({
      code: "bad_event",
      message: expect.stringContaining("base64"),
    });
  }
  expect(world.requests).toEqual([]);
});

it("accepts a ws URL of the server", async () => {
  for (const url of ["ws://server/", "http://server/"]) {
    const session = connect(url, { fetch: world.fetch as typeof fetch, transports: ["http-streaming"] });
    collect(session);
    await advance();
    expect(session.status.state).toBe("open");
    expect(world.requests.at(-1)?.url.protocol).toBe("http:");
    session.close();
  }
  expect(world.requests).toHaveLength(2);
});
