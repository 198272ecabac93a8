/** A hidden tab requests a lower rate, and the full rate when it is visible again. */

import { publish } from "../harness/server.js";
import { show } from "../harness/shown.js";
import { test as withTab } from "../harness/tab.js";
import { expect, expectAll, more, open, over, subscribe, test, until } from "../harness/test.js";

test.use({ args: ["--source", "rows=constant,batch=1,interval=1ms"] });

test("over WebSocket, by a command", async ({ page }) => {
  const said: string[] = [];
  page.on("websocket", (socket) => socket.on("framesent", ({ payload }) => said.push(String(payload))));
  const subscriptions = (): (string | undefined)[] =>
    said
      .filter((command) => command.includes('"subscribe"'))
      .map((command) => (JSON.parse(command) as { interval?: string }).interval);
  await page.clock.install();
  await open(page, { transports: ["websocket"], hiddenInterval: 500 });
  await subscribe(page, "rows");
  await more(page, 100);
  await show(page, false);
  await page.clock.fastForward(6000);
  await expect.poll(subscriptions).toEqual([undefined, "500ms"]);
  await more(page, 100);
  await show(page, true);
  await expect.poll(subscriptions).toEqual([undefined, "500ms", undefined]);
  expect(await more(page, 1000)).toMatchObject({ faults: [], gaps: [] });
});

for (const name of ["http-streaming", "sse", "long-polling"] as const) {
  test(`over ${name}, by reopening it at its cursor`, async ({ page, network }) => {
    const slower = (): number => network.asked.findIndex(({ url }) => url.searchParams.get("interval") === "500ms");
    await page.clock.install();
    await open(page, { transports: [name], hiddenInterval: 500 });
    await subscribe(page, "rows");
    await more(page, 100);
    await show(page, false);
    await page.clock.fastForward(6000);
    await network.seen(({ url }) => url.searchParams.get("interval") === "500ms");
    await more(page, 100);
    const seen = network.asked.length;
    await show(page, true);
    await network.seen(({ kind, url }) => kind === name && !url.searchParams.has("interval"), seen);
    expect(slower()).toBeLessThan(seen);
    expect(await more(page, 1000)).toMatchObject({ faults: [], gaps: [] });
    await over(page, name);
  });
}

test("a glance at another tab changes nothing", async ({ page, network, server }) => {
  await publish(server, "numbers", 1, 10);
  await page.clock.install();
  await open(page, { transports: ["http-streaming"] });
  await subscribe(page, "numbers");
  await until(page, 10);
  await show(page, false);
  await page.clock.fastForward(4000);
  await show(page, true);
  await page.clock.fastForward(10_000);
  await publish(server, "numbers", 11, 20);
  expectAll(await until(page, 20), 20);
  expect(network.asked.filter(({ kind }) => kind === "http-streaming").length).toBe(1);
});

withTab(
  "behind another tab of its window, with the visibility that the browser itself reports",
  async ({ tab, network }) => {
    const asks = (is: boolean) =>
      network.seen(({ url }) => url.searchParams.has("interval") === is, network.asked.length);
    await tab.open(`${network.origin}/e2e/subscriber.html`);
    await tab.until(() => "e2e" in globalThis);
    await tab.evaluate(async () => {
      e2e.open({ transports: ["http-streaming"], hiddenInterval: 500 });
      e2e.subscribe("rows", { from: "earliest" });
      await e2e.until(({ count }) => count > 100);
    });
    const slower = asks(true);
    await tab.hide();
    await slower;
    expect(await tab.evaluate(() => document.visibilityState)).toBe("hidden");
    const full = asks(false);
    await tab.show();
    await full;
    const book = await tab.evaluate(() => {
      const goal = e2e.book.count + 1000;
      return e2e.until(({ count }) => count > goal);
    });
    expect(book).toMatchObject({ faults: [], gaps: [] });
  },
);
