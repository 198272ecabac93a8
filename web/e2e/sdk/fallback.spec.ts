/** A transport that does not work is left for the next one, whatever stands in between. */

import type { Page } from "@playwright/test";
import type { TransportName } from "thalweg";
import type { Asked, Kind } from "../harness/asked.js";
import type { Network } from "../harness/proxy.js";
import { publish, type Server } from "../harness/server.js";
import { BROKEN_NETWORK, expect, expectAll, open, over, subscribe, test, until } from "../harness/test.js";
import { PASS, type Treatment } from "../harness/treatments.js";

test.use({ expected: BROKEN_NETWORK });

/** How long a transport has to say its first word: here nothing is far away. */
const TIMEOUT_MS = 400;

/** Treats some transports in this way and passes the rest. */
function block(network: Network, kinds: readonly Kind[], treatment: Treatment): void {
  network.treat(({ kind }: Asked) => (kinds.includes(kind) ? treatment : PASS));
}

const UPGRADES: readonly [string, Treatment][] = [
  ["answers 400 to upgrades", { by: "refuse", status: 400 }],
  ["answers 200 to upgrades", { by: "refuse", status: 200 }],
  ["resets upgrades", { by: "reset" }],
  ["never answers upgrades", { by: "hang" }],
  ["opens WebSockets, and lets nothing through", { by: "mute" }],
];

for (const [what, treatment] of UPGRADES) {
  test(`a proxy that ${what}: HTTP streaming`, async ({ page, network, server }) => {
    block(network, ["websocket"], treatment);
    await publish(server, "numbers", 1, 1000);
    await open(page, { connectTimeout: TIMEOUT_MS });
    await subscribe(page, "numbers");
    await over(page, "http-streaming");
    expectAll(await until(page, 1000), 1000);
    expect(network.asked.some(({ kind }) => kind === "websocket")).toBe(true);
  });
}

const ORDER: readonly TransportName[] = ["websocket", "http-streaming", "sse", "long-polling"];

for (const [index, next] of ORDER.entries()) {
  const blocked = ORDER.slice(0, index) as readonly Kind[];
  test(`blocked ${blocked.join(", ") || "nothing"}: ${next}`, async ({ page, network, server }) => {
    block(network, blocked, { by: "refuse", status: 403 });
    await publish(server, "numbers", 1, 1000);
    await open(page, { connectTimeout: TIMEOUT_MS });
    await subscribe(page, "numbers");
    await over(page, next);
    expectAll(await until(page, 1000), 1000);
  });
}

test("with much data asked for, HTTP streaming comes first, and WebSocket behind it", async ({
  page,
  network,
  server,
}) => {
  block(network, ["http-streaming"], { by: "refuse", status: 403 });
  await publish(server, "numbers", 1, 1000);
  await open(page, { volume: "high", connectTimeout: TIMEOUT_MS });
  await subscribe(page, "numbers");
  await over(page, "websocket");
  expectAll(await until(page, 1000), 1000);
  expect(network.asked.find(({ kind }) => kind !== "other")?.kind).toBe("http-streaming");
});

test("a proxy that buffers answers, and drops upgrades: long polling", async ({ page, network, server }) => {
  // It would let go of half a megabyte at a time; no stream here is as long.
  network.treat(({ kind }) =>
    kind === "websocket" ? { by: "refuse", status: 400 } : { by: "hold", bytes: 512 * 1024 },
  );
  await publish(server, "numbers", 1, 1000);
  await open(page, { connectTimeout: TIMEOUT_MS });
  await subscribe(page, "numbers");
  await over(page, "long-polling");
  await until(page, 1000);
  await publish(server, "numbers", 1001, 1100);
  expectAll(await until(page, 1100), 1100);
  const tried = network.asked
    .map(({ kind }) => kind)
    .filter((kind, at, all) => kind !== "other" && kind !== all[at - 1]);
  expect(tried).toEqual(ORDER);
});

test.describe("with frequent heartbeats", () => {
  test.use({ args: ["--heartbeat", "300ms"] });

  test("a path that goes dead, noticed by the idle timeout, is left, and nothing is lost", async ({
    page,
    network,
    server,
  }) => {
    await publish(server, "numbers", 1, 100);
    await open(page, { connectTimeout: TIMEOUT_MS, idleTimeout: 1000 });
    await subscribe(page, "numbers");
    await until(page, 100);
    await over(page, "websocket");
    block(network, ["websocket"], { by: "hang" });
    network.freeze();
    await publish(server, "numbers", 101, 200);
    await over(page, "http-streaming");
    expectAll(await until(page, 200), 200);
  });
});

test("what worked is remembered for the tab: there it begins the next time", async ({ page, network, server }) => {
  block(network, ["websocket"], { by: "refuse", status: 400 });
  await publish(server, "numbers", 1, 10);
  await open(page, { connectTimeout: TIMEOUT_MS });
  await subscribe(page, "numbers");
  await over(page, "http-streaming");
  const before = network.asked.length;
  await open(page, { connectTimeout: TIMEOUT_MS });
  await subscribe(page, "numbers");
  await over(page, "http-streaming");
  expect(network.asked.slice(before).find(({ kind }) => kind !== "other")?.kind).toBe("http-streaming");
});

/** Has a page fall to HTTP streaming, with a clock that the test turns. */
async function fall(page: Page, network: Network, server: Server): Promise<void> {
  await page.clock.install();
  block(network, ["websocket"], { by: "refuse", status: 400 });
  await publish(server, "numbers", 1, 1000);
  await open(page, { connectTimeout: TIMEOUT_MS });
  await subscribe(page, "numbers");
  await over(page, "http-streaming");
}

test("it upgrades when what was blocked is free again", async ({ page, network, server }) => {
  await fall(page, network, server);
  await until(page, 1000);
  block(network, [], PASS);
  await page.clock.fastForward("00:31");
  await over(page, "websocket");
  await publish(server, "numbers", 1001, 2000);
  expectAll(await until(page, 2000), 2000);
});

test("an upgrade fails while it is still blocked, and what works goes on", async ({ page, network, server }) => {
  await fall(page, network, server);
  const tried = network.asked.length;
  await page.clock.fastForward("00:31");
  await network.seen(({ kind }) => kind === "websocket", tried);
  await publish(server, "numbers", 1001, 2000);
  const book = await until(page, 2000);
  expectAll(book, 2000);
  expect(book.statuses.at(-1)).toMatchObject({ state: "open", transport: "http-streaming" });
  // The stream that worked was never reopened.
  expect(network.asked.filter(({ kind }) => kind === "http-streaming").length).toBe(1);
});
