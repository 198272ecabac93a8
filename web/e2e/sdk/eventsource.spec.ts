/** A browser's EventSource without the SDK, with single-use URLs. */

import type { Page } from "@playwright/test";
import { snippet } from "../../sdk/test/snippet.js";
import { publish } from "../harness/server.js";
import { BROKEN_NETWORK, expect, test } from "../harness/test.js";

const TOKEN = "read-me";
const PUBLISHER = "write-me";

test.use({
  args: [
    "--token",
    `subscriber=${TOKEN},subscribe=**`,
    "--token",
    `publisher=${PUBLISHER},subscribe=**,publish=**,inspect=**,admin=true`,
  ],
  expected: BROKEN_NETWORK,
});

interface Message {
  topic: string;
  events?: unknown[];
  gap?: object;
  error?: { code?: string; status?: number };
}

declare global {
  var heard: Message[];
  /** Returns the events of the next message. */
  var next: () => Promise<unknown[]>;
}

/** Makes a page subscribe with the code of docs/reference/subscribing.md. */
async function listen(page: Page, token: string, topics = ["a", "b"]): Promise<void> {
  const lines = snippet("js", "An EventSource that always reconnects", "docs/reference/subscribing.md");
  const call = `globalThis.heard = []; listen(${JSON.stringify(topics)}, "${token}", (message) => heard.push(message));`;
  await page.goto("/e2e/empty.html");
  await page.addScriptTag({ type: "module", content: lines + call });
}

/** Returns all events received of a topic, once the last one is `last`. */
async function until(page: Page, topic: string, last: number): Promise<unknown[]> {
  const all = (): Promise<unknown[]> =>
    page.evaluate(
      (topic) =>
        heard
          .filter((batch) => batch.topic === topic)
          .flatMap((batch) => (batch.gap ? [batch.gap] : (batch.events ?? []))),
      topic,
    );
  await expect.poll(async () => (await all()).at(-1)).toBe(last);
  return all();
}

const upTo = (last: number): number[] => Array.from({ length: last }, (_, index) => index + 1);

test("docs/reference/subscribing.md: the code resumes with a new ticket after every kind of end", async ({
  page,
  network,
  server,
}) => {
  await listen(page, TOKEN);
  await expect.poll(() => page.evaluate(() => globalThis.heard?.length)).toBe(2);
  for (let round = 0; round < 3; round++) {
    for (const topic of ["a", "b"]) await publish(server, topic, 10 * round + 1, 10 * round + 5, PUBLISHER);
    await until(page, "b", 10 * round + 5);
    network.cut();
    for (const topic of ["a", "b"]) await publish(server, topic, 10 * round + 6, 10 * round + 10, PUBLISHER);
    expect(await until(page, "a", 10 * round + 10)).toEqual(upTo(10 * round + 10));
    expect(await until(page, "b", 10 * round + 10)).toEqual(upTo(10 * round + 10));
  }
  const used = network.asked.map(({ url }) => url.searchParams.get("ticket")).filter(Boolean);
  expect(used).toHaveLength(4);
  expect(new Set(used).size).toBe(4);

  await server.kill();
  await server.restart();
  await publish(server, "a", 1, 3, PUBLISHER);
  // The server has lost its history, and reports that.
  expect(await until(page, "a", 3)).toEqual([...upTo(30), { missed: null, reason: "epoch" }, 1, 2, 3]);
});

test("docs/reference/subscribing.md: a wrong token is reported, and not retried forever", async ({ page, network }) => {
  await listen(page, "wrong");
  await expect.poll(() => page.evaluate(() => globalThis.heard?.[0]?.error?.code)).toBe("unauthorized");
  expect(network.asked).toHaveLength(1);
});

test("docs/reference/subscribing.md: a wrong topic is reported, and not retried forever", async ({ page, network }) => {
  await listen(page, TOKEN, ["no topic"]);
  await expect.poll(() => page.evaluate(() => globalThis.heard?.[0]?.error?.status)).toBe(400);
  // A ticket, the EventSource, and the request for the reason.
  expect(network.asked).toHaveLength(3);
});

test("without that code an EventSource does not reconnect: its ticket is used", async ({ page, network, server }) => {
  await page.goto("/e2e/empty.html");
  const headers = { Authorization: `Bearer ${TOKEN}` };
  const answer = await fetch(`${server.origin}/v1/tickets`, { method: "POST", headers });
  const { ticket } = (await answer.json()) as { ticket: string };
  await page.evaluate(async (ticket) => {
    const source = new EventSource(`/v1/topics/a?ticket=${ticket}`);
    await new Promise((go) => source.addEventListener("message", go, { once: true }));
    Object.assign(globalThis, { source });
  }, ticket);
  network.cut();
  const state = (): Promise<number> =>
    page.evaluate(() => (globalThis as unknown as { source: EventSource }).source.readyState);
  await expect.poll(state).toBe(2);
});

test("each event, and the confirmation, arrives before the next is published", async ({ page, server }) => {
  const headers = { Authorization: `Bearer ${TOKEN}` };
  const answer = await fetch(`${server.origin}/v1/tickets`, { method: "POST", headers });
  const { ticket } = (await answer.json()) as { ticket: string };
  await page.goto("/e2e/empty.html");
  await page.evaluate(async (ticket) => {
    const source = new EventSource(`/v1/topics/a?ticket=${ticket}`);
    const waiting: unknown[][] = [];
    let take = (): void => {};
    await new Promise((go) => source.addEventListener("message", go, { once: true }));
    source.addEventListener("message", ({ data }) => {
      waiting.push((JSON.parse(data) as Message).events ?? []);
      take();
    });
    globalThis.next = async () => {
      if (waiting.length === 0) await new Promise<void>((go) => (take = go));
      return waiting.shift() ?? [];
    };
  }, ticket);
  const took: number[] = [];
  for (let number = 1; number <= 30; number++) {
    const arrived = page.evaluate(() => globalThis.next());
    const begun = performance.now();
    await publish(server, "a", number, number, PUBLISHER);
    expect(await arrived).toEqual([number]);
    took.push(performance.now() - begun);
  }
  console.log(`EventSource: ${Math.max(...took).toFixed(1)} ms at most`);
});

test.describe("with a short history and without tokens", () => {
  test.use({ args: ["--topic", "**,history-bytes=64KiB"] });

  test("policy=close: an EventSource gets the end, reconnects once, and stops", async ({ page, network, server }) => {
    await page.goto("/e2e/empty.html");
    const lines = Array.from({ length: 200 }, () => JSON.stringify("x".repeat(2000))).join("\n");
    const headers = { "Content-Type": "application/x-ndjson" };
    for (let post = 0; post < 4; post++) {
      const response = await fetch(`${server.origin}/v1/topics/long`, { method: "POST", headers, body: lines });
      expect(response.status).toBe(200);
    }
    const listed = await fetch(`${server.origin}/v1/topics/long?limit=1&cursor=latest`);
    const { position } = (await listed.json()) as { position: string };
    const [epoch] = position.split(".");
    await page.evaluate((epoch) => {
      const source = new EventSource(`/v1/topics/long?policy=close&cursor=${epoch}.0`);
      const ends: [string, string][] = [];
      source.addEventListener("end", ({ data, lastEventId }) => ends.push([data, lastEventId]));
      Object.assign(globalThis, { source, ends });
    }, epoch);
    const seen = (): Promise<{ state: number; ends: [string, string][] }> =>
      page.evaluate(() => {
        const { source, ends } = globalThis as unknown as { source: EventSource; ends: [string, string][] };
        return { state: source.readyState, ends };
      });
    await expect.poll(async () => (await seen()).state).toBe(2);
    const { ends } = await seen();
    expect(ends).toHaveLength(1);
    const [data, id] = ends[0] ?? ["null", ""];
    expect(JSON.parse(data)).toMatchObject({ end: { code: "trimmed" }, position: `${epoch}.0` });
    expect(id).toBe(`${epoch}.0`);
    const asked = network.asked.filter(({ url }) => url.searchParams.get("policy") === "close");
    expect(asked).toHaveLength(2);
  });
});
