/** Queries on the live page: errors, examples, and rows. */

import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { until } from "../../sdk/test/arrow-server.js";
import { World } from "../../sdk/test/world.js";
import { Live } from "../src/live/connection.js";
import { examples, mistake } from "../src/live/query.js";

describe("a mistake", () => {
  const marked = (query: string, place: string): string | null => {
    const found = mistake(query, `${place}: it is wrong`);
    return found && `${found.before}[${found.word}]${found.after}`;
  };

  test("is marked at the place that the server reports", () => {
    expect(marked("SELECT sped FROM cars", "line 1, column 8")).toBe("SELECT [sped] FROM cars");
    expect(marked("SELECT a\nFROM cars ORDER BY a", "Line 2, column 11")).toBe("FROM cars [ORDER] BY a");
    expect(marked('SELECT * FROM "a b"', "line 1, column 15")).toBe('SELECT * FROM ["a b"]');
    expect(marked("SELECT 'x", "line 1, column 8")).toBe("SELECT [']x");
    expect(marked("SELECT a !! b", "line 1, column 10")).toBe("SELECT a [!]! b");
    // Characters, and not UTF-16 units.
    expect(marked("SELECT '🚗', größe FROM cars", "line 1, column 13")).toBe("SELECT '🚗', [größe] FROM cars");
  });

  test("may be a missing word", () => {
    expect(marked("SELECT", "line 1, column 7")).toBe("SELECT[ ]");
    expect(marked("SELECT", "line 9, column 7")).toBe("[ ]");
  });

  test("has no place if the server reports none", () => {
    expect(marked("SELECT 1", "too many")).toBeNull();
    expect(mistake("SELECT 1", "cars has no events yet")).toBeNull();
  });
});

test("examples use the demo's topic, or the current one", () => {
  const cars = examples(["a", "car_live_data"], "a").map(({ query }) => query);
  expect(cars.length).toBeGreaterThan(1);
  for (const query of cars) expect(query).toMatch(/ car_live_data\b|\(car_live_data,/);
  expect(examples(["a"], "a").map(({ query }) => query)).toEqual(["SELECT * FROM a"]);
  expect(examples([], "lab/rows/1").map(({ query }) => query)).toEqual(['SELECT * FROM "lab/rows/1"']);
  expect(examples(["a"], "query/0123")).toEqual([]);
  expect(examples(["a"], null)).toEqual([]);
});

const refusal = (status: number, code: string): Response =>
  new Response(JSON.stringify({ error: { code, message: `it is ${code}` } }), { status });

describe("rows", () => {
  let world: World;
  let live: Live | undefined;
  const queries: string[] = [];
  let columns: { name: string }[];
  let answer: () => Response;

  beforeEach(() => {
    vi.useFakeTimers({ toFake: ["setTimeout"], shouldAdvanceTime: true, advanceTimeDelta: 20 });
    world = new World();
    queries.length = 0;
    columns = [];
    answer = () => new Response('{"topic":"query/ab","columns":[]}');
    vi.stubGlobal("location", { href: "http://server/" });
    vi.stubGlobal("WebSocket", world.WebSocket);
    vi.stubGlobal("fetch", async (input: string | URL, init: RequestInit = {}): Promise<Response> => {
      const url = new URL(input, "http://server/");
      const query = url.searchParams.get("query");
      if (query !== null) queries.push(query);
      if (query !== null) return answer();
      if (url.pathname.startsWith("/v1/columns/")) {
        world.requests.push({ method: "GET", url, headers: {}, body: "" });
        return columns.length ? new Response(JSON.stringify({ columns })) : refusal(404, "not_found");
      }
      return url.pathname === "/v1/topics" ? new Response('{"topics":[]}') : world.fetch(url, init);
    });
  });

  afterEach(() => {
    live?.close();
    vi.unstubAllGlobals();
    vi.useRealTimers();
  });

  const count = (): number => live?.feed.rows.count ?? 0;
  const names = (): string[] | undefined => live?.feed.columns.all.map(({ name }) => name);
  const asked = (): number => world.requests.filter(({ url }) => url.pathname.startsWith("/v1/columns/")).length;

  test("of a query that the server has forgotten are requested again", async () => {
    live = new Live("query/ab", null, "SELECT 1");
    await until(() => live?.status.state === "open");
    world.publish("query/ab", [1]);
    await until(() => count() === 1);
    expect(queries).toEqual([]);
    const answers = [refusal(503, "draining"), answer()];
    answer = () => answers.shift() as Response;
    world.end("query/ab", "gone", "it is gone");
    world.publish("query/ab", [2], [3]);
    await vi.advanceTimersByTimeAsync(3000);
    await until(() => count() === 2);
    expect(queries).toEqual(["SELECT 1", "SELECT 1"]);
    expect(live.failure).toBeNull();
  });

  test("of a failed query report the reason", async () => {
    live = new Live("query/ab", null, "SELECT 1");
    await until(() => live?.status.state === "open");
    answer = () => refusal(400, "bad_query");
    world.end("query/ab", "gone", "it is gone");
    await vi.advanceTimersByTimeAsync(3000);
    await until(() => live?.failure !== null);
    expect(queries).toEqual(["SELECT 1"]);
  });

  test("of a topic that is gone are not requested again", async () => {
    live = new Live("cars", null);
    await until(() => live?.status.state === "open");
    world.end("cars", "gone", "it is gone");
    await until(() => live?.failure !== null);
    expect(queries).toEqual([]);
  });

  test("get the server's column names; without names the page asks again only in a new epoch", async () => {
    live = new Live("cars", null);
    await until(() => live?.status.state === "open");
    expect(asked()).toBe(0);
    world.publish("cars", [1, 2]);
    world.publish("cars", [3, 4]);
    await until(() => count() === 2 && asked() > 0);
    expect([asked(), names()]).toEqual([1, ["0", "1"]]);
    columns = [{ name: "speed" }, { name: "column1" }];
    world.restart();
    world.publish("cars", [5, 6]);
    await vi.advanceTimersByTimeAsync(3000);
    await until(() => names()?.[0] === "speed");
    expect([asked(), names()]).toEqual([2, ["speed", "1"]]);
    world.restart();
    world.publish("cars", [7, 8]);
    await vi.advanceTimersByTimeAsync(3000);
    await until(() => count() === 4);
    expect(asked()).toBe(2);
  });
});
