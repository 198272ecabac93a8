/** Live, of a server that lists its topics to those with a token alone, and lets everybody subscribe. */

import { figure, later, state } from "../harness/live.js";
import { test as base, expect } from "../harness/test.js";

const TOKEN = "look-at-me-1234567890";

const test = base.extend({
  args: async ({}, use) => use(["--demo", "--inspect-token", TOKEN]),
});

// The list is refused, which browsers tell.
test.use({ expected: /401 \(Unauthorized\)/ });

test("a topic is shown that somebody types, or that is in the address", async ({ page }) => {
  await page.goto("/");
  await expect(page.getByRole("heading", { name: "Which topic?" })).toBeVisible();
  await expect(page.getByText("The list of topics needs a token")).toBeVisible();
  await page.getByLabel("Topic").fill("car_live_data");
  await page.getByRole("button", { name: "Show it" }).click();
  await later(page, 100);
  await expect(state(page)).toHaveText("Live");
  await expect(page).toHaveURL(/\?topic=car_live_data/);
  await page.reload();
  await later(page, 100);
  await expect(figure(page, "transport")).toHaveText("websocket");
});

test("with the token the list is there", async ({ page }) => {
  await page.goto("/");
  await page.getByRole("button", { name: "Present a token" }).click();
  await page.getByLabel("Token").fill(TOKEN);
  await page.getByRole("button", { name: "Use it" }).click();
  await later(page, 100);
  await expect(page.getByLabel("Topic").locator("option", { hasText: "ticker" })).toHaveCount(1);
});
