/** The live page under load: it keeps up, or says what it leaves out; and stays usable. */

import { askedColumns, CARS, expectWhole, figure, heads, later, newest, readMs } from "../harness/live.js";
import { expect, test } from "../harness/test.js";

const EVENTS_PER_S = 20_000;
/** The page changes to columns from 50,000 on. */
const MANY_PER_S = 100_000;

function cars(perS: number): string[] {
  return ["--source", `rows=cars,cars=${perS / 1000},interval=1ms`];
}

test.use({ args: cars(EVENTS_PER_S) });

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

test.describe("where much comes", () => {
  // A page that the machine keeps waiting still finds everything in a history that is this long.
  test.use({ args: [...cars(MANY_PER_S), "--history-events", "10000000", "--history-bytes", "512MiB"] });

  test("it changes to columns by itself, where it was, and goes on to draw", async ({ page, network }) => {
    await page.goto("/?topic=rows&view=table");
    await later(page, 0);
    await expect(figure(page, "transport")).toHaveText("arrow");
    await later(page, (await newest(page)) + MANY_PER_S);
    expect(askedColumns(network)).toEqual([expect.stringMatching(/^[0-9a-f]+\.\d+$/)]);
    expect(await heads(page)).toEqual(CARS);
    await expectWhole(page);
  });
});
