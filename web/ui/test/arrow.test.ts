/** Events that arrive as columns, and the live page's choice of columns. */

import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { answer, CARS, FIGURES, receive, refusal, TABLES, TYPE, until } from "../../sdk/test/arrow-server.js";
import { World } from "../../sdk/test/world.js";
import { receivedColumns } from "../src/live/arrow-events.js";
import { type Column, Columns } from "../src/live/columns.js";
import { Live } from "../src/live/connection.js";
import type { Received } from "../src/live/events.js";
import { Feed } from "../src/live/feed.js";
import { align } from "../src/live/series.js";
import { HIGH_PER_S, Volume } from "../src/live/volume.js";

/** The batches of a stream, for a page that knows these columns. */
async function batches(stream: Uint8Array, known: readonly Column[] = []): Promise<Received[]> {
  const { batches } = receive([answer([stream])]);
  await until(() => batches.length === (stream === CARS ? 3 : 1));
  return batches.map((batch) => receivedColumns(batch as never, known));
}

/** A batch with these columns, each filled with its number. */
function table(names: readonly string[]): Parameters<typeof receivedColumns>[0] {
  const column = (value: number) => ({
    length: 1,
    nullCount: 0,
    at: () => value,
    toArray: () => Float64Array.of(value),
  });
  const all = ["_offset", ...names];
  const fields = all.map((name) => ({ name, type: { typeId: 2 }, metadata: null }));
  const children = all.map((_, index) => column(index));
  const made = { numRows: 1, names: all, children, schema: { fields } };
  return { table: made, gap: null, position: "e1.0", bytes: 1 } as never;
}

describe("an event of columns", () => {
  test("equals the published event", async () => {
    const [first, second] = await batches(CARS);
    expect(first?.events.event(0)).toEqual({
      car: "c1",
      speed: 12.5,
      locked: true,
      total: 1,
      time: "2023-11-14T22:13:20Z",
      place: "Köln",
      more: { a: [1, 2] },
    });
    expect(first?.events.event(1)).toMatchObject({ time: "2023-11-14T22:13:20.001Z", more: null });
    expect(first?.events.event(2)).toMatchObject({ car: "c1", speed: null, time: null, more: null });
    expect(second?.events.event(0)).toMatchObject({ more: "ü", time: "1969-12-31T23:59:59.999Z" });
    expect([first?.events.length, first?.events.offset(2)]).toEqual([3, 2 ** 33 + 2]);
  });

  test("is an array, an object or a value, like those before it", () => {
    const event = (names: string[], ...before: unknown[]): unknown => {
      const columns = new Columns();
      for (const it of before) columns.learn(it);
      return receivedColumns(table(names), columns.all).events.event(0);
    };
    expect(event(["a", "b"])).toEqual({ a: 1, b: 2 });
    expect(event(["__offset", "offset", "___offset"])).toEqual({ _offset: 1, offset: 2, __offset: 3 });
    expect(event(["column0", "column1"])).toEqual([1, 2]);
    expect(event(["value"])).toBe(1);
    expect(event(["a", "b"], [3, 4])).toEqual([1, 2]);
    expect(event(["value"], { value: 3 })).toEqual({ value: 1 });
    expect(event(["value"], [3])).toBe(1);
    expect(event(["column0"], { column0: 3 })).toEqual({ column0: 1 });
  });

  test("of mixed types is JSON, and its numbers are read from it", () => {
    const batch = table(["value"]) as unknown as { table: { children: object[]; schema: { fields: object[] } } };
    const { children, schema } = batch.table;
    Object.assign(children[1] as object, { at: () => "[7,8]" });
    Object.assign(schema.fields[1] as object, { metadata: new Map([["thalweg.type", "json"]]) });
    const columns = new Columns();
    columns.learn([3, 4]);
    const { events } = receivedColumns(batch as never, columns.all);
    expect(events.event(0)).toEqual([7, 8]);
    expect(Array.from(events.numbers(columns.all[1] as Column))).toEqual([8]);
  });

  test("numbers are read without event objects", async () => {
    const [first] = await batches(CARS);
    const events = first?.events as Received["events"];
    const columns = new Columns();
    for (let index = 0; index < events.length; index++) columns.learn(events.event(index));
    const numbers = (name: string): number[] =>
      Array.from(events.numbers(columns.all.find((column) => column.name === name) as Column));
    expect(numbers("speed")).toEqual([12.5, -0.5, Number.NaN]);
    expect(numbers("time")).toEqual([1.7e12, 1.7e12 + 1, Number.NaN]);
    expect(numbers("car")).toEqual([Number.NaN, Number.NaN, Number.NaN]);
    const elsewhere: Column = { key: "nowhere", name: "nowhere", kind: "number" };
    expect(Array.from(events.numbers(elsewhere))).toEqual([Number.NaN, Number.NaN, Number.NaN]);
  });
});

test("a feed is the same for JSON and columns", async () => {
  const [asColumns, asJson] = [new Feed(), new Feed()];
  const speed = (feed: Feed) => feed.columns.all.filter(({ name }) => name === "speed");
  for (const batch of await batches(CARS)) asColumns.take(batch, 0);
  const [drawn] = asColumns.chart(speed(asColumns), 1e9);
  for (const batch of await batches(FIGURES)) asColumns.take(batch, 0);
  for (const rows of TABLES.cars) {
    const events = (rows["_offset"] as number[]).map((_, index) => {
      const of = (name: string): unknown => rows[name]?.[index];
      const time = of("time") as number | null;
      const [at, more] = [time === null ? null : new Date(time).toISOString().replace(".000Z", "Z"), of("more")];
      const plain = { car: of("car"), speed: of("speed"), locked: of("locked"), total: of("total") };
      return { ...plain, time: at, place: of("place"), more: more === null ? null : JSON.parse(more as string) };
    });
    const first = (rows["_offset"] as number[])[0] as number;
    const { received } = await import("../src/live/events.js");
    asJson.take(received({ topic: "cars", position: "e1.1", first, events, gap: null, bytes: 1 }), 0);
  }
  expect(asColumns.columns.all.slice(0, 7)).toEqual(asJson.columns.all);
  for (let index = 0; index < 25; index++) expect(asColumns.rows.at(index)).toEqual(asJson.rows.at(index));
  expect(asColumns.isSparse).toBe(false);
  const [other] = asJson.chart(speed(asJson), 1e9);
  expect(align([drawn!])).toEqual(align([other!]));
});

test("elements of arrays get the names of a schema", () => {
  const columns = new Columns();
  columns.rename(["first"]);
  columns.learn([1, 2, 3]);
  const before = columns.all;
  columns.rename(["column0", "column1", "column2"]);
  expect(columns.all).toBe(before);
  columns.rename(["column0", "speed", "column2"]);
  columns.learn([1, 2, 3, 4]);
  expect(columns.all.map(({ name, key }) => [name, key])).toEqual([
    ["first", 0],
    ["speed", 1],
    ["2", 2],
    ["3", 3],
  ]);
});

test("the volume counts as high after a while", () => {
  const steady = (perS: number, seconds: number): boolean => {
    const volume = new Volume();
    return Array.from({ length: seconds * 10 + 1 }, (_, index) => volume.add(perS / 10, index * 100)).some(Boolean);
  };
  expect(steady(HIGH_PER_S, 3)).toBe(true);
  expect(steady(HIGH_PER_S * 10, 2)).toBe(false);
  expect(steady(HIGH_PER_S * 0.9, 30)).toBe(false);
});

describe("a live page", () => {
  let world: World;
  let live: Live | undefined;
  const arrow: ((signal: AbortSignal) => Response)[] = [];

  beforeEach(() => {
    vi.useFakeTimers({ toFake: ["Date"], now: 1.7e12 });
    world = new World();
    arrow.length = 0;
    vi.stubGlobal("location", { href: "http://server/" });
    vi.stubGlobal("WebSocket", world.WebSocket);
    const fetch = async (input: string | URL, init: RequestInit = {}): Promise<Response> => {
      const url = new URL(input, "http://server/");
      const { Accept } = (init.headers ?? {}) as Record<string, string>;
      if (url.pathname === "/v1/topics") return new Response('{"topics":[]}');
      if (Accept !== TYPE) return world.fetch(url, init);
      world.requests.push({ method: "GET", url, headers: { Accept }, body: "" });
      return (arrow.shift() as (typeof arrow)[0])(init.signal as AbortSignal);
    };
    vi.stubGlobal("fetch", fetch);
  });

  afterEach(() => {
    live?.close();
    vi.unstubAllGlobals();
    vi.useRealTimers();
  });

  /** Slightly more events than a page may get before it requests columns. */
  const flood = async (): Promise<number> => {
    const page = live as Live;
    for (let ms = 0; ms <= 3000; ms += 100) {
      world.publish("cars", ...Array(6000).fill({ car: "c0", speed: 1 }));
      const { count } = page.feed.rows;
      await until(() => page.feed.rows.count > count);
      vi.setSystemTime(Date.now() + 100);
    }
    return page.feed.rows.count;
  };
  const asked = (): (string | null)[] =>
    world.requests.filter(({ headers }) => headers["Accept"] === TYPE).map(({ url }) => url.searchParams.get("cursor"));

  test("switches to columns at its position, at high volume", async () => {
    live = new Live("cars", null);
    await until(() => live?.status.state === "open");
    expect(live.status.transport).toBe("websocket");
    arrow.push(answer([CARS.slice(0, -300)], { "Thalweg-Position": "e1.186000", "Thalweg-Resume": "exact" }, "stay"));
    const before = await flood();
    await until(() => (live?.feed.rows.count ?? 0) >= before + 25);
    expect(before).toBe(186_000);
    expect(asked()).toEqual(["e1.186000"]);
    expect(live.status).toEqual({ state: "open", transport: "arrow", reason: null });
    expect(live.feed.stats(Date.now()).gaps).toBe(0);
    expect(live.feed.rows.count).toBe(before + 25);
    // The session is disconnected, so no further events arrive over it.
    expect(world.listeners.size).toBe(0);
  });

  test("stays with the session if there are no columns, and does not request them again", async () => {
    live = new Live("cars", null);
    await until(() => live?.status.state === "open");
    arrow.push(refusal(406, "not_acceptable"));
    await flood();
    await until(() => asked().length === 1 && live?.status.transport === "websocket" && live.status.state === "open");
    await flood();
    expect(asked().length).toBe(1);
    expect(live.feed.rows.count).toBe(2 * 186_000);
    expect([live.failure, live.feed.stats(Date.now()).gaps]).toEqual([null, 0]);
  });

  test("requests columns if they are selected, and continues over the transport selected next", async () => {
    arrow.push(answer([CARS.slice(0, -300)], {}, "stay"));
    live = new Live("cars", "arrow");
    await until(() => live?.feed.rows.count === 25);
    expect(live.status).toMatchObject({ state: "open", transport: "arrow" });
    // The other server has not sent any event yet.
    world.publish("cars", ...Array(5).fill(1));
    live.use("websocket");
    await until(() => live?.status.state === "open" && live.status.transport === "websocket");
    expect(asked()).toEqual(["earliest"]);
    const [subscribe] = world.commands.filter(({ command }) => command === "subscribe");
    expect(subscribe?.["cursor"]).toBe(`e1.${2 ** 33 + 24}`);
  });

  test("reports why a topic received as columns has ended", async () => {
    const close = Buffer.from(CARS).toString("latin1").replace("1012", "4500");
    arrow.push(answer([Uint8Array.from(Buffer.from(close, "latin1"))]));
    live = new Live("cars", "arrow");
    await until(() => live?.failure !== null);
    expect(live.failure).toBe("Draining");
  });
});
