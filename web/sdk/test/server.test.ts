/** The built bundle in Node against the real server. `THALWEG_BIN` names the binary. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { columns, type ThalwegError } from "../dist/arrow.js";
import {
  type Batch,
  connect,
  type KeyedSubscription,
  type Session,
  type Subscription,
  type TransportName,
} from "../dist/thalweg.js";
import { connectInWorker } from "../dist/worker.js";
import { host } from "../dist/worker-host.js";
import { BINARY, type Server, serve } from "./server.js";

/** The transports of this Node: WebSocket from version 22, or with its flag. */
const NAMES: TransportName[] = ["http-streaming", "long-polling"];
if (typeof WebSocket === "function") NAMES.unshift("websocket");
if (typeof EventSource === "function") NAMES.push("sse");

/** Reads this number of events. */
async function take<T>(subscription: Subscription<T>, count: number): Promise<Batch<T>[]> {
  const batches: Batch<T>[] = [];
  let had = 0;
  for await (const batch of subscription) {
    batches.push(batch);
    had += batch.events.length;
    if (had >= count) break;
  }
  return batches;
}

async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await new Promise((go) => setImmediate(go));
}

const events = <T>(batches: Batch<T>[]): T[] => batches.flatMap((batch) => batch.events);
const upTo = (last: number): number[] => Array.from({ length: last }, (_, index) => index + 1);

describe.runIf(BINARY)("against the real server", () => {
  let server: Server;
  beforeAll(async () => {
    server = await serve();
  });
  afterAll(() => server.stop());

  it("connects with defaults", async () => {
    const session = connect(server.url);
    const batches = session.subscribe<number>("plain", { from: "earliest" })[Symbol.asyncIterator]();
    await session.publish("plain", 1);
    expect((await batches.next()).value).toMatchObject({ events: [1] });
    expect(session.status).toMatchObject({ state: "open", transport: NAMES[0] });
    session.close();
  });

  const worker = { postMessage: (_: unknown, [port]: Transferable[]) => host(port as MessagePort) };
  const ways: [string, (url?: string) => Session][] = NAMES.flatMap((name) => {
    const options = { transports: [name] };
    return [
      [name, (url = server.url) => connect(url, options)],
      [`${name} in a Worker`, (url = server.url) => connectInWorker(worker, url, options)],
    ];
  });

  describe.each(ways)("over %s", (way, begin) => {
    const topic = way.replaceAll(" ", "-");

    it("publishes, receives, and resumes at a position without loss or repeats", async () => {
      const session = begin();
      const publish = (async () => {
        for (const number of upTo(60)) await session.publish(topic, number);
      })();
      const first = await take(session.subscribe<number>(topic, { from: "earliest" }), 20);
      const from = first.at(-1)?.position as string;
      const rest = await take(session.subscribe<number>(topic, { from }), 60 - events(first).length);
      await publish;
      expect([...events(first), ...events(rest)]).toEqual(upTo(60));
      session.close();
    });

    it("carries several topics and changes them", async () => {
      const session = begin();
      await session.publish(`${topic}/a`, 1);
      await session.publish(`${topic}/b`, 2);
      const a = await take(session.subscribe<number>(`${topic}/a`, { from: "earliest" }), 1);
      const b = session.subscribe<number>(`${topic}/b`, { from: "earliest" });
      const c = session.subscribe<number>(`${topic}/c`, { from: "earliest" });
      await session.publish(`${topic}/c`, 3);
      expect([events(a), events(await take(b, 1)), events(await take(c, 1))]).toEqual([[1], [2], [3]]);
      session.close();
    });

    it("receives its echo and errors", async () => {
      const session = begin();
      expect(await session.request({ any: ["JSON", null] })).toEqual({ any: ["JSON", null] });
      const refused = session.publish(`${topic}/big`, "x".repeat(2 << 20));
      await expect(refused).rejects.toMatchObject({ code: "event_too_large" });
      session.close();
    });

    it("receives a gap with its size", async () => {
      const session = begin();
      const { position } = await session.publish(`${topic}/gone`, 1);
      const from = position.replace(/^[^.]*/, "abc");
      const [batch] = await take(session.subscribe(`${topic}/gone`, { from }), 0);
      expect(batch?.gap).toEqual({ missed: null, reason: "epoch" });
      session.close();
    });

    it("keeps the map of a keyed topic that arrives in pages", async () => {
      const own = await serve(["--topic", "cars/**,kind=keyed"]);
      const session = begin(own.url);
      const name = `cars/${topic}`;
      const writer = connect(own.url, { transports: ["http-streaming"] });
      const put = (car: number, event: unknown): Promise<unknown> =>
        writer.publish({ topic: name, key: `c${car} é"` }, event);
      const cars = 50;
      // Several pages of 64 KiB.
      const put9 = (car: number, rest: string): Promise<unknown> => put(car, `${rest}${"x".repeat(9000)}`);
      for (let car = 0; car < cars; car++) await put9(car, "old ");
      await put(0, null);
      const sizes: number[] = [];
      const map = session.map<string>(name, {}, ({ isWhole }) => void sizes.push(isWhole ? map.map.size : -1));
      for (let car = 1; car < 5; car++) await put9(car, "new ");
      const { position } = (await put(cars, "last")) as { position: string };
      await until(() => map.map.has(`c${cars} é"`));
      expect(Math.min(...sizes)).toBeGreaterThanOrEqual(cars - 1);
      const events = [...map.map.values()].map((event) => event.slice(0, 4)).sort();
      expect(events).toEqual([...Array(cars - 5).fill("old "), ...Array(4).fill("new "), "last"].sort());
      expect(position).toMatch(/\.56$/);
      await put(1, null);
      await until(() => !map.map.has('c1 é"'));
      session.close();
      writer.close();
      await own.stop();
    });

    it("subscribes to a keyed topic again, with other keys", async () => {
      const own = await serve(["--topic", "cars/**,kind=keyed"]);
      const session = begin(own.url);
      const name = `cars/${topic}`;
      for (const key of ["a", "b", "taxi/1"]) await session.publish({ topic: name, key }, key);
      let before: KeyedSubscription<string> | undefined;
      for (const [filter, keys] of [
        [{ keys: ["a"] }, ["a"]],
        [{ keys: ["b"], prefix: "taxi/" }, ["b", "taxi/1"]],
        [{}, ["a", "b", "taxi/1"]],
      ] as const) {
        before?.close();
        const map = session.map<string>(name, filter, () => {});
        before = map;
        await until(() => map.map.size === keys.length);
        expect([...map.map.keys()]).toEqual(keys);
      }
      session.close();
      await own.stop();
    });

    it("counts by compare-and-swap", async () => {
      const own = await serve(["--topic", "counters/**,kind=keyed"]);
      const session = begin(own.url);
      const target = { topic: `counters/${topic}`, key: "likes" };
      const increment = async (): Promise<void> => {
        for (let newest: ThalwegError["newest"] = null; ; ) {
          const condition = newest ? newest.position : "new";
          try {
            await session.publish({ ...target, if: condition, ttl: 600_000 }, Number(newest?.event ?? 0) + 1);
            return;
          } catch (error) {
            const refused = error as ThalwegError;
            if (refused.code !== "condition_failed") throw error;
            newest = refused.newest;
          }
        }
      };
      await Promise.all(Array.from({ length: 10 }, increment));
      const map = session.map<number>(target.topic);
      for await (const { changed } of map) {
        expect(changed.map((key) => map.map.get(key))).toEqual([10]);
        break;
      }
      session.close();
      await own.stop();
    });

    it("acks each batch if the source waits for it", async () => {
      const own = await serve(["--source", "runner=runner"]);
      const session = begin(own.url);
      const seen: number[] = [];
      await new Promise<void>((done) => {
        const subscription: Subscription<unknown> = session.subscribe("runner", {}, ({ first, events }) => {
          seen.push(...events.map((_, index) => first + index));
          if (seen.length < 20) subscription.ack();
          else done();
        });
        // The first ack is for the start.
        subscription.ack();
      });
      expect(seen).toEqual(upTo(20));
      session.close();
      await own.stop();
    });
  });

  it("reconnects when the server restarts", async () => {
    const first = await serve();
    const session = connect(first.url);
    const subscription = session.subscribe<number>("cars", { from: "earliest" });
    const batches = subscription[Symbol.asyncIterator]();
    await session.publish("cars", 1);
    expect((await batches.next()).value).toMatchObject({ events: [1] });
    await first.stop();
    const second = await serve([], new URL(first.url).host);
    await session.publish("cars", 2);
    const seen: unknown[] = [];
    while (!seen.includes(2)) {
      const { value } = await batches.next();
      if (value?.gap) seen.push(value.gap);
      seen.push(...(value?.events ?? []));
    }
    expect(seen).toEqual([{ missed: null, reason: "epoch" }, 2]);
    session.close();
    await second.stop();
  });

  it("presents its token, and is rejected without one", async () => {
    const own = await serve([
      "--token",
      "publisher=publisher,subscribe=**,publish=**,inspect=**,admin=true",
      "--token",
      "subscriber=subscriber,subscribe=**",
    ]);
    const session = connect(own.url, { token: async () => "publisher" });
    const told = take(session.subscribe("cars", { from: "earliest" }), 1);
    await session.publish("cars", 1);
    expect(events(await told)).toEqual([1]);
    session.close();
    const other = connect(own.url);
    await expect(take(other.subscribe("cars"), 1)).rejects.toMatchObject({ code: "unauthorized" });
    await own.stop();
  });

  it("delivers everything to a slow page", async () => {
    const session = connect(server.url, { volume: "high" });
    const count = 20_000;
    const publish = (async () => {
      for (let at = 0; at < count; at += 1000) {
        await session.publish("many", ...Array.from({ length: 1000 }, (_, index) => at + index + 1));
      }
    })();
    const seen: number[] = [];
    for await (const batch of session.subscribe<number>("many", { from: "earliest" })) {
      expect(batch.gap).toBeNull();
      seen.push(...batch.events);
      if (seen.length === count) break;
    }
    await publish;
    expect(seen).toEqual(upTo(count));
    session.close();
  });
});

describe.runIf(BINARY)("columns of the real server", () => {
  it("are received in Node, and resume after the last processed batch", async () => {
    const server = await serve();
    const session = connect(server.url);
    const receive = (from: string, count: number): Promise<{ rows: unknown[]; position: string }> =>
      new Promise((done, fail) => {
        const rows: unknown[] = [];
        const stream = columns(server.url, "cars", { from, onError: fail }, ({ table, position }) => {
          for (let row = 0; row < table.numRows; row++) rows.push(table.at(row));
          if (rows.length < count) return;
          stream.close();
          done({ rows, position });
        });
      });
    await session.publish("cars", { car: "ü", speed: 1.5, at: "2022-07-13T21:04:08.419Z" }, { car: "b", speed: null });
    const { rows, position } = await receive("earliest", 2);
    expect(rows).toEqual([
      { _offset: 1, car: "ü", speed: 1.5, at: Date.UTC(2022, 6, 13, 21, 4, 8, 419) },
      { _offset: 2, car: "b", speed: null, at: null },
    ]);
    await session.publish("cars", { car: "c", speed: 2, at: null });
    expect((await receive(position, 1)).rows).toEqual([{ _offset: 3, car: "c", speed: 2, at: null }]);
    session.close();
    await server.stop();
  });

  it("are refused for a value topic, with a reason", async () => {
    const server = await serve(["--topic", "state,kind=value"]);
    const error = await new Promise<ThalwegError>((onError) => {
      columns(server.url, "state", { onError }, () => {});
    });
    expect(error).toMatchObject({ status: 400 });
    await server.stop();
  });
});
