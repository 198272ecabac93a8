/** The live page of a server that lists its topics only with a token, but allows all clients to subscribe. */

import { figure, later, state } from "../harness/live.js";
import { SECRET, signed } from "../harness/signed.js";
import { test as base, expect } from "../harness/test.js";

const TOKEN = "look-at-me-1234567890";

const test = base.extend({
  args: async ({}, use) =>
    use(["--demo", "--token", `inspector=${TOKEN},inspect=**`, "--token", "everybody,subscribe=**,publish=**"]),
});

// The list is rejected, which browsers log.
test.use({ expected: /401 \(Unauthorized\)/ });

test("opens a topic by its typed name, or from the address", async ({ page }) => {
  await page.goto("/live");
  await expect(page.getByRole("heading", { name: "Open a topic" })).toBeVisible();
  await expect(page.getByText("The list of topics needs a token")).toBeVisible();
  await page.getByLabel("Topic").fill("car_live_data");
  await page.getByRole("button", { name: "Open" }).click();
  await later(page, 100);
  await expect(state(page)).toHaveText("Live");
  await expect(page).toHaveURL(/\?topic=car_live_data/);
  await page.reload();
  await later(page, 100);
  await expect(figure(page, "transport")).toHaveText("websocket");
});

test("shows the list with the token", async ({ page }) => {
  await page.goto("/live");
  await page.getByRole("button", { name: "Enter a token" }).click();
  await page.getByLabel("Token").fill(TOKEN);
  await page.getByRole("button", { name: "Use this token" }).click();
  await later(page, 100);
  await expect(page.getByLabel("Topic").locator("option", { hasText: "ticker" })).toHaveCount(1);
});

test.describe("with a token without the right to list topics", () => {
  test.use({
    args: async ({}, use) => use(["--demo", "--jwt-secret", SECRET]),
    expected: /40[13] \((Unauthorized|Forbidden)\)/,
  });

  test("accepts such a token, and opens a topic by its typed name", async ({ page }) => {
    await page.goto("/live");
    await expect(page.getByText("a user’s token")).toBeVisible();
    await page.getByLabel("Token").fill(signed({ subscribe: ["**"] }));
    await page.getByRole("button", { name: "Use this token" }).click();
    await expect(page.getByRole("heading", { name: "Open a topic" })).toBeVisible();
    await expect(page.getByText("inspect")).toBeVisible();
    await expect(page.getByText("The server rejected")).toHaveCount(0);
    await page.getByLabel("Topic").fill("car_live_data");
    await page.getByRole("button", { name: "Open" }).click();
    await later(page, 100);
    await expect(state(page)).toHaveText("Live");
    // From here the reader can open another topic by name.
    await page.getByLabel("Find by name").fill("ticker");
    await page.getByLabel("Find by name").press("Enter");
    await expect(page.getByRole("heading", { level: 1 })).toHaveText("Live data of ticker");
  });
});
