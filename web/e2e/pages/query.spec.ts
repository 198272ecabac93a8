/** The live page's query form: writing, running, errors, explanations. */

import type { Page } from "@playwright/test";
import { later, state } from "../harness/live.js";
import { BROKEN_NETWORK, expect, test } from "../harness/test.js";
import { expectAccessible } from "./accessible.js";

const CHART =
  "SELECT window_start, max(speed_kmh) as speed_kmh FROM tumble(car_live_data, INTERVAL 1 s) group by window_start";

// The server rejects a wrong query, which browsers log.
test.use({ args: ["--source", "car_live_data=cars,cars=20,interval=50ms"], expected: /400 \(Bad Request\)/ });

const field = (page: Page) => page.getByRole("textbox", { name: "Query" });
const chart = (page: Page) => page.getByRole("img", { name: "Chart of speed_kmh, the last 1 min" });

/** Returns the time of the chart's newest point at each of `count` changes, s. */
function points(page: Page, count: number): Promise<number[]> {
  return page.locator(".chart .when").evaluate(
    (when, count) =>
      new Promise((done) => {
        const at: number[] = [];
        const watch = new MutationObserver(() => {
          const [h = 0, m = 0, s = 0] = (when.textContent ?? "").split(":").map(Number);
          at.push(h * 3600 + m * 60 + s);
          if (at.length < count) return;
          watch.disconnect();
          done(at);
        });
        watch.observe(when, { subtree: true, characterData: true, childList: true });
      }),
    count,
  );
}

test("a typed query has a chart, with one point per second", async ({ page }) => {
  await page.goto("/live");
  await page.getByRole("button", { name: "Query" }).click();
  await expect(field(page)).toBeFocused();
  await page.keyboard.type(CHART);
  await page.keyboard.press("Control+Enter");
  await expect(chart(page)).toBeVisible();
  await expect(page.getByRole("radio", { name: "chart" })).toBeChecked();
  await expect(page.getByRole("heading", { level: 1 })).toHaveText(`Live data of ${CHART}`);
  await expect(page).toHaveTitle(`${CHART} · Live · Thalweg`);
  const drawn = await points(page, 4);
  for (const [at, s] of drawn.entries()) if (at) expect(s).toBeGreaterThan(drawn[at - 1] ?? 0);
  await page.getByRole("radio", { name: "table" }).check();
  await expect(page.getByRole("columnheader")).toHaveText(["offset", "window_start", "speed_kmh"]);
  await later(page, 0);
  await expect.poll(() => page.locator("tbody tr").count()).toBeGreaterThan(4);
  await page.getByRole("button", { name: "Pause" }).click();
  const starts = await page.locator("tbody td:nth-child(2)").allInnerTexts();
  const seconds = starts.map((start) => Date.parse(start) / 1000);
  expect(seconds).toEqual(seconds.map((_, at) => (seconds[0] ?? 0) + at));
  // The query is in the address.
  await page.reload();
  await expect(field(page)).toHaveValue(CHART);
  await expect(page.getByRole("radio", { name: "table" })).toBeChecked();
  await later(page, 0);
});

test("an error marks the word, and the previous query continues", async ({ page }) => {
  await page.goto(`/?query=${encodeURIComponent(CHART)}`);
  await expect(chart(page)).toBeVisible();
  await field(page).fill(CHART.replace("max(speed_kmh)", "\nmax(sped_kmh)"));
  await page.getByRole("button", { name: "Run" }).click();
  await expect(page.locator("mark")).toHaveText("sped_kmh");
  await expect(page.locator("pre", { has: page.locator("mark") })).toHaveText(/^max\(sped_kmh\) as/);
  await expect(field(page)).toHaveAttribute("aria-invalid", "true");
  await expect(field(page)).toHaveAccessibleDescription(
    /^Line 2, column 5: there is no column sped_kmh: there are in_use/,
  );
  await points(page, 1);
  await field(page).fill(CHART);
  await page.getByRole("button", { name: "Explain" }).click();
  await expect(page.getByLabel("Query plan")).toContainText("windows   1s each, by time:time");
  await expect(page.locator("mark")).toHaveCount(0);
  await expect(field(page)).toHaveAttribute("aria-invalid", "false");
});

test("each example runs", async ({ page }) => {
  await page.goto("/?topic=car_live_data&view=table");
  await later(page, 100);
  const named = () => page.getByRole("columnheader").allInnerTexts();
  // Columns have numbers as names until the page has their names.
  const first = async () => (await named()).slice(0, 5);
  await expect.poll(first).toEqual(["offset", "in_use", "longitude", "latitude", "speed_kmh"]);
  const names = await named();
  await page.getByRole("button", { name: "Query" }).click();
  const pick = (label: string) => page.getByLabel("Examples").selectOption({ label });
  await pick("every row");
  await expect(page).toHaveURL(/\?query=select\+\*\+from\+car_live_data$/);
  await expect(page.getByRole("columnheader")).toHaveText(names);
  await later(page, 100);
  await pick("the highest speed of each second");
  await expect(chart(page)).toBeVisible();
  await pick("fast cars, each with its mean speed");
  await expect(page.getByRole("columnheader")).toHaveText(["offset", "window_start", "car", "speed_kmh"]);
  await later(page, 5);
  await expect(page.getByLabel("Topic").locator(":checked")).toHaveText("this query");
  await page.getByLabel("Topic").selectOption({ label: "car_live_data" });
  await expect(page).toHaveURL(/\?topic=car_live_data$/);
  await later(page, 100);
});

test("a typed query without windows has a row for each group, which changes in place", async ({ page }) => {
  await page.goto("/live");
  await page.getByRole("button", { name: "Query" }).click();
  await page.keyboard.type("SELECT car, count(*) AS positions FROM car_live_data GROUP BY car");
  await page.keyboard.press("Control+Enter");
  await page.getByRole("radio", { name: "table" }).check();
  await expect(page.getByRole("columnheader")).toHaveText(["key", "car", "positions"]);
  const rows = page.locator("tbody tr");
  await expect(page.getByText("20 keys in memory.")).toBeVisible();
  const keys = await rows.locator("th").allInnerTexts();
  const positions = async () => (await rows.locator("td:last-child").allInnerTexts()).map(Number);
  const before = await positions();
  // Each car has a new position every second.
  await expect.poll(async () => (await positions()).every((count, at) => count > (before[at] ?? 0))).toBe(true);
  expect(await rows.locator("th").allInnerTexts()).toEqual(keys);
});

test("the form is accessible, and fits", async ({ page }) => {
  test.slow();
  await page.goto(`/?query=${encodeURIComponent(CHART)}`);
  await expect(chart(page)).toBeVisible();
  await page.getByRole("button", { name: "Explain" }).click();
  await expect(page.getByLabel("Query plan")).toBeVisible();
  await expectAccessible(page);
  await field(page).fill(`${CHART} LIMIT 1`);
  await page.getByRole("button", { name: "Run" }).click();
  await expect(page.locator("mark")).toHaveText("LIMIT");
  await expectAccessible(page);
  await page.setViewportSize({ width: 360, height: 740 });
  // The chart is resized a moment later.
  await expect.poll(() => page.evaluate(() => document.documentElement.scrollWidth)).toBe(360);
  // A hidden form is not in the tab order.
  await page.getByRole("button", { name: "Query" }).click();
  await expect(field(page)).toBeHidden();
  await expect(chart(page)).toBeVisible();
});

test.describe("of a restarted server", () => {
  test.use({ expected: BROKEN_NETWORK });

  test("a query continues", async ({ page, server }) => {
    await page.goto(`/?query=${encodeURIComponent(CHART)}`);
    await points(page, 2);
    await server.kill();
    await expect(state(page)).toContainText("Reconnecting");
    await server.restart();
    await points(page, 2);
    await expect(state(page)).toHaveText("Live");
  });

  test("a query continues as columns, too", async ({ page, server }) => {
    await page.goto(`/?query=${encodeURIComponent(CHART)}`);
    await page.getByLabel("Transport").selectOption({ label: "arrow" });
    await points(page, 2);
    await server.kill();
    await expect(state(page)).toContainText("Reconnecting");
    await server.restart();
    await points(page, 2);
    await expect(state(page)).toHaveText("Live");
  });
});

test.describe("of a server with room for one query", () => {
  test.use({ args: ["--source", "car_live_data=cars,interval=50ms", "--set", "limits.queries=1"], expected: /429/ });

  test("a second query is rejected, and the first one continues", async ({ page }) => {
    await page.goto(`/?query=${encodeURIComponent(CHART)}`);
    await expect(chart(page)).toBeVisible();
    await page.getByLabel("Examples").selectOption({ label: "every row" });
    await expect(page.getByRole("alert")).toHaveText(
      /^The server has reached its limit of ad hoc queries \(1\): use the text of a query that already runs, or try again/,
    );
    await expect(page.locator("mark")).toHaveCount(0);
    await points(page, 1);
  });
});

test.describe("of a server without the demo", () => {
  test.use({ args: [] });

  test("an example for the current topic is offered; an unknown topic is an error", async ({ page, server }) => {
    const body = '{"speed":39}\n{"speed":40}';
    const headers = { "Content-Type": "application/x-ndjson" };
    expect((await fetch(`${server.origin}/v1/topics/trains`, { method: "POST", headers, body })).status).toBe(200);
    await page.goto("/?query=SELECT+*+FROM+cars");
    await expect(page.getByRole("alert")).toHaveText(/^cars has no events yet/);
    await expect(page.getByRole("heading", { level: 1 })).toHaveText("Live data of trains");
    await page.getByLabel("Examples").selectOption({ label: "every event of trains" });
    await expect(page.getByRole("columnheader")).toHaveText(["offset", "speed"]);
    await expect(page.getByRole("cell", { name: "40" })).toBeVisible();
  });
});
