/** Broken connections: the client reconnects, resumes, and reports gaps. */

import { stopClock } from "../harness/clock.js";
import { publish } from "../harness/server.js";
import { BROKEN_NETWORK, expect, expectAll, more, open, subscribe, test, until } from "../harness/test.js";
import { PASS } from "../harness/treatments.js";
import { breakable, HEARTBEAT, TRANSPORTS } from "./transports.js";

test.use({ expected: BROKEN_NETWORK });

/** Places at which a connection breaks, bytes after its head: within a frame, between two frames, or within the first. */
const CUTS = [1, 700, 4000, 9001, 20_000, 30_007];

test.describe("in small batches", () => {
  test.use({ args: [...HEARTBEAT, "--topic", "numbers,batch-events=100"] });

  for (const name of TRANSPORTS) {
    test(`${name}, a break in mid-stream loses and repeats no events`, async ({ page, network, server }) => {
      // The end of a forever frame is detected late: a few breaks are enough.
      const cuts = name === "forever-frame" ? CUTS.slice(1, 3) : [...CUTS];
      network.treat(({ kind }) => {
        const bytes = kind === name ? cuts.shift() : undefined;
        return bytes ? { by: "cut", bytes } : PASS;
      });
      await publish(server, "numbers", 1, 20_000);
      await open(page, { ...breakable(name), isImpatient: true });
      await subscribe(page, "numbers");
      await until(page, 20_000);
      expect(cuts).toEqual([]);
      await publish(server, "numbers", 20_001, 20_010);
      expectAll(await until(page, 20_010), 20_010);
    });
  }
});

for (const name of TRANSPORTS) {
  test(`${name}: the server is killed and restarted`, async ({ page, network, server }) => {
    await publish(server, "numbers", 1, 1000);
    await open(page, breakable(name));
    await subscribe(page, "numbers");
    await until(page, 1000);
    await server.kill();
    await page.evaluate(() => e2e.until((_, { state }) => state === "waiting"));
    await server.restart();
    // The server has lost its history: the epoch is new, and the size of the gap is unknown.
    await publish(server, "numbers", 1, 50);
    const book = await page.evaluate(() => e2e.until(({ gaps, last }) => gaps.length > 0 && last === 50));
    expect(book).toMatchObject({ count: 1050, faults: [], gaps: [{ missed: null, reason: "epoch" }] });
    await publish(server, "numbers", 51, 60);
    expect(await until(page, 60)).toMatchObject({ count: 1060, faults: [], gaps: { length: 1 } });
    expect(network.asked.filter(({ kind }) => kind === name).length).toBeGreaterThan(1);
  });
}

test.describe("with a continuous source", () => {
  test.use({ args: [...HEARTBEAT, "--source", "rows=constant,batch=5,interval=1ms"] });

  for (const name of TRANSPORTS) {
    test(`${name}, repeated breaks while data flows`, async ({ page, network }) => {
      await open(page, { ...breakable(name), isImpatient: true });
      await subscribe(page, "rows");
      for (let cut = 0; cut < 3; cut++) {
        await more(page, 2000);
        const before = network.asked.length;
        network.cut();
        await network.seen(({ kind }) => kind === name, before);
      }
      expect(await more(page, 2000)).toMatchObject({ faults: [], gaps: [] });
    });
  }
});

test.describe("with a short history", () => {
  test.use({ args: [...HEARTBEAT, "--topic", "numbers,history-events=1000,batch-events=100"] });

  for (const name of TRANSPORTS) {
    test(`${name}: events trimmed while disconnected are reported with their number`, async ({
      page,
      network,
      server,
    }) => {
      await publish(server, "numbers", 1, 100);
      await open(page, breakable(name));
      await subscribe(page, "numbers");
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
  }
});

test("the return of the network causes a reconnect at once", async ({ page, network, server, context }) => {
  await publish(server, "numbers", 1, 10);
  await open(page, { transports: ["http-streaming"] });
  await subscribe(page, "numbers");
  await until(page, 10);
  // From here on no timer of the page fires: only `online` can cause a reconnect.
  await stopClock(page);
  await context.setOffline(true);
  network.cut();
  await page.evaluate(() => e2e.until((_, { state }) => state === "waiting"));
  await publish(server, "numbers", 11, 20);
  await context.setOffline(false);
  expectAll(await until(page, 20), 20);
});

test("a draining server announces the end, and the client reconnects", async ({ page, server }) => {
  await publish(server, "numbers", 1, 10);
  await open(page);
  await subscribe(page, "numbers");
  await until(page, 10);
  await server.stop();
  const { statuses } = await page.evaluate(() => e2e.until((_, { state }) => state === "waiting"));
  expect(statuses.at(-1)?.reason).toBe("draining");
  await server.restart();
  await publish(server, "numbers", 1, 5);
  const book = await page.evaluate(() => e2e.until(({ last }) => last === 5));
  expect(book).toMatchObject({ count: 15, faults: [], gaps: [{ reason: "epoch" }] });
});
