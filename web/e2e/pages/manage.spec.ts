/** The part of a topic's page that manages it. */

import type { Page } from "@playwright/test";
import { figure } from "../harness/live.js";
import { publish } from "../harness/server.js";
import { expect, test } from "../harness/test.js";
import { expectAccessible } from "./accessible.js";

test.use({ args: ["--topic", "news/*,history-age=90s"] });

async function open(page: Page, topic: string): Promise<void> {
  await page.goto(`/live?topic=${topic}`);
  await page.getByRole("button", { name: "Manage" }).click();
}

const part = (page: Page, title: string) =>
  page.locator(".part").filter({ has: page.getByRole("heading", { name: title }) });

test("publishes an event, which arrives in the table", async ({ page }) => {
  await open(page, "news/a");
  await page.getByLabel("Event, as JSON").fill('{"headline":"it works"}');
  await page.getByRole("button", { name: "Publish" }).click();
  await expect(part(page, "Publish").getByRole("status")).toHaveText(/^Published at [0-9a-f]+\.1\.$/);
  await expect(page.getByRole("cell", { name: "it works" })).toBeVisible();
  await page.getByLabel("Event, as JSON").fill("{headline");
  await page.getByRole("button", { name: "Publish" }).click();
  await expect(part(page, "Publish").getByRole("alert")).toHaveText(/^This is not JSON/);
});

test("shows the settings, and where each comes from", async ({ page }) => {
  await open(page, "news/a");
  await expect(page.getByRole("row", { name: /^history-age/ }).getByRole("cell")).toHaveText([
    "90s",
    "[[topic]] news/*",
  ]);
  await expect(page.getByRole("row", { name: /^batch-bytes/ }).getByRole("cell")).toHaveText(["63KiB", "default"]);
  await expectAccessible(page);
});

test("shows the subscribers, and those that come", async ({ page, server }) => {
  await open(page, "news/a");
  const rows = part(page, "Subscribers").locator("tbody tr");
  await expect(rows).toHaveCount(1);
  await expect(rows.getByRole("cell")).toHaveText(["websocket", "0", "has room"]);
  const leave = new AbortController();
  await fetch(`${server.origin}/v1/topics/news/a`, {
    headers: { Accept: "text/event-stream" },
    signal: leave.signal,
  });
  await expect(part(page, "Subscribers").getByText("2 subscribers at this server.")).toBeVisible();
  await expect(rows.getByRole("cell", { name: "sse" })).toHaveCount(1);
  leave.abort();
  await expect(rows).toHaveCount(1);
});

test("reads the newest 50 events, the newest first", async ({ page, server }) => {
  await publish(server, "news/a", 1, 80);
  await open(page, "news/a");
  await page.getByRole("button", { name: "Read" }).click();
  const numbers = Array.from({ length: 50 }, (_, index) => `${80 - index}`);
  await expect(page.getByLabel("Newest events")).toHaveText(numbers.join("\n"));
});

test("offers code and a link that work", async ({ page, server }) => {
  await publish(server, "news/a", 1, 3);
  await open(page, "news/a");
  const code = page.getByLabel(/^Code for/);
  await expect(code).toContainText("curl -N");
  await page.getByRole("radio", { name: "Python" }).check();
  await expect(code).toContainText("urllib.request");
  await page.getByRole("radio", { name: "SDK" }).check();
  const source = (await code.textContent()) ?? "";
  const [, module] = /from "(.*)"/.exec(source) ?? [];
  expect((await page.request.get(module ?? "")).status()).toBe(200);
  await page.locator(".link a").click();
  await expect(figure(page, "transport")).toHaveText("websocket");
});

test("deletes a topic after a confirmation", async ({ page, server }) => {
  await publish(server, "news/a", 1, 3);
  await open(page, "news/a");
  await page.getByRole("button", { name: "Delete this topic" }).click();
  await page.getByRole("button", { name: "Keep it" }).click();
  await page.getByRole("button", { name: "Delete this topic" }).click();
  await page.getByRole("button", { name: "Delete news/a" }).click();
  await expect(part(page, "Delete").getByRole("status")).toHaveText("Deleted news/a.");
  const topics = async () => (await (await fetch(`${server.origin}/v1/topics`)).json()) as object;
  await expect.poll(topics).toEqual({ topics: [] });
});

test.describe("without the right to publish", () => {
  test.use({
    args: ["--token", "owner=owner-1234567890123,publish=**,inspect=**", "--token", "everybody,subscribe=**"],
    expected: /401 \(Unauthorized\)/,
  });

  test("says why a publish was refused", async ({ page }) => {
    await page.goto("/live?topic=news/a");
    await page.getByRole("button", { name: "Manage" }).click();
    await page.getByRole("button", { name: "Publish" }).click();
    await expect(part(page, "Publish").getByRole("alert")).toContainText("needs a token");
  });
});
