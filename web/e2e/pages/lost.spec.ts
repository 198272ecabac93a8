/** A killed server: the page shows one notice with a countdown and a button. */

import type { Page } from "@playwright/test";
import { list, MATCH_FEED, match, post } from "../harness/match.js";
import { BROKEN_NETWORK, expect, test } from "../harness/test.js";
import { expectAccessible } from "./accessible.js";

test.use({ args: [...MATCH_FEED], expected: BROKEN_NETWORK });

const TOPIC = "matchesfeed/8/matchcentre";

const notice = (page: Page) => page.locator(".lost");
const button = (page: Page) => page.getByRole("button", { name: "Reconnect now" });
const colour = (page: Page, name: string) => page.locator(name).evaluate((element) => getComputedStyle(element).color);

async function seconds(page: Page): Promise<number> {
  const [, text = "0"] = /in (\d+) s/.exec((await page.locator(".countdown").textContent()) ?? "") ?? [];
  return Number(text);
}

/** Presses the button. On a slow machine the page may reconnect first. */
async function press(page: Page): Promise<void> {
  await page.evaluate(() => document.querySelector<HTMLButtonElement>(".lost button")?.click());
}

for (const [name, path, clock] of [
  ["one match", "/matches?match=8", ".clock"],
  ["the list of matches", "/matches", ".card .minute"],
] as const) {
  test(`${name}: clocks stop, and the button reconnects at once`, async ({ page, server }) => {
    const game = match("8");
    game.status = "first_half";
    await post(server, TOPIC, game);
    await post(server, "matchesfeed/all", list(game));
    await page.goto(path);
    await expect(page.locator(clock)).toHaveText("12:05");
    await expect(page.locator(".foot")).toContainText("Live");
    await expect(notice(page)).toHaveCount(0);
    const running = await colour(page, clock);

    await server.kill();
    await expect(notice(page)).toHaveCount(1);
    await expect(notice(page)).toContainText("Not connected");
    await expect(page.locator("main")).not.toContainText("cut.");
    await expect(page.locator(".foot")).not.toContainText("Live");
    expect(await colour(page, clock)).not.toBe(running);
    // A longer delay follows each failed attempt, so there is time to press the button.
    await expect.poll(() => seconds(page)).toBeGreaterThan(2);
    await expect(button(page)).toBeEnabled();
    await page.screenshot({ path: test.info().outputPath("lost.png"), fullPage: true });
    await expectAccessible(page);
    // The check includes the dark scheme.
    await page.emulateMedia({ colorScheme: null });

    await server.restart();
    await press(page);
    await post(server, TOPIC, game);
    await post(server, "matchesfeed/all", list(game));
    await expect(notice(page)).toHaveCount(0);
    await expect(page.locator(".foot")).toContainText("Live");
    await expect.poll(() => colour(page, clock)).toBe(running);
  });
}

test("the live page shows the same notice", async ({ page, server }) => {
  await post(server, "news", 1);
  await page.goto("/?topic=news");
  await expect(page.locator(".stats [role=status]")).toHaveText("Live");
  await server.kill();
  await expect(notice(page)).toContainText("Not connected");
  await expect(page.getByText("The server cannot be reached")).toHaveCount(0);
  await expect.poll(() => seconds(page)).toBeGreaterThan(2);
  await page.screenshot({ path: test.info().outputPath("lost.png"), fullPage: true });
  await server.restart();
  await press(page);
  await expect(notice(page)).toHaveCount(0);
  await expect(page.locator(".stats [role=status]")).toHaveText("Live");
});
