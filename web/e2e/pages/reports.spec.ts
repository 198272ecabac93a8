/** The reports page: the list of runs, and a run's report. */

import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runs } from "../harness/runs.js";
import { test as base, expect } from "../harness/test.js";

const test = base.extend<{ folder: string }>({
  folder: async ({}, use) => {
    const folder = runs({ today: "latency", yesterday: "latency", older: "c" });
    await use(folder);
    rmSync(folder, { recursive: true });
  },
  args: async ({ folder }, use) => use(["--runs", folder]),
});

test("all runs are listed, and one is opened", async ({ page }) => {
  await page.goto("/reports");
  const rows = page.getByRole("region", { name: "Runs" }).locator("tbody tr");
  await expect(rows).toHaveCount(3);
  await rows.first().getByRole("radio").check();
  const report = page.getByRole("figure", { name: "Report of" });
  await expect(report.getByRole("heading", { level: 1 })).toContainText("×");
  await expect(report.locator("canvas").first()).toBeVisible();
  await expect(report.getByRole("region", { name: "Every figure of" })).toBeVisible();
  // The selected run is in the address, so a reader can share it.
  await page.reload();
  await expect(report.getByRole("heading", { level: 1 })).toContainText("×");
});

test("a file of a report has the same charts, and requests nothing", async ({ page }) => {
  const requests: string[] = [];
  page.on("request", (request) => requests.push(request.url()));
  await page.goto("/runs/today/report.html");
  await expect(page.getByRole("heading", { level: 1 })).toContainText("×");
  await expect(page.locator("canvas").first()).toBeVisible();
  expect(requests.map((url) => new URL(url).pathname)).toEqual(["/runs/today/report.html"]);
});

test("an unknown run is reported", async ({ page }) => {
  await page.goto("/reports?run=gone");
  await expect(page.getByRole("alert")).toContainText("no run named gone");
  await page.getByRole("radio").first().check();
  await expect(page.getByRole("alert")).toBeHidden();
});

test("an archived summary is shown without its tables, and a run without a summary says so", async ({
  page,
  folder,
}) => {
  rmSync(join(folder, "today", "summary.json"));
  await page.goto("/reports?run=today");
  await expect(page.locator("canvas").first()).toBeVisible();
  await expect(page.getByText("bench export --store . --format json today")).toBeVisible();
  rmSync(join(folder, "today", "summary.json.gz"));
  rmSync(join(folder, "today", "report.html"));
  await page.reload();
  await expect(page.getByRole("row", { name: "unfinished" })).toHaveCount(1);
  await expect(page.getByText("This run has no report:")).toBeVisible();
});

test("a run may have any name", async ({ page, folder }) => {
  const name = `<img src=x onerror=alert(1)> 100%2F? #a&run=b`;
  renameSync(join(folder, "today"), join(folder, name));
  writeFileSync(
    join(folder, name, "manifest.json"),
    JSON.stringify({ begun: "<b>soon</b>", version: "<i>", machine: { cpu: "<u>", cores: 2 } }),
  );
  await page.goto(`/reports?${new URLSearchParams({ run: name })}`);
  await expect(page.getByRole("figure", { name: "Report of" })).toContainText(name);
  await expect(page.locator("canvas").first()).toBeVisible();
  await expect(page.getByRole("cell", { name: "<b>soon</b>" })).toBeVisible();
});

base.describe("with an empty folder", () => {
  const empty = test.extend<{ folder: string }>({
    folder: async ({}, use) => {
      const folder = mkdtempSync(join(tmpdir(), "thalweg-runs-"));
      await use(folder);
      rmSync(folder, { recursive: true });
    },
  });

  empty("the page says how to measure, and lists the first run when it exists", async ({ page, folder }) => {
    await page.goto("/reports");
    await expect(page.getByText("thalweg-lab bench")).toBeVisible();
    const made = runs({ first: "latency" });
    renameSync(join(made, "first"), join(folder, "first"));
    rmSync(made, { recursive: true });
    await expect(page.getByRole("radio")).toHaveCount(1);
  });
});

base.describe("without a folder of runs", () => {
  // Without a folder the list is 404, which browsers log.
  base.use({ expected: /404 \(Not Found\)/ });

  base("the page says how to show runs", async ({ page }) => {
    await page.goto("/reports");
    await expect(page.getByText(/thalweg serve --runs/)).toBeVisible();
  });
});
