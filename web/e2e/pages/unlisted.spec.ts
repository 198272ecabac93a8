/** Live, of a server that lists its topics to those with a token alone, and lets everybody subscribe. */

import { createHmac } from "node:crypto";
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

test.describe("to a user whose token gives no right to see the list", () => {
  const SECRET = "a secret of the tests, and of nobody else";
  const signed = (rights: object): string => {
    const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString("base64url");
    const exp = Math.floor(Date.now() / 1000) + 600;
    const text = `${part({ alg: "HS256" })}.${part({ sub: "alice", exp, thalweg: rights })}`;
    return `${text}.${createHmac("sha256", SECRET).update(text).digest("base64url")}`;
  };

  test.use({
    args: async ({}, use) => use(["--demo", "--jwt-secret", SECRET]),
    expected: /40[13] \((Unauthorized|Forbidden)\)/,
  });

  test("the form for a token names such tokens, and a topic is shown that the user types", async ({ page }) => {
    await page.goto("/");
    await expect(page.getByText("a user’s token")).toBeVisible();
    await page.getByLabel("Token").fill(signed({ subscribe: ["**"] }));
    await page.getByRole("button", { name: "Use it" }).click();
    await expect(page.getByRole("heading", { name: "Which topic?" })).toBeVisible();
    await expect(page.getByText("inspect")).toBeVisible();
    await expect(page.getByText("The server refuses")).toHaveCount(0);
    await page.getByLabel("Topic").fill("car_live_data");
    await page.getByRole("button", { name: "Show it" }).click();
    await later(page, 100);
    await expect(state(page)).toHaveText("Live");
    // From here another topic can be named, too.
    await page.getByLabel("Find by name").fill("ticker");
    await page.getByLabel("Find by name").press("Enter");
    await expect(page.getByRole("heading", { level: 1 })).toHaveText("Live data of ticker");
  });
});
