/** The trace of a subject, on the overview. */

import type { Page } from "@playwright/test";
import type { Server } from "../harness/server.js";
import { SECRET, signed } from "../harness/signed.js";
import { expect, test } from "../harness/test.js";
import { expectAccessible } from "./accessible.js";

const TOKEN = "look-at-me-1234567890";

test.use({
  args: ["--jwt-secret", SECRET, "--token", `inspector=${TOKEN},inspect=**,subscribe=**`],
  // The page without a token; without the demo, the page of the demo is not offered.
  expected: /401 \(Unauthorized\)|404 \(Not Found\)/,
});

const panel = (page: Page) => page.locator(".trace");

async function open(page: Page): Promise<void> {
  await page.addInitScript((token) => sessionStorage.setItem("thalweg:token", token), TOKEN);
  await page.goto("/");
}

/** Publishes one event as alice, who may publish to `users/alice/out` only. */
async function publish(server: Server, topic: string): Promise<number> {
  const Authorization = `Bearer ${signed({ subscribe: ["**"], publish: ["users/{sub}/out"] })}`;
  const headers = { Authorization, "Content-Type": "application/json" };
  const { status } = await fetch(`${server.origin}/v1/topics/${topic}`, { method: "POST", headers, body: '"secret"' });
  return status;
}

test("shows what a user does and is refused, the newest first", async ({ page, server }) => {
  await open(page);
  await panel(page).getByLabel("Subject").fill("alice");
  await panel(page).getByRole("button", { name: "Trace" }).click();
  await expect(panel(page).getByRole("status")).toHaveText(
    "Tracing alice for at most 10 min. The subject has done nothing yet.",
  );
  expect(await publish(server, "users/alice/out")).toBe(200);
  expect(await publish(server, "users/bob/out")).toBe(403);
  const rows = panel(page).locator("tbody tr");
  await expect(rows).toHaveCount(2);
  await expect(rows.nth(0).getByRole("cell")).toHaveText(["publish", "refused: forbidden", "users/bob/out", ""]);
  await expect(rows.nth(0).getByRole("rowheader")).toHaveText(/^\d\d:\d\d:\d\d\.\d{3}$/);
  await expect(rows.nth(1).getByRole("cell")).toHaveText([
    "publish",
    "done",
    "users/alice/out",
    /^1 event, 8 B, at [0-9a-f]+\.1$/,
  ]);
  await expectAccessible(page);
  await page.screenshot({ path: test.info().outputPath("trace.png"), fullPage: true });
  await panel(page).getByRole("button", { name: "Stop" }).click();
  await expect(panel(page).getByRole("status")).toHaveText("Stopped.");
  await expect(panel(page).getByRole("button", { name: "Stop" })).toBeDisabled();
  await expect(rows).toHaveCount(2);
});

test("begins from a subscriber in the table of a topic", async ({ page, server }) => {
  await page.addInitScript((token) => sessionStorage.setItem("thalweg:token", token), TOKEN);
  const leave = new AbortController();
  // A subject that an address must encode.
  const Authorization = `Bearer ${signed({ subscribe: ["**"] }, { sub: "ann & <b>bob</b>" })}`;
  await fetch(`${server.origin}/v1/topics/news`, {
    headers: { Accept: "text/event-stream", Authorization },
    signal: leave.signal,
  });
  await page.goto("/live?topic=news");
  await page.getByRole("button", { name: "Manage" }).click();
  await page.getByRole("link", { name: "ann & <b>bob</b>" }).click();
  await expect(panel(page).getByRole("status")).toContainText("Tracing ann & <b>bob</b> for at most");
  leave.abort();
  const row = panel(page).locator("tbody tr");
  await expect(row.getByRole("cell")).toHaveText(["disconnect", "done", "", /^gone, connection [0-9a-f]+$/]);
});

test.describe("of a server that ends", () => {
  test.use({ expected: /net::ERR_|Failed to load resource/ });

  test("says that the trace has ended", async ({ page, server }) => {
    await open(page);
    await panel(page).getByLabel("Subject").fill("alice");
    await panel(page).getByRole("button", { name: "Trace" }).click();
    await expect(panel(page).getByRole("status")).toContainText("Tracing alice");
    await server.stop();
    await expect(panel(page).getByRole("status")).toContainText("because the server shuts down");
  });
});
