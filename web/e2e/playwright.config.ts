import { defineConfig } from "@playwright/test";
import { CHROMIUM } from "./harness/chromium.js";

/** Tests that need an idle machine. */
const ALONE = ["pages/load.spec.ts", "pages/first-paint.spec.ts"];

export default defineConfig({
  testDir: ".",
  // Tests with a full load need the cores; `make test` runs them last.
  projects: [
    {
      name: "beside",
      testMatch: ["sdk/*.spec.ts", "pages/*.spec.ts", "signalr/*.spec.ts", "round-trips/*.spec.js"],
      testIgnore: ALONE,
    },
    { name: "alone", testMatch: ALONE, fullyParallel: false, workers: 1 },
  ],
  // Each test has its own server. Two workers take an eighth less time on two cores, because a page also waits; four do not help.
  // A test that needs a retry has found a bug, unless it is marked as needing a quiet machine.
  workers: 3,
  fullyParallel: true,
  retries: 0,
  // Timeouts for an idle machine (harness/patience.ts). An assertion waits for as long as its test may take.
  timeout: 90_000,
  expect: { timeout: 3_600_000 },
  forbidOnly: process.env["CI"] !== undefined,
  reporter: [["list"]],
  use: CHROMIUM,
});
