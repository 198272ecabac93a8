/** Tabs of an origin that share one connection, and the death of the tab that has it. */

import type { BrowserContext, Page, Route } from "@playwright/test";
import { publish, type Server } from "../harness/server.js";
import { show } from "../harness/shown.js";
import { BROKEN_NETWORK, expect, expectAll, open, subscribe, test, until } from "../harness/test.js";

test.use({ expected: BROKEN_NETWORK });

const TABS = 5;

async function openTabs(context: BrowserContext): Promise<Page[]> {
  return Promise.all(
    Array.from({ length: TABS }, async () => {
      const page = await context.newPage();
      await open(page, { isShared: true });
      return page;
    }),
  );
}

/** The tab whose Worker has the connection. */
const leader = (pages: readonly Page[]): Page | undefined => pages.find((page) => page.workers().length > 0);

/** Returns the number of the server's subscriptions to a topic. */
async function subscribers(server: Server, topic: string): Promise<number | undefined> {
  const response = await fetch(`${server.origin}/v1/topics`);
  const { topics } = (await response.json()) as { topics: { topic: string; subscribers: number }[] };
  return topics.find((its) => its.topic === topic)?.subscribers;
}

test("five tabs have one socket, and lose and repeat nothing when the leader is closed", async ({
  context,
  server,
  network,
}) => {
  const pages = await openTabs(context);
  let last = 0;
  const more = async (): Promise<void> => {
    await publish(server, "numbers", last + 1, last + 10);
    last += 10;
  };
  await more();
  for (const page of pages) await subscribe(page, "numbers");
  await Promise.all(pages.map((page) => until(page, 10)));
  await expect.poll(() => subscribers(server, "numbers")).toBe(1);
  while (pages.length > 1) {
    let isPublishing = true;
    const publishing = (async () => {
      while (isPublishing) await more();
    })();
    const dying = leader(pages) as Page;
    expect(pages.filter((page) => page.workers().length)).toEqual([dying]);
    pages.splice(pages.indexOf(dying), 1);
    await dying.close();
    await expect.poll(() => leader(pages)).toBeTruthy();
    const goal = last + 100;
    await Promise.all(pages.map((page) => until(page, goal)));
    isPublishing = false;
    await publishing;
    for (const page of pages) expectAll(await until(page, last), last);
    await more();
    for (const page of pages) expectAll(await until(page, last), last);
    await expect.poll(() => subscribers(server, "numbers")).toBe(1);
  }
  // One for each leader, and at most one for tabs that were at another position.
  expect(network.asked.filter(({ kind }) => kind === "websocket").length).toBeLessThanOrEqual(2 * TABS);
});

test("each tab has its own position, and publishes", async ({ context, server, network }) => {
  const [first, second] = (await openTabs(context)) as [Page, Page];
  await publish(server, "numbers", 1, 1000);
  await subscribe(first, "numbers");
  await until(first, 1000);
  // At the beginning, while the other tab is at the end.
  await subscribe(second, "numbers");
  expectAll(await until(second, 1000), 1000);
  const answer = await second.evaluate(() => e2e.session.publish("numbers", 1001));
  expect(answer).toMatchObject({ first: 1001, count: 1 });
  for (const page of [first, second]) expectAll(await until(page, 1001), 1001);
  // The second connection lasted until both were at the same position.
  await expect.poll(() => subscribers(server, "numbers")).toBe(1);
  expect(network.asked.filter(({ kind }) => kind === "websocket")).toHaveLength(2);
});

/** Closes the leader. `meanwhile` runs while no tab has a connection. Returns the other tabs. */
async function closeLeader(pages: readonly Page[], meanwhile: () => Promise<unknown>): Promise<Page[]> {
  const dying = leader(pages) as Page;
  const others = pages.filter((page) => page !== dying);
  // The next leader's Worker does not load before that.
  const begun = new Promise<Route>((resolve) => {
    for (const page of others) void page.route("**/worker-host.js", resolve);
  });
  await dying.close();
  const route = await begun;
  await meanwhile();
  await route.continue();
  // A request that was sent to the closed tab fails.
  const answer = (page: Page) => page.evaluate(() => e2e.session.request(1).catch(() => null));
  for (const page of others) await expect.poll(() => answer(page)).toBe(1);
  return others;
}

test("a tab that has had no event loses none while there is no leader", async ({ context, server }) => {
  const pages = await openTabs(context);
  for (const page of pages) {
    await page.evaluate(() => e2e.subscribe("numbers", { from: "latest" }));
    await page.waitForFunction(() => e2e.subscription.position);
  }
  const others = await closeLeader(pages, () => publish(server, "numbers", 1, 20));
  for (const page of others) expectAll(await until(page, 20), 20);
});

test("a batch that a tab processes when the leader is closed counts once", async ({ context, server }) => {
  const pages = await openTabs(context);
  for (const page of pages) await subscribe(page, "numbers");
  await publish(server, "numbers", 1, 1);
  for (const page of pages) {
    await until(page, 1);
    await page.evaluate(() => e2e.rest());
  }
  await publish(server, "numbers", 2, 2);
  for (const page of pages) await until(page, 2);
  const others = await closeLeader(pages, () => publish(server, "numbers", 3, 20));
  for (const page of others) {
    await page.evaluate(() => e2e.goOn?.());
    expectAll(await until(page, 20), 20);
  }
});

test.describe("with keyed and value topics", () => {
  test.use({ args: ["--topic", "cars,kind=keyed", "--topic", "match,kind=value"] });

  const post = (server: Server, path: string, event: unknown): Promise<Response> =>
    fetch(`${server.origin}/v1/topics/${path}`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(event),
    });

  test("maps lose the keys that were removed, and values are the newest", async ({ context, server }) => {
    await post(server, "cars?key=a", 1);
    await post(server, "cars?key=b", 2);
    await post(server, "match", { score: 0 });
    const pages = await openTabs(context);
    const state = (page: Page) => page.evaluate(() => globalThis.seen);
    for (const page of pages) {
      await page.evaluate(() => {
        globalThis.seen = {};
        const cars = e2e.session.map("cars", {}, () => void (globalThis.seen["cars"] = [...cars.map]));
        e2e.session.subscribe("match", {}, ({ events }) => void (globalThis.seen["match"] = events));
      });
      const all = {
        cars: [
          ["a", 1],
          ["b", 2],
        ],
        match: [{ score: 0 }],
      };
      await expect.poll(() => state(page)).toEqual(all);
    }
    const others = await closeLeader(pages, async () => {
      await post(server, "cars?key=a", null);
      await post(server, "cars?key=c", 3);
      await post(server, "match", { score: 1 });
    });
    for (const page of others) {
      const all = {
        cars: [
          ["b", 2],
          ["c", 3],
        ],
        match: [{ score: 1 }],
      };
      await expect.poll(() => state(page)).toEqual(all);
    }
    expect(await subscribers(server, "cars")).toBe(1);
  });
});

test.describe("of a server that requires a token", () => {
  test.use({ args: ["--token", "subscriber=read-me,subscribe=**,publish=**"] });

  test("the new leader gets a token from a tab", async ({ context }) => {
    const opening = { isShared: true, token: "read-me" };
    const pages = [await context.newPage(), await context.newPage()];
    for (const page of pages) {
      await open(page, opening);
      await page.evaluate(() => e2e.subscribe("numbers"));
      await page.waitForFunction(() => e2e.subscription.position);
    }
    const [other] = (await closeLeader(pages, async () => {})) as [Page];
    await other.evaluate(() => e2e.session.publish("numbers", 1));
    expectAll(await until(other, 1), 1);
  });

  test("all tabs learn that the token is wrong, and a new session works", async ({ context }) => {
    const pages = [await context.newPage(), await context.newPage()];
    for (const page of pages) {
      await open(page, { isShared: true, token: "wrong" });
      await page.evaluate(() =>
        e2e.session.subscribe("numbers", { onError: ({ code }) => void (document.title = code) }, () => {}),
      );
    }
    for (const page of pages) await expect(page).toHaveTitle("unauthorized");
    for (const page of pages) {
      await open(page, { isShared: true, token: "read-me" });
      await page.evaluate(() => e2e.subscribe("numbers"));
      await page.waitForFunction(() => e2e.subscription.position);
    }
  });
});

test("the rate is that of a visible tab, and lower if all are hidden", async ({ context, network }) => {
  const [one, two] = [await context.newPage(), await context.newPage()];
  for (const page of [one, two]) {
    await page.clock.install();
    await open(page, { isShared: true, transports: ["http-streaming"], hiddenInterval: 500 });
    await subscribe(page, "numbers");
    await page.evaluate(() => e2e.until((_, { state }) => state === "open"));
  }
  const intervals = () =>
    network.asked.filter(({ kind }) => kind === "http-streaming").map(({ url }) => url.searchParams.get("interval"));
  await show(one, false);
  await one.clock.fastForward(6000);
  await show(two, false);
  await two.clock.fastForward(6000);
  await expect.poll(() => intervals().at(-1)).toBe("500ms");
  await show(one, true);
  await expect.poll(() => intervals().at(-1)).toBe(null);
  expect(intervals().filter(Boolean)).toHaveLength(1);
});

declare global {
  var seen: Record<string, unknown>;
}
