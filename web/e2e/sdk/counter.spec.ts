/** A counter that several pages change at once, by compare and swap. */

import type { Page } from "@playwright/test";
import type { KeyedSubscription, ThalwegError } from "thalweg";
import { expect, open, test } from "../harness/test.js";

test.use({ args: ["--topic", "counters,kind=keyed"] });

/** Loops of a page, and how often each increments the counter. */
const LOOPS = 5;
const TIMES = 10;

interface Shown {
  likes?: KeyedSubscription<number>;
}

/** Shows the counter in the page. */
async function show(page: Page): Promise<void> {
  await open(page);
  await page.evaluate(() => {
    (globalThis as Shown).likes = e2e.session.map<number>("counters", {}, () => {});
  });
}

const shown = (page: Page): Promise<number | undefined> =>
  page.evaluate(() => (globalThis as Shown).likes?.map.get("likes"));

/** Increments the counter from several loops at once. Returns the number of refused attempts. */
function increment(page: Page): Promise<number> {
  return page.evaluate(
    async ([loops, times]) => {
      let refused = 0;
      const increment = async (): Promise<void> => {
        for (let newest: ThalwegError["newest"] = null; ; ) {
          try {
            const target = { topic: "counters", key: "likes", if: newest?.position ?? "new" };
            await e2e.session.publish(target, ((newest?.event as number | undefined) ?? 0) + 1);
            return;
          } catch (error) {
            const { code, newest: found } = error as ThalwegError;
            if (code !== "condition_failed") throw error;
            newest = found;
            refused += 1;
          }
        }
      };
      const loop = async (): Promise<void> => {
        for (let time = 0; time < times; time++) await increment();
      };
      await Promise.all(Array.from({ length: loops }, loop));
      return refused;
    },
    [LOOPS, TIMES] as const,
  );
}

test("two pages count to 100 together, and lose no increment", async ({ page, context, server }) => {
  const other = await context.newPage();
  const pages = [page, other];
  for (const each of pages) await show(each);
  const refused = await Promise.all(pages.map(increment));
  // Only one attempt at a time finds the counter as it was.
  for (const count of refused) expect(count).toBeGreaterThan(0);
  for (const each of pages) await expect.poll(() => shown(each)).toBe(2 * LOOPS * TIMES);
  const state = await (await fetch(`${server.origin}/v1/topics/counters?limit=10`)).json();
  expect(state).toMatchObject({ keys: ["likes"], events: [100], position: expect.stringMatching(/\.100$/) });
});
