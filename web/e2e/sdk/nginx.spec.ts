/** Behind nginx, which answers 502 while the server restarts. */

import { nginx } from "../harness/nginx.js";
import { publish } from "../harness/server.js";
import { BROKEN_NETWORK, test as base, expect, open, over, subscribe, until } from "../harness/test.js";
import { breakable, HEARTBEAT, TRANSPORTS } from "./transports.js";

const test = base.extend({
  // The tests' pages and the server are behind nginx, under one origin.
  baseURL: async ({ network }, use, info) => {
    const before = await nginx(new URL(network.origin).host, info);
    await use(before.origin);
    await before.close();
  },
});

test.use({ args: [...HEARTBEAT], expected: BROKEN_NETWORK });

for (const name of TRANSPORTS) {
  test(`${name}: a session survives a restart of the server`, async ({ page, server }) => {
    await publish(server, "numbers", 1, 100);
    await open(page, breakable(name));
    await subscribe(page, "numbers");
    await until(page, 100);
    await server.kill();
    // The second attempt reached only nginx.
    await page.evaluate(() =>
      e2e.until(({ statuses }) => statuses.filter((status) => status.state === "waiting").length > 1),
    );
    await server.restart();
    await publish(server, "numbers", 1, 50);
    const book = await page.evaluate(() => e2e.until(({ gaps, last }) => gaps.length > 0 && last === 50));
    expect(book).toMatchObject({ count: 150, faults: [], gaps: [{ missed: null, reason: "epoch" }] });
  });
}

test("after a restart a session at once uses the transport that worked", async ({ page, server }) => {
  await publish(server, "numbers", 1, 100);
  await open(page, { isImpatient: true });
  await subscribe(page, "numbers");
  await over(page, "websocket");
  await server.kill();
  const { statuses } = await page.evaluate(() =>
    e2e.until(({ statuses }) => statuses.filter((status) => status.state === "waiting").length > 3),
  );
  // The others were tried in the meantime.
  expect(new Set(statuses.map(({ transport }) => transport))).toContain("long-polling");
  await page.evaluate(() => {
    e2e.isImpatient = false;
    return e2e.until((_, { state }) => state === "waiting");
  });
  await server.restart();
  await page.evaluate(() => e2e.wake());
  const after = await page.evaluate(
    (before) => e2e.until(({ statuses }) => statuses.slice(before).some((status) => status.state === "open")),
    statuses.length,
  );
  expect(after.statuses.at(-1)).toMatchObject({ state: "open", transport: "websocket" });
});

test("an EventSource without the SDK does not survive a restart", async ({ page, server }) => {
  await page.goto("/e2e/empty.html");
  await page.evaluate(async () => {
    const source = new EventSource("/v1/topics/numbers");
    await new Promise((go) => source.addEventListener("message", go, { once: true }));
    Object.assign(globalThis, { source });
  });
  await server.kill();
  const state = (): Promise<number> =>
    page.evaluate(() => (globalThis as unknown as { source: EventSource }).source.readyState);
  await expect.poll(state).toBe(2);
});
