/** A topic as columns: complete and in order, even if connections break. */

import type { Page } from "@playwright/test";
import { publish, type Server } from "../harness/server.js";
import { BROKEN_NETWORK, expect, expectAll, more, test, until } from "../harness/test.js";
import { PASS } from "../harness/treatments.js";
import type { Book, ColumnOpening } from "../site/subscriber.js";
import { HEARTBEAT } from "./transports.js";

async function receive(page: Page, topic: string, options: ColumnOpening = {}): Promise<void> {
  await page.goto("/e2e/subscriber.html");
  await page.waitForFunction(() => "e2e" in globalThis);
  await page.evaluate(([topic, options]) => e2e.columns(topic, { from: "earliest", ...options }), [
    topic,
    options,
  ] as const);
}

function ended(page: Page): Promise<Book> {
  return page.evaluate(() => e2e.until((_, { state }) => state === "closed"));
}

async function post(server: Server, topic: string, ...events: object[]): Promise<void> {
  const headers = { "Content-Type": "application/x-ndjson" };
  const body = events.map((event) => JSON.stringify(event)).join("\n");
  const response = await fetch(`${server.origin}/v1/topics/${topic}`, { method: "POST", headers, body });
  expect(response.status).toBe(200);
}

test("delivers everything in order, including events before there are columns", async ({ page, network, server }) => {
  await receive(page, "numbers");
  await network.seen(({ kind }) => kind === "arrow");
  await publish(server, "numbers", 1, 5000);
  await until(page, 5000);
  for (const [first, last] of [
    [5001, 5001],
    [5002, 20_000],
  ] as const) {
    await publish(server, "numbers", first, last);
    await until(page, last);
  }
  expectAll(await until(page, 20_000), 20_000);
  expect(network.asked.filter(({ kind }) => kind === "arrow").length).toBe(1);
});

test("nulls, and texts with a byte order mark, equal those in JSON", async ({ page, server }) => {
  const events = [
    { a: 1, x: null, s: "\ufeffx" },
    { a: 2, x: null, s: "y" },
  ];
  await post(server, "odd", ...events);
  await page.goto("/e2e/empty.html");
  const rows = await page.evaluate(async () => {
    const { columns } = (await import(`${location.origin}/sdk/arrow.js`)) as typeof import("thalweg/arrow");
    return new Promise<unknown>((resolve) => {
      columns(location.origin, "odd", { from: "earliest" }, ({ table }) => {
        const read = ["a", "x", "s"].map((name) => Array.from(table.getChild(name)?.toArray() ?? []));
        if (table.numRows) resolve({ rows: [0, 1].map((row) => table.at(row)), read });
      });
    });
  });
  expect(rows).toMatchObject({
    rows: events,
    read: [
      [1, 2],
      [null, null],
      ["\ufeffx", "y"],
    ],
  });
});

test("works in a Worker", async ({ page, server }) => {
  await publish(server, "numbers", 1, 1000);
  await page.goto("/e2e/empty.html");
  const sum = await page.evaluate(() => {
    const code = `
      import { columns } from "${location.origin}/sdk/arrow.js";
      let sum = 0;
      columns("${location.origin}", "numbers", { from: "earliest" }, ({ table }) => {
        for (const value of table.getChild("value").toArray()) sum += value;
        if (table.getChild("value").at(table.numRows - 1) === 1000) postMessage(sum);
      });`;
    const worker = new Worker(URL.createObjectURL(new Blob([code], { type: "text/javascript" })), { type: "module" });
    return new Promise((resolve) => {
      worker.onmessage = ({ data }) => resolve(data);
    });
  });
  expect(sum).toBe(500_500);
});

test("reports changed columns, without lost events", async ({ page, server }) => {
  await post(server, "cars", { seq: 1, car: "c1" }, { seq: 2, car: "c2" });
  await receive(page, "cars");
  await until(page, 2);
  await post(server, "cars", { seq: 3, car: "c1", speed: 12.5 });
  await until(page, 3);
  await post(server, "cars", { seq: 4, car: "c1", speed: 12.5 });
  const book = await until(page, 4);
  expectAll(book, 4);
  expect(book.schemas).toEqual([["seq", "car", "speed"]]);
  expect(book.statuses.map(({ state }) => state)).not.toContain("waiting");
});

test.describe("of a value topic", () => {
  test.use({ args: ["--topic", "state,kind=value"], expected: BROKEN_NETWORK });

  test("there are no columns, and the page gets the reason", async ({ page, server }) => {
    await publish(server, "state", 1, 1);
    await receive(page, "state");
    const { statuses } = await ended(page);
    expect(statuses.at(-1)?.reason).toMatch(/./);
  });
});

test.describe("with tokens", () => {
  test.use({
    args: [
      "--token",
      "publisher=publisher,subscribe=**,publish=**,inspect=**,admin=true",
      "--token",
      "subscriber=subscriber,subscribe=**",
    ],
    expected: BROKEN_NETWORK,
  });

  test("a stream is accepted with a token, and rejected without", async ({ page, server }) => {
    await publish(server, "numbers", 1, 10, "publisher");
    await receive(page, "numbers", { token: "subscriber" });
    expectAll(await until(page, 10), 10);
    await receive(page, "numbers");
    await ended(page);
  });
});

test.describe("with broken connections", () => {
  test.use({ expected: BROKEN_NETWORK });

  test.describe("in small batches", () => {
    test.use({ args: [...HEARTBEAT, "--topic", "numbers,batch-events=100"] });

    test("a break in mid-stream loses and repeats no events", async ({ page, network, server }) => {
      const cuts = [1, 700, 4000, 9001, 20_000, 30_007];
      network.treat(({ kind }) => {
        const bytes = kind === "arrow" ? cuts.shift() : undefined;
        return bytes ? { by: "cut", bytes } : PASS;
      });
      await publish(server, "numbers", 1, 20_000);
      await receive(page, "numbers", { isImpatient: true });
      await until(page, 20_000);
      expect(cuts).toEqual([]);
      await publish(server, "numbers", 20_001, 20_010);
      expectAll(await until(page, 20_010), 20_010);
    });
  });

  test("a killed server restarts with a new epoch and a gap of unknown size", async ({ page, server }) => {
    await publish(server, "numbers", 1, 1000);
    await receive(page, "numbers");
    await until(page, 1000);
    await server.kill();
    await page.evaluate(() => e2e.until((_, { state }) => state === "waiting"));
    await server.restart();
    await publish(server, "numbers", 1, 50);
    const book = await page.evaluate(() => e2e.until(({ gaps, last }) => gaps.length > 0 && last === 50));
    expect(book).toMatchObject({ count: 1050, faults: [], gaps: [{ missed: null, reason: "epoch" }] });
    await publish(server, "numbers", 51, 60);
    expect(await until(page, 60)).toMatchObject({ count: 1060, faults: [], gaps: { length: 1 } });
  });

  test("a draining server announces the end, and the client reconnects", async ({ page, server }) => {
    await publish(server, "numbers", 1, 10);
    await receive(page, "numbers");
    await until(page, 10);
    await server.stop();
    const { statuses } = await page.evaluate(() => e2e.until((_, { state }) => state === "waiting"));
    expect(statuses.at(-1)?.reason).toBe("draining");
    await server.restart();
    await publish(server, "numbers", 1, 5);
    const book = await page.evaluate(() => e2e.until(({ last }) => last === 5));
    expect(book).toMatchObject({ count: 15, faults: [], gaps: [{ reason: "epoch" }] });
  });

  test("a deleted topic ends", async ({ page, server }) => {
    await publish(server, "numbers", 1, 10);
    await receive(page, "numbers");
    await until(page, 10);
    expect((await fetch(`${server.origin}/v1/topics/numbers`, { method: "DELETE" })).ok).toBe(true);
    const { count, statuses } = await ended(page);
    expect(count).toBe(10);
    expect(statuses.at(-1)?.reason).toMatch(/./);
  });

  test.describe("with a continuous source", () => {
    test.use({ args: [...HEARTBEAT, "--source", "rows=constant,batch=5,interval=1ms"] });

    test("repeated breaks while data flows", async ({ page, network }) => {
      await page.goto("/e2e/subscriber.html");
      await page.waitForFunction(() => "e2e" in globalThis);
      await page.evaluate(() => e2e.columns("rows", { isImpatient: true }));
      for (let cut = 0; cut < 3; cut++) {
        await more(page, 2000);
        const before = network.asked.length;
        network.cut();
        await network.seen(({ kind }) => kind === "arrow", before);
      }
      expect(await more(page, 2000)).toMatchObject({ faults: [], gaps: [] });
    });
  });

  test.describe("with a short history", () => {
    test.use({ args: [...HEARTBEAT, "--topic", "numbers,history-events=1000,batch-events=100"] });

    test("events trimmed while disconnected are reported with their number", async ({ page, network, server }) => {
      await publish(server, "numbers", 1, 100);
      await receive(page, "numbers");
      await until(page, 100);
      network.treat(() => ({ by: "reset" }));
      network.cut();
      await page.evaluate(() => e2e.until((_, { state }) => state === "waiting"));
      await publish(server, "numbers", 101, 5000);
      network.treat(() => PASS);
      const { count, faults, gaps } = await until(page, 5000);
      expect({ faults, gaps }).toMatchObject({ faults: [], gaps: [{ reason: "trimmed" }] });
      expect(count + (gaps[0]?.missed ?? 0)).toBe(5000);
    });
  });
});

test.describe("a page that does not read", () => {
  test.use({ args: [...HEARTBEAT, "--source", "rows=constant,batch=1000,interval=1ms"] });

  test("is a slow reader: it gets a gap, and holds no data", async ({ page, server }) => {
    const newest = async (): Promise<number> => {
      const { topics } = (await (await fetch(`${server.origin}/v1/topics`)).json()) as {
        topics: { position: string }[];
      };
      return Number(topics[0]?.position.split(".")[1]);
    };
    await page.goto("/e2e/subscriber.html");
    await page.waitForFunction(() => "e2e" in globalThis);
    await page.evaluate(() => e2e.columns("rows"));
    await more(page, 10_000);
    const { batches } = await page.evaluate(() => {
      e2e.rest();
      const { batches } = e2e.book;
      return e2e.until((book) => book.batches > batches);
    });
    // More data than network and history hold.
    const held = (await newest()) + 2_000_000;
    await expect.poll(newest).toBeGreaterThan(held);
    expect(await page.evaluate(() => e2e.book.batches)).toBe(batches);
    await page.evaluate(() => e2e.goOn());
    const { faults, gaps } = await page.evaluate(() => e2e.until((book) => book.gaps.length > 0));
    expect(faults).toEqual([]);
    expect(gaps[0]?.missed).toBeGreaterThan(0);
    expect(await more(page, 10_000)).toMatchObject({ faults: [] });
  });
});
