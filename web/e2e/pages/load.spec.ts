/** The live page under load: it keeps up or reports gaps, and stays usable. */

import { askedColumns, CARS, expectWhole, figure, heads, later, newest, readMs } from "../harness/live.js";
import { expect, test } from "../harness/test.js";

const EVENTS_PER_S = 20_000;
/** The page switches to columns from 50,000 on. */
const MANY_PER_S = 100_000;

function cars(perS: number): string[] {
  return ["--source", `rows=cars,cars=${perS / 1000},interval=1ms`];
}

test.use({ args: cars(EVENTS_PER_S) });

// On a loaded machine no page keeps up.
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
  // The lag does not grow.
  expect(lags.at(-1)).toBeLessThan((lags[0] ?? 0) + 2 * EVENTS_PER_S);
  expect(ages.at(-1)).toBeLessThan((ages[0] ?? 0) + 2000);
  // The number of rows is limited.
  await expect(page.getByText(/^100,000 rows in memory/)).toBeVisible();
  // The controls work.
  await page.getByRole("radio", { name: "chart" }).check();
  await expect(page.getByRole("img", { name: /^Chart of/ })).toBeVisible();
});

test.describe("at high volume", () => {
  // The history is long enough for a page that the machine delays.
  test.use({ args: [...cars(MANY_PER_S), "--topic", "**,history-events=10000000,history-bytes=512MiB"] });

  test("a page switches to columns on its own, at its position, and continues to render", async ({ page, network }) => {
    await page.goto("/?topic=rows&view=table");
    await later(page, 0);
    await expect(figure(page, "transport")).toHaveText("arrow");
    await later(page, (await newest(page)) + MANY_PER_S);
    expect(askedColumns(network)).toEqual([expect.stringMatching(/^[0-9a-f]+\.\d+$/)]);
    expect(await heads(page)).toEqual(CARS);
    await expectWhole(page);
  });
});
