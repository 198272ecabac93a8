/** A server without a broker loses the newest version when it restarts. The pages report that. */

import type { Page } from "@playwright/test";
import { list, MATCH_FEED, match, post } from "../harness/match.js";
import { BROKEN_NETWORK, expect, test } from "../harness/test.js";
import { expectAccessible } from "./accessible.js";

test.use({ args: [...MATCH_FEED], expected: BROKEN_NETWORK });

const TOPIC = "matchesfeed/8/matchcentre";

const notice = (page: Page) => page.getByRole("status").filter({ hasText: "Newest version unknown since" });

test("the match centre: the last version stays, with a notice, until a new one arrives", async ({ page, server }) => {
  const game = match("8");
  await post(server, TOPIC, game);
  await page.goto("/matches?match=8");
  await expect(page.locator(".clock")).toHaveText("12:05");
  await expect(notice(page)).toHaveCount(0);
  await server.kill();
  await server.restart();
  await expect(notice(page)).toBeVisible();
  await expect(page.locator(".clock")).toHaveText("12:05");
  await expect(page.locator(".foot")).toContainText("Newest version unknown; connected over");
  await page.screenshot({ path: test.info().outputPath("match.png"), fullPage: true });
  await expectAccessible(page);
  game.clock.second = 7;
  await post(server, TOPIC, game);
  await expect(page.locator(".clock")).toHaveText("12:07");
  await expect(notice(page)).toHaveCount(0);
  await expect(page.locator(".foot")).toContainText("Live");
});

test("the list of matches shows the notice, too", async ({ page, server }) => {
  await post(server, "matchesfeed/all", list(match("8")));
  await page.goto("/matches");
  await expect(page.locator(".card")).toHaveCount(1);
  await server.kill();
  await server.restart();
  await expect(notice(page)).toBeVisible();
  await expect(page.locator(".card")).toHaveCount(1);
});

test("the live page: the document stays, with a notice, until the next version arrives", async ({ page, server }) => {
  await post(server, TOPIC, match("8"));
  await page.goto(`/?topic=${TOPIC}`);
  const home = page.locator('[data-pointer="/id"] td');
  await expect(home).toContainText("8");
  await expect(notice(page)).toHaveCount(0);
  await server.kill();
  await server.restart();
  await expect(notice(page)).toContainText("The page shows the last version that it received");
  await expect(home).toContainText("8");
  await page.getByText(/^One gap/).click();
  await expect(page.getByText("the value is unknown: the server")).toBeVisible();
  await page.screenshot({ path: test.info().outputPath("live.png"), fullPage: true });
  await expectAccessible(page);
  await post(server, TOPIC, match("8"));
  await expect(notice(page)).toHaveCount(0);
});
