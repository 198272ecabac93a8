/** The live page of a server with more topics than the menu shows. */

import type { Page } from "@playwright/test";
import { later, state } from "../harness/live.js";
import type { Server } from "../harness/server.js";
import { expect, test } from "../harness/test.js";
import { expectAccessible } from "./accessible.js";

/** Number of topics, whose names precede those of the demo in the alphabet. */
const COUNT = 2300;
const name = (number: number): string => `a/${String(number).padStart(5, "0")}`;

test.use({ args: ["--demo"] });

async function fill(server: Server): Promise<void> {
  const post = async (number: number): Promise<void> => {
    const response = await fetch(`${server.origin}/v1/topics/${name(number)}`, { method: "POST", body: "1" });
    expect(response.status).toBe(200);
  };
  const numbers = Array.from({ length: COUNT }, (_, number) => number);
  for (let at = 0; at < COUNT; at += 50) await Promise.all(numbers.slice(at, at + 50).map(post));
}

const menu = (page: Page) => page.getByRole("combobox", { name: "Topic", exact: true });
const options = (page: Page) => menu(page).locator("option");
const total = (page: Page) => page.locator(".total");

test("the page opens with the demo's topic, shows the total, and finds each topic", async ({ page, server }) => {
  await fill(server);
  await page.goto("/live");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Live data of car_live_data");
  await expect(total(page)).toContainText(/^1,000 of 2,3\d\d topics/);
  await expect(options(page)).toHaveCount(1001);
  await page.screenshot({ path: test.info().outputPath("many.png") });
  await page.getByRole("button", { name: "Show more" }).click();
  await expect(total(page)).toContainText(/^2,000 of 2,3\d\d topics/);
  await page.getByRole("button", { name: "Show more" }).click();
  await expect(options(page).filter({ hasText: "ticker" })).toHaveCount(1);
  await expectAccessible(page);

  const find = page.getByLabel("Find by name");
  await find.fill("a/0229");
  await expect(total(page)).toHaveText("10 topics that begin with a/0229");
  await menu(page).selectOption({ label: "a/02291" });
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Live data of a/02291");
  await find.fill("car_live_data");
  await find.press("Enter");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Live data of car_live_data");
  await later(page, 100);
  await expect(state(page)).toHaveText("Live");
});

test("a long name does not stretch the menu", async ({ page, server }) => {
  const long = `long/${"name-".repeat(38)}`;
  await fetch(`${server.origin}/v1/topics/${long}`, { method: "POST", body: "1" });
  for (const width of [1280, 375]) {
    await page.setViewportSize({ width, height: 800 });
    await page.goto("/?topic=car_live_data");
    await expect(options(page).filter({ hasText: long })).toHaveCount(1);
    const box = await menu(page).boundingBox();
    expect(box?.width).toBeLessThan(400);
    const isWider = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
    expect(isWider).toBe(false);
  }
});
