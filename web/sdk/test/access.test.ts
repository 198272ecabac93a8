/** Tokens and tickets: shown, refused, late, or not to be had. */

import { expect, it, vi } from "vitest";
import { advance, begin, collect, statuses, useWorld, world } from "./fixture.js";

useWorld();

it("shows a fresh token for each connection, in a header or as a ticket", async () => {
  let number = 0;
  const token = (): string => `token-${++number}`;
  collect(begin({ token, transports: ["http-streaming"] }));
  await advance();
  world.cut();
  await advance(500);
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

it("comes back with a fresh token where one was refused, and not for ever", async () => {
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

it("a ticket that does not come: the next transport is tried", async () => {
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
  // The platform's own timer, which does not wait for a test.
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

it("a token that never comes keeps nothing from being closed", async () => {
  const session = begin({ token: () => new Promise(() => {}) });
  collect(session);
  await advance(1000);
  session.close();
  await advance(60_000);
  expect(statuses).toEqual(["connecting websocket", "closed"]);
  expect(vi.getTimerCount()).toBe(0);
});

it("a ticket that cannot be had does not end what is under way", async () => {
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
