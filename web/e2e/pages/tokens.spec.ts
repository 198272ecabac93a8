/** Pages of a server that requires a token: the reader is asked once. */

import { rmSync } from "node:fs";
import type { Page } from "@playwright/test";
import { choose, pick } from "../harness/lab.js";
import { figure, later, newest, state } from "../harness/live.js";
import { runs } from "../harness/runs.js";
import { test as base, expect } from "../harness/test.js";
import { TRANSPORTS } from "../sdk/transports.js";

const TOKEN = "read-me-1234567890";
/** A token that may also list topics, which the lab needs. */
const PUBLISHERS = "write-me-1234567890";

const test = base.extend<{ folder: string }>({
  folder: async ({}, use) => {
    const folder = runs({ today: "latency", yesterday: "latency" });
    await use(folder);
    rmSync(folder, { recursive: true });
  },
  args: async ({ folder }, use) =>
    use([
      "--demo",
      "--runs",
      folder,
      "--token",
      `subscriber=${TOKEN},subscribe=**`,
      "--token",
      `publisher=${PUBLISHERS},subscribe=**,publish=**,inspect=**,admin=true`,
    ]),
});

// Without a token the server answers 401, which browsers log, and a connection is closed. The list of topics is 403
// for a token that only grants the right to subscribe.
test.use({ expected: /401 \(Unauthorized\)|403 \(Forbidden\)|closed before the connection is established/ });

const form = (page: Page) => page.getByRole("heading", { name: "This server requires a token" });

async function present(page: Page, token: string): Promise<void> {
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Use this token" }).click();
}

test("Live: rejects a wrong token, keeps the right one, and puts no token in an address", async ({ page, network }) => {
  await page.goto("/?topic=car_live_data&view=table");
  await expect(form(page)).toBeVisible();
  for (const wrong of ["read-me", "no header has thisé"]) {
    await present(page, wrong);
    await expect(page.getByRole("alert")).toHaveText("The server rejects this token.");
  }
  await present(page, ` ${TOKEN} `);
  await later(page, 100);
  await expect(state(page)).toHaveText("Live");
  for (const name of TRANSPORTS) {
    await page.getByLabel("Transport").selectOption({ label: name });
    await expect(figure(page, "transport")).toHaveText(name);
    await later(page, await newest(page));
  }
  await page.reload();
  await later(page, 100);
  await expect(form(page)).toBeHidden();
  for (const { url } of network.asked) expect(url.href).not.toContain(TOKEN);
});

test("Lab: both experiments run", async ({ page }) => {
  await page.goto("/lab");
  await present(page, PUBLISHERS);
  await page.getByRole("button", { name: "Start" }).waitFor();
  const figures = page.getByRole("region", { name: "Figures" }).locator("tbody tr");
  await pick(page, "Transports", "websocket", "http-streaming");
  await pick(page, "Rows per ms", "1");
  await choose(page, "Seconds per sample", "1");
  await choose(page, "Repeats", "1");
  await page.getByRole("button", { name: "Start" }).click();
  await expect(figures).toHaveCount(2);
  await page.getByRole("button", { name: "New run" }).click();
  await page.getByRole("radio", { name: /^B, round trips/ }).check();
  await pick(page, "Transports", "websocket", "http-streaming");
  await choose(page, "Round trips per sample", "100");
  await choose(page, "Repeats", "1");
  await page.getByRole("button", { name: "Start" }).click();
  await expect(figures).toHaveCount(2);
  await expect(page.getByRole("heading", { name: "Not measured" })).toBeHidden();
});

test("Reports: in the page, and the file alone", async ({ page }) => {
  await page.goto("/reports?run=today");
  await present(page, TOKEN);
  await expect(page.getByRole("figure", { name: "Report of" }).getByRole("heading", { level: 1 })).toContainText("×");
  await page.getByRole("link", { name: "open file" }).first().click();
  await expect(page).toHaveURL(/\/runs\/\w+\/report\.html\?ticket=/);
  await expect(page.getByRole("heading").first()).toBeVisible();
});
