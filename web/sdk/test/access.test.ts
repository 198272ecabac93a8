/** Tokens and tickets: valid, rejected, late, and missing. */

import { expect, it, vi } from "vitest";
import { advance, begin, collect, statuses, useWorld, world } from "./fixture.js";

useWorld();

it("presents a fresh token for each connection, in a header or as a ticket", async () => {
  let number = 0;
  const token = (): string => `token-${++number}`;
  collect(begin({ token, transports: ["http-streaming"] }));
  await advance();
  world.cut();
  await advance(1000);
  const shown = world.requests.map(({ headers }) => headers["Authorization"]);
  expect(shown).toEqual(["Bearer token-1", "Bearer token-2"]);

  world.requests.length = 0;
  collect(begin({ token, transports: ["websocket"] }));
  await advance();
  expect(world.requests.map(({ method, url }) => `${method} ${url.pathname}${url.search}`)).toEqual([
    "POST /v1/tickets",
    "WS /v1/topics?deltas=patch&ticket=t1",
  ]);
});

it("retries with a fresh token after a rejection, a limited number of times", async () => {
  let number = 0;
  const error = { code: "unauthorized", message: "not the right one" };
  const shown = (): unknown[] => world.requests.map(({ headers }) => headers["Authorization"]);
  const refuse = (): Response => new Response(JSON.stringify({ error }), { status: 401 });
  world.interfere = () => (shown().at(-1) === "Bearer token-1" ? refuse() : null);
  const session = begin({ token: () => `token-${++number}`, transports: ["http-streaming"] });
  collect(session);
  await advance(1000);
  expect(session.status.state).toBe("open");
  world.interfere = refuse;
  world.cut();
  await advance(10_000);
  expect(session.status).toMatchObject({ state: "closed", reason: "not the right one" });
  expect(shown()).toHaveLength(4);
});

const HTML = "<h1>Please log in</h1>";
it.each([
  ["is refused by whoever stands in between", () => new Response(HTML, { status: 403 })],
  ["is answered by whoever stands in between", () => new Response(HTML)],
])("a ticket that %s: the next transport is tried", async (_, answer) => {
  world.interfere = (method) => (method === "POST" ? answer() : null);
  collect(begin({ token: () => "token" }));
  await advance();
  expect(statuses.at(-1)).toBe("open http-streaming");
});

it("tries the next transport if no ticket arrives", async () => {
  let given: (() => void) | undefined;
  const isGivenUp = new Promise<void>((go) => (given = go));
  const hang: typeof fetch = (input, init) => {
    if (init?.method !== "POST") return world.fetch(input, init);
    return new Promise((_, fail) => {
      init.signal?.addEventListener("abort", () => {
        fail(init.signal?.reason);
        given?.();
      });
    });
  };
  collect(begin({ token: () => "token", fetch: hang, connectTimeout: 20 }));
  await advance();
  // The platform's own timer, which does not depend on the fake clock.
  await isGivenUp;
  await advance();
  expect(statuses.at(-1)).toBe("open http-streaming");
});

it.each([
  ["with nothing", undefined],
  ["with what looks like a refusal", Object.assign(new Error("HTTP 404"), { status: 404, code: "E404" })],
])("a token that fails %s is asked for again", async (_, error) => {
  let failures = 3;
  const token = async (): Promise<string> => {
    if (failures-- > 0) throw error;
    return "token";
  };
  collect(begin({ token, transports: ["http-streaming"] }));
  await advance(10_000);
  expect(statuses.at(-1)).toBe("open http-streaming");
});

it("closes although the page's token never resolves", async () => {
  const session = begin({ token: () => new Promise(() => {}) });
  collect(session);
  await advance(1000);
  session.close();
  await advance(60_000);
  expect(statuses).toEqual(["connecting websocket", "closed"]);
  expect(vi.getTimerCount()).toBe(0);
});

it("keeps the open connection if a ticket request fails", async () => {
  const session = begin({ token: () => "token", transports: ["sse"] });
  const cars = collect(session, "cars");
  await advance();
  let failures = 1;
  world.interfere = (method) => (method === "POST" && failures-- > 0 ? new Response("", { status: 502 }) : null);
  const boats = collect(session, "boats");
  await advance(2000);
  world.publish("cars", 1);
  world.publish("boats", 2);
  await advance();
  expect([cars.events, boats.events]).toEqual([[1], [2]]);
});

/** Returns a JSON Web Token with this lifetime, by a clock that may be wrong. */
function signed(name: string, lastsS: number, aheadS = 0): string {
  const nowS = Math.floor(Date.now() / 1000) + aheadS;
  const part = (value: object): string =>
    btoa(JSON.stringify(value)).replace(/\+/g, "-").replace(/\//g, "_").replace(/=/g, "");
  return (
    [{ alg: "none" }, { sub: `${name}ÿ?>`, iat: nowS, exp: nowS + lastsS }].map((it) => part(ascii(it))).join(".") +
    ".x"
  );
}

/** `btoa` accepts bytes only. */
function ascii(value: object): object {
  return JSON.parse(JSON.stringify(value).replace(/[^ -~]/g, "~"));
}

const refreshed = (): unknown[] =>
  world.commands.filter(({ command }) => command === "refresh").map(({ token }) => token);

it("sends the next token over a WebSocket before the current one expires, without an interruption", async () => {
  let number = 0;
  const tokens: string[] = [];
  const token = (): string => {
    tokens.push(signed(`t${++number}`, 100));
    return tokens.at(-1) as string;
  };
  world.lasts = 200;
  const { events } = collect(begin({ token, transports: ["websocket"], idleTimeout: 1e9 }));
  await advance();
  await advance(74_000);
  expect(refreshed()).toEqual([]);
  await advance(2_000);
  expect(refreshed()).toEqual([tokens[1]]);
  // The server reports the lifetime of that token.
  await advance(148_000);
  expect(refreshed()).toHaveLength(1);
  await advance(3_000);
  expect(refreshed()).toHaveLength(2);
  world.publish("cars", 1);
  await advance();
  expect(events).toEqual([1]);
  expect(statuses).toEqual(["connecting websocket", "open websocket"]);
});

it.each(["http-streaming", "long-polling", "sse"] as const)(
  "over %s a connection with the next token takes the place of this one, at its cursors",
  async (transport) => {
    let number = 0;
    const { events, gaps } = collect(
      begin({ token: () => signed(`t${++number}`, 100), transports: [transport], idleTimeout: 1e9 }),
    );
    await advance();
    world.publish("cars", 1);
    await advance(74_000);
    const before = number;
    await advance(2_000);
    expect(number).toBeGreaterThan(before);
    world.publish("cars", 2);
    await advance();
    expect([events, gaps]).toEqual([[1, 2], []]);
    expect(world.listeners.size).toBe(1);
    expect(statuses.filter((status) => status.startsWith("waiting"))).toEqual([]);
  },
);

it("limits the rate of token requests if the page's clock is wrong", async () => {
  for (const aheadS of [-3600, 3600]) {
    world.commands.length = 0;
    world.lasts = 3600;
    let asked = 0;
    const session = begin({
      token: () => {
        asked++;
        return signed("t", 600, aheadS);
      },
      transports: ["websocket"],
      idleTimeout: 1e9,
    });
    collect(session);
    await advance(4_000);
    expect(asked).toBe(1);
    await advance(596_000);
    expect(refreshed()).toHaveLength(1);
    session.close();
  }
});

it("keeps a connection that cannot get another token until the server closes it", async () => {
  let number = 0;
  const token = (): string => {
    if (++number === 2) throw new Error("not now");
    return signed(`t${number}`, 100);
  };
  collect(begin({ token, transports: ["websocket"], idleTimeout: 1e9 }));
  await advance(76_000);
  expect([number, refreshed()]).toEqual([2, []]);
  world.close(4004, "expired", true);
  await advance(1_000);
  expect(statuses.at(-1)).toBe("open websocket");
  expect(number).toBe(3);
});

it("requests tokens without an expiry only for connections", async () => {
  let number = 0;
  collect(begin({ token: () => `a.b.${++number}`, transports: ["websocket"], idleTimeout: 1e9 }));
  await advance(1_000_000);
  expect([number, refreshed()]).toEqual([1, []]);
});
