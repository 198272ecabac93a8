/** Several subscriptions of a page to one topic share one on the wire, and each gets all events after it has joined. */

import type { Page } from "@playwright/test";
import type { Batch } from "thalweg";
import { publish } from "../harness/server.js";
import { BROKEN_NETWORK, expect, expectAll, open, subscribe, test, until } from "../harness/test.js";
import { TRANSPORTS } from "./transports.js";

test.use({ args: ["--topic", "matches/**,kind=value"], expected: BROKEN_NETWORK });

interface Kept {
  events: readonly unknown[];
  first: number;
  changed: readonly string[] | null;
}

type Joined = typeof globalThis & { batches: Kept[]; leave: () => void };

/** Subscribes to a topic that the page is already subscribed to. */
async function join(page: Page, topic: string): Promise<void> {
  await page.evaluate((topic) => {
    const joined = globalThis as Joined;
    joined.batches = [];
    const subscription = e2e.session.subscribe(topic, {}, ({ events, first, changed }: Batch<unknown>) => {
      joined.batches.push({ events, first, changed: changed ?? null });
    });
    joined.leave = () => subscription.close();
  }, topic);
}

const batches = (page: Page): Promise<Kept[]> => page.evaluate(() => (globalThis as Joined).batches);
const events = async (page: Page): Promise<unknown[]> => (await batches(page)).flatMap(({ events }) => events);
const range = (first: number, last: number): number[] =>
  Array.from({ length: last - first + 1 }, (_, index) => first + index);

const WAYS = TRANSPORTS.map((name) => ({ name, isInWorker: false }));
for (const { name, isInWorker } of [...WAYS, { name: "websocket", isInWorker: true } as const]) {
  const title = isInWorker ? `${name} in a Worker` : name;

  test(`${title}: two subscriptions are one on the wire until both are closed`, async ({ page, network, server }) => {
    const commands: string[] = [];
    page.on("websocket", (socket) => socket.on("framesent", ({ payload }) => commands.push(String(payload))));
    const asked = (command: string): number =>
      commands.filter((text) => text.includes(`"command":"${command}"`)).length;
    /** Open connections that carry the topic. */
    const opened = (): number => network.asked.filter(({ kind }) => kind === name && name !== "long-polling").length;
    await publish(server, "numbers", 1, 1000);
    await open(page, { transports: [name], isInWorker });
    await subscribe(page, "numbers");
    await until(page, 1000);
    const before = opened();
    await join(page, "numbers");
    await publish(server, "numbers", 1001, 2000);
    expectAll(await until(page, 2000), 2000);
    await expect.poll(async () => (await events(page)).length).toBe(1000);
    expect(await events(page)).toEqual(range(1001, 2000));
    await page.evaluate(() => e2e.subscription.close());
    await publish(server, "numbers", 2001, 3000);
    await expect.poll(async () => (await events(page)).length).toBe(2000);
    expect(await events(page)).toEqual(range(1001, 3000));
    expect(opened()).toBe(before);
    // Commands are visible on WebSockets; those of a Worker are not.
    if (name === "websocket" && !isInWorker) expect([asked("subscribe"), asked("unsubscribe")]).toEqual([1, 0]);
    network.cut();
    await publish(server, "numbers", 3001, 4000);
    // Chromium does not report a broken forever frame.
    if (name !== "forever-frame") {
      await expect.poll(async () => (await events(page)).length).toBe(3000);
      expect(await events(page)).toEqual(range(1001, 4000));
    }
    await page.evaluate(() => (globalThis as Joined).leave());
    await expect.poll(() => page.evaluate(() => e2e.session.status.state)).toBe("idle");
    expect((await until(page, 2000)).count).toBe(2000);
  });

  test(`${title}: a subscription that joins gets a value topic's newest version at once`, async ({
    page,
    network,
    server,
  }) => {
    const topic = "matches/8";
    const match = (minute: number) => ({ minute, players: range(1, 40) });
    const post = async (minute: number): Promise<void> => {
      const headers = { "Content-Type": "application/json" };
      const body = JSON.stringify(match(minute));
      const response = await fetch(`${server.origin}/v1/topics/${topic}`, { method: "POST", headers, body });
      expect(response.status).toBe(200);
    };
    await post(1);
    await open(page, { transports: [name], isInWorker });
    await page.evaluate((topic) => {
      const kept: Kept[] = [];
      Object.assign(globalThis, { kept });
      e2e.session.subscribe(topic, {}, ({ events, first, changed }: Batch<unknown>) => {
        kept.push({ events, first, changed: changed ?? null });
      });
    }, topic);
    const firsts = (): Promise<Kept[]> => page.evaluate(() => (globalThis as unknown as { kept: Kept[] }).kept);
    await expect.poll(async () => (await firsts()).length).toBe(1);
    await post(2);
    await expect.poll(async () => (await firsts()).at(-1)?.events).toEqual([match(2)]);
    const before = network.asked.filter(({ kind }) => kind === name).length;
    await join(page, topic);
    await expect.poll(async () => (await batches(page)).length).toBe(1);
    const [whole] = await batches(page);
    expect(whole).toEqual({ events: [match(2)], first: 2, changed: null });
    if (name !== "long-polling") expect(network.asked.filter(({ kind }) => kind === name)).toHaveLength(before);
    await post(3);
    await expect.poll(async () => (await events(page)).at(-1)).toEqual(match(3));
    // A document that the server cannot compare in time arrives whole, for both.
    expect((await batches(page)).slice(1)).toEqual((await firsts()).slice(2));
    expect(await batches(page)).toHaveLength(2);
  });
}
