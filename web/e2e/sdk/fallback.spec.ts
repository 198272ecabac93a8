/** Fallback to the next transport if one does not work. */

import type { Page } from "@playwright/test";
import type { TransportName } from "thalweg";
import { IDLE_TIMEOUT_MS, stopClock, timeOut } from "../harness/clock.js";
import type { Network } from "../harness/proxy.js";
import type { Kind, SeenRequest } from "../harness/seen-request.js";
import { publish, type Server } from "../harness/server.js";
import { BROKEN_NETWORK, expect, expectAll, open, over, subscribe, test, until } from "../harness/test.js";
import { PASS, type Treatment } from "../harness/treatments.js";

test.use({ expected: BROKEN_NETWORK });

function block(network: Network, kinds: readonly Kind[], treatment: Treatment): void {
  network.treat(({ kind }: SeenRequest) => (kinds.includes(kind) ? treatment : PASS));
}

const UPGRADES: readonly [string, Treatment, "is silent"?][] = [
  ["answers 400 to upgrades", { by: "refuse", status: 400 }],
  ["answers 200 to upgrades", { by: "refuse", status: 200 }],
  ["resets upgrades", { by: "reset" }],
  ["never answers upgrades", { by: "hang" }, "is silent"],
  ["opens WebSockets, and lets nothing through", { by: "mute" }, "is silent"],
];

for (const [what, treatment, isSilent] of UPGRADES) {
  test(`a proxy that ${what}: HTTP streaming`, async ({ page, network, server }) => {
    block(network, ["websocket"], treatment);
    await publish(server, "numbers", 1, 1000);
    await stopClock(page);
    await open(page);
    await subscribe(page, "numbers");
    if (isSilent) await timeOut(page, network, "websocket");
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
    await stopClock(page);
    await open(page);
    await subscribe(page, "numbers");
    await over(page, next);
    expectAll(await until(page, 1000), 1000);
  });
}

/** The transports of a page of the server's own origin, by the rules of `published()`. */
const PUBLISHED: readonly TransportName[] = ["websocket", "sse", "forever-frame", "long-polling"];

for (const [index, next] of PUBLISHED.entries()) {
  const blocked = PUBLISHED.slice(0, index) as readonly Kind[];
  test(`published(), blocked ${blocked.join(", ") || "nothing"}: ${next}`, async ({ page, network, server }) => {
    block(network, blocked, { by: "refuse", status: 403 });
    await publish(server, "numbers", 1, 1000);
    await stopClock(page);
    await open(page, { transports: "published" });
    await subscribe(page, "numbers");
    await over(page, next);
    expectAll(await until(page, 1000), 1000);
    const tried = network.asked.map(({ kind }) => kind).filter((kind) => kind !== "other");
    expect([...new Set(tried)], "in this order, and no other").toEqual(PUBLISHED.slice(0, index + 1));
  });
}

test("with volume high, HTTP streaming comes first and WebSocket second", async ({ page, network, server }) => {
  block(network, ["http-streaming"], { by: "refuse", status: 403 });
  await publish(server, "numbers", 1, 1000);
  await stopClock(page);
  await open(page, { volume: "high" });
  await subscribe(page, "numbers");
  await over(page, "websocket");
  expectAll(await until(page, 1000), 1000);
  expect(network.asked.find(({ kind }) => kind !== "other")?.kind).toBe("http-streaming");
});

test("a proxy that buffers answers, and drops upgrades: long polling", async ({ page, network, server }) => {
  // The proxy would release half a megabyte at a time; no stream here is that long.
  network.treat(({ kind }) =>
    kind === "websocket" ? { by: "refuse", status: 400 } : { by: "hold", bytes: 512 * 1024 },
  );
  await publish(server, "numbers", 1, 1000);
  await stopClock(page);
  await open(page);
  await subscribe(page, "numbers");
  await timeOut(page, network, "http-streaming");
  await timeOut(page, network, "sse");
  await over(page, "long-polling");
  await until(page, 1000);
  await publish(server, "numbers", 1001, 1100);
  expectAll(await until(page, 1100), 1100);
  const tried = network.asked
    .map(({ kind }) => kind)
    .filter((kind, at, all) => kind !== "other" && kind !== all[at - 1]);
  expect(tried).toEqual(ORDER);
});

test("a dead path is detected by the idle timeout, without lost events", async ({ page, network, server }) => {
  await publish(server, "numbers", 1, 100);
  await stopClock(page);
  await open(page);
  await subscribe(page, "numbers");
  await until(page, 100);
  await over(page, "websocket");
  block(network, ["websocket"], { by: "hang" });
  network.freeze();
  await publish(server, "numbers", 101, 200);
  const before = network.asked.length;
  await page.clock.fastForward(IDLE_TIMEOUT_MS);
  await page.evaluate(() => e2e.until((_, { state }) => state === "waiting"));
  await page.clock.fastForward("00:30");
  await timeOut(page, network, "websocket", before);
  await over(page, "http-streaming");
  expectAll(await until(page, 200), 200);
});

test("the working transport is remembered for the tab", async ({ page, network, server }) => {
  block(network, ["websocket"], { by: "refuse", status: 400 });
  await publish(server, "numbers", 1, 10);
  await open(page);
  await subscribe(page, "numbers");
  await over(page, "http-streaming");
  const before = network.asked.length;
  await open(page);
  await subscribe(page, "numbers");
  await over(page, "http-streaming");
  expect(network.asked.slice(before).find(({ kind }) => kind !== "other")?.kind).toBe("http-streaming");
});

/** Makes a page fall back to HTTP streaming, with a clock that the test controls. */
async function fall(page: Page, network: Network, server: Server): Promise<void> {
  block(network, ["websocket"], { by: "refuse", status: 400 });
  await publish(server, "numbers", 1, 1000);
  await stopClock(page);
  await open(page);
  await subscribe(page, "numbers");
  await over(page, "http-streaming");
}

test("a session upgrades when the blocked transport works again", async ({ page, network, server }) => {
  await fall(page, network, server);
  await until(page, 1000);
  block(network, [], PASS);
  await page.clock.fastForward("00:31");
  await over(page, "websocket");
  await publish(server, "numbers", 1001, 2000);
  expectAll(await until(page, 2000), 2000);
});

test("an upgrade to a blocked transport fails, and the working one continues", async ({ page, network, server }) => {
  await fall(page, network, server);
  const tried = network.asked.length;
  await page.clock.fastForward("00:31");
  await network.seen(({ kind }) => kind === "websocket", tried);
  await publish(server, "numbers", 1001, 2000);
  const book = await until(page, 2000);
  expectAll(book, 2000);
  expect(book.statuses.at(-1)).toMatchObject({ state: "open", transport: "http-streaming" });
  // The working stream was never reopened.
  expect(network.asked.filter(({ kind }) => kind === "http-streaming").length).toBe(1);
});
