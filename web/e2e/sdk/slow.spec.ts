/** A page that does not keep up: the data it holds is limited, and missed events are reported. */

import { expect, more, open, over, subscribe, test } from "../harness/test.js";
import { TRANSPORTS } from "./transports.js";

test.use({ args: ["--source", "rows=constant,batch=200,interval=1ms", "--topic", "**,history-bytes=1MiB"] });

/** More data than all buffers hold for a page that does not read. */
const AWAY = 800_000;

const UNHELD: readonly string[] = ["sse", "forever-frame"];

for (const name of TRANSPORTS) {
  test(`${name}: a busy page misses events, gets their number, and catches up`, async ({ page, server }) => {
    await open(page, { transports: [name] });
    await subscribe(page, "rows");
    await over(page, name);
    await more(page, 2000);
    await page.evaluate(() => e2e.rest());
    const from = await head(server.origin);
    await expect.poll(() => head(server.origin)).toBeGreaterThan(from + AWAY);
    if (UNHELD.includes(name)) {
      // These transports have no backpressure: the session disconnects, and reconnects when there is room.
      await page.evaluate(() => e2e.until((_, { reason }) => reason === "the page does not keep up"));
    }
    await page.evaluate(() => e2e.goOn());
    const now = await head(server.origin);
    const { count, first, last, gaps, faults } = await page.evaluate(
      (now) => e2e.until((book) => (book.last ?? 0) >= now),
      now,
    );
    expect(faults).toEqual([]);
    const missed = gaps.reduce((sum, gap) => sum + (gap.missed ?? NaN), 0);
    expect(missed).toBeGreaterThan(0);
    expect(count + missed).toBe((last ?? 0) - (first ?? 0) + 1);
    expect((await more(page, 2000)).faults).toEqual([]);
  });
}

async function head(origin: string): Promise<number> {
  const { topics } = (await (await fetch(`${origin}/v1/topics`)).json()) as { topics: { position: string }[] };
  return Number(topics[0]?.position.split(".")[1]);
}
