/** The overview of a server. */

import { later, read } from "../harness/live.js";
import { cell, names, tile } from "../harness/overview.js";
import { publish, type Server } from "../harness/server.js";
import { BROKEN_NETWORK, test as base, expect } from "../harness/test.js";
import { expectAccessible } from "./accessible.js";

const test = base.extend({});

async function fill(server: Server, count: number): Promise<void> {
  const post = async (number: number): Promise<void> => {
    const name = `many/${String(number).padStart(5, "0")}`;
    await fetch(`${server.origin}/v1/topics/${name}`, { method: "POST", body: "1" });
  };
  const numbers = Array.from({ length: count }, (_, number) => number);
  for (let at = 0; at < count; at += 50) await Promise.all(numbers.slice(at, at + 50).map(post));
}

test.describe("of the demo", () => {
  test.use({ args: ["--demo"] });

  test("shows figures that move, and links each topic to its page", async ({ page }) => {
    await page.goto("/");
    await expect(page.getByRole("heading", { level: 1 })).toHaveText("Overview");
    await expect(page.locator("[aria-current=page]")).toHaveText("Overview");
    await expect.poll(async () => read(await tile(page, "Events in").value.textContent())).toBeGreaterThan(10);
    await expect(names(page).first()).toHaveText("car_live_data");
    await expect
      .poll(async () => read(await cell(page, "car_live_data", "Events/s").textContent()))
      .toBeGreaterThan(10);
    await expect(cell(page, "car_live_data", "Kind")).toHaveText("log");
    // The line of a trend needs two rates.
    await expect(cell(page, "car_live_data", "Events/s").locator("path.line")).toHaveCount(1);
    const kept = await cell(page, "car_live_data", "Kept").textContent();
    await expect(cell(page, "car_live_data", "Kept")).not.toHaveText(kept ?? "");
    await page.getByRole("link", { name: "car_live_data" }).first().click();
    await later(page, 100);
    await expect(page).toHaveURL(/\/live\?topic=car_live_data/);
  });

  test("counts connections by transport, and the time from publish to send", async ({ page, context }) => {
    const other = await context.newPage();
    await other.goto("/live?topic=car_live_data&view=table");
    await later(other, 100);
    await page.goto("/");
    // One is the demo's own, which waits for questions.
    await expect(tile(page, "Connections").value).toHaveText("2");
    const row = page.getByRole("row", { name: /^WebSocket/ });
    await expect(row.getByRole("cell").first()).toHaveText("1");
    await expect(cell(page, "car_live_data", "Subscribers")).toHaveText("1");
    await expect(tile(page, "Publish to send, p99").value).toHaveText(/ m?s$/);
    await expect(tile(page, "Publish to send, p99").more).toHaveText(/^p50 .* m?s, over 10 s$/);
    await other.close();
    await expect(tile(page, "Connections").value).toHaveText("1");
  });
});

test("searches and sorts on the server", async ({ page, server }) => {
  await fill(server, 300);
  await publish(server, "busy", 1, 500);
  await page.goto("/");
  await expect(page.getByRole("heading", { name: "301 topics" })).toBeVisible();
  await expect(names(page)).toHaveCount(100);
  await expect(page.getByText("The first 100 of 301 topics")).toBeVisible();
  await page.getByRole("button", { name: "Kept" }).click();
  await expect(names(page).first()).toHaveText("busy");
  await expect(page.getByRole("columnheader", { name: "Kept" })).toHaveAttribute("aria-sort", "descending");
  await page.getByLabel("Find topics").fill("MANY/0029");
  await expect(names(page)).toHaveCount(10);
  await page.getByRole("button", { name: "Topic" }).click();
  await expect(names(page).first()).toHaveText("many/00290");
  await page.getByRole("button", { name: "Topic" }).click();
  await expect(names(page).first()).toHaveText("many/00299");
  await page.getByLabel("Find topics").fill("nothing");
  await expect(page.getByText("No topic has “nothing” in its name.")).toBeVisible();
});

test("lists refusals and limits", async ({ page, server }) => {
  await page.goto("/");
  await expect(page.getByRole("row", { name: /^Histories/ })).toContainText("of 1.07 G");
  await expect(page.getByText("None since the start.").first()).toBeVisible();
  await fetch(`${server.origin}/v1/topics/a?limit=wrong`);
  const row = page.getByRole("row", { name: /^bad_parameter/ });
  await expect(row.getByRole("cell")).toHaveText(["1", "1"]);
});

test.describe("of a server that ends", () => {
  test.use({ args: ["--demo"], expected: BROKEN_NETWORK });

  test("says that its figures are old, and continues with the next server", async ({ page, server }) => {
    await page.goto("/");
    await expect(page.getByText("Live.")).toBeVisible();
    // The order is by rates, which need two samples.
    await expect(names(page).first()).toHaveText("car_live_data");
    await server.kill();
    await expect(page.locator(".lost")).toContainText("Not connected");
    await expect(page.getByText("Not live.")).toBeVisible();
    await expect(names(page).first()).toHaveText("car_live_data");
    await page.screenshot({ path: test.info().outputPath("lost.png"), fullPage: true });
    await expectAccessible(page);
    await server.restart();
    await expect(page.locator(".lost")).toHaveCount(0);
    await expect.poll(async () => read(await tile(page, "Events in").value.textContent())).toBeGreaterThan(10);
  });
});

test.describe("of a server with tokens", () => {
  test.use({
    args: [
      "--source",
      "rows=cars",
      "--token",
      "inspector=look-at-me-1234567890,inspect=**",
      "--token",
      "everybody,subscribe=**",
    ],
    // Without the demo, the page of the demo is not offered.
    expected: /401 \(Unauthorized\)|404 \(Not Found\)/,
  });

  test("is the live page without the right, and the overview with it", async ({ page }) => {
    await page.goto("/");
    await expect(page.getByRole("heading", { name: "Open a topic" })).toBeVisible();
    await expect(page.locator("[aria-current=page]")).toHaveText("Live");
    await expect(page.getByRole("link", { name: "Overview" })).toHaveCount(0);
    await page.getByRole("button", { name: "Enter a token" }).click();
    await page.getByLabel("Token").fill("look-at-me-1234567890");
    await page.getByRole("button", { name: "Use this token" }).click();
    await expect(names(page).first()).toHaveText("rows");
  });
});
