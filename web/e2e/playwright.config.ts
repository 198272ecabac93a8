import { defineConfig } from "@playwright/test";
import { CHROMIUM } from "./harness/chromium.js";

export default defineConfig({
  testDir: ".",
  // Tests that send as much as a page can take need the cores; `make test` runs them after everything else.
  projects: [
    { name: "beside", testMatch: ["sdk/*.spec.ts", "pages/*.spec.ts"], testIgnore: "pages/load.spec.ts" },
    { name: "alone", testMatch: "pages/load.spec.ts", fullyParallel: false, workers: 1 },
  ],
  // Each has a server of its own. Two at a time take an eighth less on two cores, since a page also waits; four take no less.
  // A test that needs a second chance has found something, unless it says that it needs a quiet machine.
  workers: 3,
  fullyParallel: true,
  retries: 0,
  // The time of an idle machine (harness/patience.ts). An assertion waits for as long as its test may take.
  timeout: 90_000,
  expect: { timeout: 3_600_000 },
  forbidOnly: process.env["CI"] !== undefined,
  reporter: [["list"]],
  use: CHROMIUM,
});
