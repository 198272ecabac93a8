import { defineConfig } from "@playwright/test";
import { CHROMIUM } from "./harness/chromium.js";

export default defineConfig({
  testDir: ".",
  testMatch: ["sdk/*.spec.ts", "pages/*.spec.ts"],
  // Each has a server of its own. Two at a time take an eighth less on two cores: a page also waits.
  // A test that needs a second chance has found something.
  workers: 2,
  fullyParallel: true,
  retries: 0,
  // Patience is for machines of which others take a part.
  timeout: 60_000,
  expect: { timeout: 30_000 },
  globalTimeout: 25 * 60_000,
  forbidOnly: process.env["CI"] !== undefined,
  reporter: [["list"]],
  use: CHROMIUM,
});
