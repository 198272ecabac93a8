/** The lab page, with this browser and this server. */

import { readFileSync } from "node:fs";
import { choose, pick, startSmall } from "../harness/lab.js";
import { show } from "../harness/shown.js";
import { expect, test } from "../harness/test.js";

test.describe("against the demo", () => {
  test.use({ args: ["--demo"] });

  test("a small A1: rows per millisecond over three transports", async ({ page }) => {
    await page.goto("/lab");
    await pick(page, "Transports", "websocket", "http-streaming", "sse");
    await pick(page, "Rows per ms", "10");
    await pick(page, "Connections", "1");
    await choose(page, "Seconds per sample", "1");
    await choose(page, "Repeats", "1");
    await page.getByRole("button", { name: "Start" }).click();
    await expect(page.getByRole("progressbar")).toBeVisible();
    const figures = page.getByRole("region", { name: "Figures" }).locator("tbody tr");
    await expect(figures).toHaveCount(3);
    await expect(page.getByRole("heading", { name: "Not measured" })).toBeHidden();
    const saved = page.waitForEvent("download");
    await page.getByRole("button", { name: "Save as JSON" }).click();
    const result = JSON.parse(readFileSync(await (await saved).path(), "utf8")) as {
      samples: { sample: { eventsPerS: number; missed: number } }[];
    };
    for (const { sample } of result.samples) expect(sample.eventsPerS).toBeGreaterThan(0);
  });

  test("the length of a bar matches its value", async ({ page }) => {
    await page.goto("/lab");
    await pick(page, "Transports", "websocket");
    // Ten times the rate: two bars that cannot have the same length.
    await pick(page, "Rows per ms", "1", "10");
    await pick(page, "Connections", "1");
    await choose(page, "Seconds per sample", "1");
    await choose(page, "Repeats", "1");
    await page.getByRole("button", { name: "Start" }).click();
    await expect(page.getByRole("region", { name: "Figures" }).locator("tbody tr")).toHaveCount(2);
    const bars = page.locator(".strip-plot rect");
    await expect(bars).toHaveCount(2);
    const saved = page.waitForEvent("download");
    await page.getByRole("button", { name: "Save as JSON" }).click();
    const result = JSON.parse(readFileSync(await (await saved).path(), "utf8")) as {
      samples: { cell: { batch: number }; sample: { eventsPerS: number } }[];
    };
    const values = result.samples.sort((one, other) => one.cell.batch - other.cell.batch);
    const drawn = await bars.evaluateAll((rects) =>
      rects.map((rect) => {
        const { width, height } = rect.getBoundingClientRect();
        const line = (rect.parentElement as Element).getBoundingClientRect();
        return { share: width / line.width, height: height / line.height };
      }),
    );
    const most = Math.max(...values.map(({ sample }) => sample.eventsPerS));
    for (const [at, { share, height }] of drawn.entries()) {
      // The line has a margin of one hundredth on both sides.
      expect(Math.abs(share - (values[at]?.sample.eventsPerS ?? 0) / most)).toBeLessThan(0.03);
      expect(height).toBeGreaterThan(0.5);
    }
  });

  test("a small B: round trips", async ({ page }) => {
    await page.goto("/lab");
    await page.getByRole("radio", { name: /^B, round trips/ }).check();
    await pick(page, "Transports", "websocket", "sse", "long-polling");
    await choose(page, "Round trips per sample", "100");
    await choose(page, "Repeats", "1");
    await page.getByRole("button", { name: "Start" }).click();
    const figures = page.getByRole("region", { name: "Figures" }).locator("tbody tr");
    await expect(figures).toHaveCount(3);
    await expect(page.getByRole("heading", { name: "Not measured" })).toBeHidden();
    await page.getByRole("button", { name: "New run" }).click();
    await expect(page.getByRole("button", { name: "Start" })).toBeEnabled();
  });

  test("a sample of a hidden tab is repeated", async ({ page, network }) => {
    await page.goto("/lab");
    await startSmall(page, 1);
    await network.seen(({ kind }) => kind === "websocket");
    const before = network.asked.length;
    await show(page, false);
    await show(page, true);
    await network.seen(({ kind }) => kind === "websocket", before);
    await expect(page.getByRole("region", { name: "Figures" }).locator("tbody tr")).toHaveCount(1);
  });

  test("a stopped run keeps its samples, and can be saved and opened", async ({ page }) => {
    await page.goto("/lab");
    await startSmall(page, 9);
    await expect(page.getByText(/^[1-8] of 9/)).toBeVisible();
    await page.getByRole("button", { name: "Stop" }).click();
    await expect(page.getByText(/stopped early/)).toBeVisible();
    const findings = await page.locator(".findings").first().innerText();
    const saved = page.waitForEvent("download");
    await page.getByRole("button", { name: "Save as JSON" }).click();
    const file = await (await saved).path();
    await page.reload();
    await page.getByLabel("Open a saved result").setInputFiles(file);
    await expect(page.locator(".findings").first()).toHaveText(findings.replace(/\n/g, ""), { useInnerText: false });
  });
});

test("without the demo's sources the page shows how to add them", async ({ page }) => {
  await page.goto("/lab");
  await expect(page.getByText("thalweg serve --demo")).toBeVisible();
  await expect(page.getByRole("button", { name: "Start" })).toBeDisabled();
});
