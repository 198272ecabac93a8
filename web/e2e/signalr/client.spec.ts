/** The unmodified client of SignalR in a page, over each of its transports. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "@playwright/test";
import type { Network } from "../harness/proxy.js";
import { publish } from "../harness/server.js";
import { BROKEN_NETWORK, expect, test } from "../harness/test.js";
import { PASS } from "../harness/treatments.js";
import type { HubMessage } from "../site/hub.js";

const HUB = ["--shards", "2", "--set", 'signalr.paths=["/hub"]'];

const TRANSPORTS = ["WebSockets", "ServerSentEvents", "LongPolling"];

async function open(page: Page, transport: string, token?: string): Promise<void> {
  await page.goto("/e2e/hub.html");
  await page.waitForFunction(() => "hub" in globalThis);
  await page.evaluate(([transport, token]) => hub.open(transport as string, token), [transport, token]);
}

const item = (page: Page): Promise<HubMessage> => page.evaluate(() => hub.next("item"));

async function until(page: Page, last: number): Promise<unknown[]> {
  const events: unknown[] = [];
  while (events.at(-1) !== last) events.push(...((await item(page)).events ?? ["a gap"]));
  return events;
}

/** Returns whether all requests to the hub used a transport. */
function used(network: Network, transport: string): boolean {
  const connected = network.asked.filter(({ method, url }) => method === "GET" && url.pathname === "/hub");
  const kinds = connected.map(({ kind, headers }) => {
    if (kind === "websocket") return "WebSockets";
    return headers.accept === "text/event-stream" ? "ServerSentEvents" : "LongPolling";
  });
  return kinds.length > 0 && kinds.every((kind) => kind === transport);
}

test.describe("a hub", () => {
  test.use({ args: HUB });

  for (const transport of TRANSPORTS) {
    test.describe(() => {
      // Over long polling, the client sends its last message and DELETE at once. Whichever comes second finds no connection.
      test.use({ expected: transport === "LongPolling" ? /status of 404/ : null });

      test(`${transport}: subscribe, publish`, async ({ page, network, server }) => {
        await open(page, transport);
        await page.evaluate(() => hub.follow("numbers"));
        expect(await item(page)).toMatchObject({ topic: "numbers", events: [] });
        const result = await page.evaluate(() => hub.invoke("Publish", "numbers", 1, { n: "ü" }));
        expect(result).toMatchObject({ topic: "numbers", first: 1, count: 2 });
        expect((await item(page)).events).toEqual([1, { n: "ü" }]);
        expect(await page.evaluate(() => hub.invoke("Subscribe", "others"))).toBeNull();
        expect(await page.evaluate(() => hub.next("events"))).toMatchObject({ topic: "others", events: [] });
        await publish(server, "others", 3, 3);
        expect(await page.evaluate(() => hub.next("events"))).toMatchObject({ topic: "others", events: [3] });
        await page.evaluate(() => hub.stop());
        expect(used(network, transport)).toBe(true);
      });
    });

    test(`${transport}: an ack opens a window`, async ({ page }) => {
      const invoke = (...args: [string, ...unknown[]]) => page.evaluate((args) => hub.invoke(...args), args);
      const next = () => page.evaluate(() => hub.next("events"));
      await open(page, transport);
      expect(await invoke("Subscribe", "narrow", "latest", { window: "1KiB" })).toBeNull();
      expect(await invoke("Subscribe", "wide")).toBeNull();
      expect(await next()).toMatchObject({ topic: "narrow", events: [] });
      expect(await next()).toMatchObject({ topic: "wide", events: [] });
      // The window has room for one of these.
      const [first, second] = ["1".repeat(700), "2".repeat(700)];
      await invoke("Publish", "narrow", first);
      await invoke("Publish", "narrow", second);
      await invoke("Publish", "wide", 3);
      const message = await next();
      expect(message).toMatchObject({ topic: "narrow", events: [first] });
      expect(await next(), "the window is full").toMatchObject({ topic: "wide", events: [3] });
      expect(await invoke("Ack", "narrow", message.position)).toBeNull();
      expect(await next()).toMatchObject({ topic: "narrow", events: [second] });
    });
  }

  test.describe("behind a broken network", () => {
    test.use({ expected: BROKEN_NETWORK });

    for (const transport of TRANSPORTS) {
      test(`${transport}: a cut loses and repeats no events`, async ({ page, network, server }) => {
        await open(page, transport);
        await page.evaluate(() => hub.follow("numbers"));
        await item(page);
        const events: unknown[] = [];
        for (let round = 0; round < 3; round++) {
          await publish(server, "numbers", 10 * round, 10 * round + 4);
          events.push(...(await until(page, 10 * round + 4)));
          network.cut();
          await publish(server, "numbers", 10 * round + 5, 10 * round + 9);
          events.push(...(await until(page, 10 * round + 9)));
        }
        expect(events).toEqual(Array.from({ length: 30 }, (_, number) => number));
        expect(used(network, transport)).toBe(true);
      });

      test(`${transport}: the server is killed and restarted`, async ({ page, server }) => {
        await open(page, transport);
        await page.evaluate(() => hub.follow("numbers"));
        await item(page);
        await publish(server, "numbers", 1, 5);
        await until(page, 5);
        await server.kill();
        await page.evaluate(() => hub.next("reconnecting"));
        await server.restart();
        await publish(server, "numbers", 1, 3);
        await page.evaluate(() => hub.next("reconnected"));
        expect(await item(page)).toMatchObject({ gap: { missed: null, reason: "epoch" } });
        expect(await until(page, 3)).toEqual([1, 2, 3]);
      });
    }
  });
});

test.describe("a hub with a data directory, behind a slow network", () => {
  test.use({
    args: async ({}, use) => {
      const folder = mkdtempSync(join(tmpdir(), "thalweg-hub-"));
      await use([...HUB, "--data", folder]);
      rmSync(folder, { recursive: true });
    },
    expected: BROKEN_NETWORK,
  });

  const BATCHES = 200;
  const BATCH = 100;
  /** All events take 50 s at this rate, much longer than their publishing. */
  const SLOW = { by: "throttle", bytesPerS: 2048 } as const;

  for (const transport of TRANSPORTS) {
    for (const way of ["follow", "stream"] as const) {
      test(`${transport}, ${way}: a kill while events are in flight loses and repeats none`, async ({
        page,
        network,
        server,
      }) => {
        network.treat(({ method, url }) => (method === "GET" && url.pathname === "/hub" ? SLOW : PASS));
        await open(page, transport);
        await page.evaluate((way) => hub[way]("numbers"), way);
        expect((await item(page)).events).toEqual([]);
        for (let batch = 0; batch < BATCHES; batch++) {
          await publish(server, "numbers", BATCH * batch, BATCH * (batch + 1) - 1);
        }
        const events = [...((await item(page)).events ?? ["a gap"])];
        await server.kill();
        network.cut();
        await page.evaluate(() => hub.next("reconnecting"));
        const said = await page.evaluate(() => hub.take("item"));
        events.push(...said.flatMap(({ events }) => events ?? ["a gap"]));
        expect(events.length, "events are in flight").toBeLessThan(BATCHES * BATCH);
        if (way === "stream") await page.evaluate(() => hub.next("error"));
        network.treat(() => PASS);
        await server.restart();
        await page.evaluate(() => hub.next("reconnected"));
        events.push(...(await until(page, BATCHES * BATCH - 1)));
        expect(events).toEqual(Array.from({ length: BATCHES * BATCH }, (_, number) => number));
        expect(used(network, transport)).toBe(true);
      });
    }
  }
});

test.describe("a hub with tokens", () => {
  const TOKEN = "subscribe-secret-1234567890";
  test.use({
    args: [
      ...HUB,
      "--log",
      "debug",
      "--token",
      `subscriber=${TOKEN},subscribe=cars/**`,
      "--token",
      "everybody,subscribe=public/**",
    ],
    expected: BROKEN_NETWORK,
  });

  for (const transport of TRANSPORTS) {
    test(`${transport}: the token decides the rights, and no log contains it`, async ({ page, network, server }) => {
      await open(page, transport);
      await page.evaluate(() => hub.follow("cars/1"));
      expect(await page.evaluate(() => hub.next("error"))).toContain("unauthorized: subscribing to cars/1");
      await open(page, transport, TOKEN);
      await page.evaluate(() => hub.follow("cars/1"));
      expect(await item(page)).toMatchObject({ topic: "cars/1" });
      expect(await page.evaluate(() => hub.invoke("Publish", "cars/1", 1))).toContain(
        "forbidden: publishing to cars/1",
      );
      // Where a browser sets no headers, the token is in the URL.
      const isInUrl = network.asked.some(({ url }) => url.searchParams.get("access_token") === TOKEN);
      expect(isInUrl).toBe(transport !== "LongPolling");
      // The server logs a refused request.
      await page.evaluate(async () => {
        const socket = new WebSocket(`ws://${location.host}/hub?access_token=wrong-secret-1234567890`);
        await new Promise((resolve) => socket.addEventListener("error", resolve));
      });
      await expect.poll(() => server.log()).toMatch(/code="unauthorized".* what="\/hub"/);
      expect(server.log()).toContain("forbidden");
      expect(server.log()).not.toMatch(/secret-1234567890|access_token/);
    });
  }
});
