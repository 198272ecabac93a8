/** Switching the transport by hand while data flows, without lost or repeated events. */

import { timeOut } from "../harness/clock.js";
import { expect, more, open, over, subscribe, test } from "../harness/test.js";
import { TRANSPORTS } from "./transports.js";

test.use({ args: ["--source", "rows=constant,batch=20,interval=1ms"] });

test("from each transport to each of the others", async ({ page }) => {
  await open(page);
  await subscribe(page, "rows");
  await more(page, 1000);
  const others = TRANSPORTS.flatMap((one) =>
    TRANSPORTS.filter((name) => name !== one).flatMap((other) => [one, other]),
  );
  for (const name of others) {
    await page.evaluate((name) => e2e.use(name), name);
    await over(page, name);
    await more(page, 500);
  }
  expect(await more(page, 1000)).toMatchObject({ faults: [], gaps: [] });
});

test("many switches at once: the last one wins", async ({ page }) => {
  await open(page);
  await subscribe(page, "rows");
  await more(page, 1000);
  await page.evaluate((names) => {
    for (const name of [...names, ...names]) e2e.use(name);
  }, TRANSPORTS);
  await over(page, "long-polling");
  expect(await more(page, 1000)).toMatchObject({ faults: [], gaps: [] });
  await page.evaluate(() => e2e.use(null));
  await over(page, "websocket");
  expect(await more(page, 1000)).toMatchObject({ faults: [], gaps: [] });
});

test("a transport that does not work does not interrupt the one in use", async ({ page, network }) => {
  network.treat(({ kind }) => (kind === "sse" ? { by: "hang" } : { by: "pass" }));
  await page.clock.install();
  await open(page);
  await subscribe(page, "rows");
  await over(page, "websocket");
  await page.evaluate(() => e2e.use("sse"));
  await timeOut(page, network, "sse");
  const book = await more(page, 10_000);
  expect(book).toMatchObject({ faults: [], gaps: [] });
  expect(book.statuses.at(-1)).toMatchObject({ state: "open", transport: "websocket" });
});
