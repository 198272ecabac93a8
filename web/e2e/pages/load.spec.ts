/** The live page under load: it keeps up, or says what it leaves out; and stays usable. */

import { figure, later, newest, readMs } from "../harness/live.js";
import { expect, test } from "../harness/test.js";

const EVENTS_PER_S = 20_000;

test.use({ args: ["--source", `rows=cars,cars=${EVENTS_PER_S / 1000},interval=1ms`] });

// On a machine that others use, nobody keeps up.
test.describe.configure({ retries: 4 });

test(`${EVENTS_PER_S} events/s`, async ({ page, server }) => {
  await page.goto("/?topic=rows");
  const ages: number[] = [];
  const lags: number[] = [];
  let seen = await later(page, 0);
  for (let look = 0; look < 5; look++) {
    seen = await later(page, seen + EVENTS_PER_S);
    const { topics } = (await (await fetch(`${server.origin}/v1/topics`)).json()) as { topics: { position: string }[] };
    lags.push(Number(topics[0]?.position.split(".")[1]) - (await newest(page)));
    ages.push(readMs(await figure(page, "age").textContent()));
  }
  // However long it goes on, it is not further behind.
  expect(lags.at(-1)).toBeLessThan((lags[0] ?? 0) + 2 * EVENTS_PER_S);
  expect(ages.at(-1)).toBeLessThan((ages[0] ?? 0) + 2000);
  // No more is held than may be, however much has come.
  await expect(page.getByText(/^100,000 rows held here/)).toBeVisible();
  // And it does what it is told.
  await page.getByRole("radio", { name: "chart" }).check();
  await expect(page.getByRole("img", { name: /^Chart of/ })).toBeVisible();
});
