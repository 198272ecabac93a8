/** Pages under a path of a proxy. */

import { rmSync } from "node:fs";
import { startSmall } from "../harness/lab.js";
import { later } from "../harness/live.js";
import { nginx } from "../harness/nginx.js";
import { runs } from "../harness/runs.js";
import { test as base, expect } from "../harness/test.js";

const test = base.extend<{ folder: string }>({
  folder: async ({}, use) => {
    const folder = runs({ today: "latency" });
    await use(folder);
    rmSync(folder, { recursive: true });
  },
  args: async ({ folder }, use) => use(["--demo", "--runs", folder]),
  baseURL: async ({ server }, use, info) => {
    const before = await nginx(server.address, info);
    await use(before.origin);
    await before.close();
  },
});

test.beforeEach(({ page, complaints }) => {
  const isOutside = (url: URL): boolean => /^(https?|wss?):$/.test(url.protocol) && !url.pathname.startsWith("/live/");
  const note = (url: string): void => void (isOutside(new URL(url)) && complaints.push(`outside: ${url}`));
  page.on("request", (request) => note(request.url()));
  page.on("websocket", (socket) => note(socket.url()));
});

test("the live page shows a topic over each transport, and links to the other pages", async ({ page }) => {
  await page.goto("/live/?topic=car_live_data&view=table");
  let seen = await later(page, 100);
  for (const name of ["http-streaming", "sse", "forever-frame", "long-polling", "websocket"]) {
    await page.getByLabel("Transport").selectOption({ label: name });
    seen = await later(page, seen + 500);
  }
  for (const [name, path] of [
    ["Lab", "/live/lab"],
    ["Reports", "/live/reports"],
    ["Live", "/live/live"],
    ["Demo", "/live/demo"],
    ["Overview", "/live/"],
  ] as const) {
    await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name }).click();
    await page.waitForURL((url) => url.pathname === path);
    await expect(page.locator("[aria-current=page]")).toHaveText(name);
  }
  await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name: "Docs" }).click();
  await page.waitForURL((url) => url.pathname === "/live/docs/");
});

test("the demo receives numbers over each transport", async ({ page }) => {
  await page.goto("/live/demo");
  for (const name of ["websocket", "http-streaming", "sse", "forever-frame", "long-polling"]) {
    await page.getByLabel("Transport").selectOption(name);
    await expect(page.locator("#state")).toHaveText(/^Connected over /);
    const before = await page.locator("#received").textContent();
    await expect(page.locator("#received")).not.toHaveText(before ?? "");
  }
});

test("the lab measures", async ({ page }) => {
  await page.goto("/live/lab");
  await startSmall(page, 1);
  const figures = page.getByRole("region", { name: "Figures" }).locator("tbody tr");
  await expect(figures).toHaveCount(1);
});

test("a report is shown", async ({ page }) => {
  await page.goto("/live/reports?run=today");
  await expect(page.getByRole("figure", { name: "Report of" }).getByRole("heading", { level: 1 })).toBeVisible();
  await page
    .getByRole("row")
    .filter({ has: page.getByRole("radio", { checked: true }) })
    .getByRole("link")
    .click();
  await page.waitForURL((url) => url.pathname === "/live/runs/today/report.html");
});
