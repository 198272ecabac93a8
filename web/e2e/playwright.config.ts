import { defineConfig } from "@playwright/test";
import { CHROMIUM } from "./harness/chromium.js";

export default defineConfig({
  testDir: ".",
  testMatch: ["sdk/*.spec.ts", "pages/*.spec.ts"],
  // Each has a server of its own. Two at a time take an eighth less on two cores: a page also waits.
  // A test that needs a second chance has found something, unless it says that it needs a quiet machine.
  workers: 2,
  fullyParallel: true,
  retries: 0,
  // The time of an idle machine (harness/patience.ts). An assertion waits for as long as its test may take.
  timeout: 90_000,
  expect: { timeout: 3_600_000 },
  forbidOnly: process.env["CI"] !== undefined,
  reporter: [["list"]],
  use: CHROMIUM,
});
