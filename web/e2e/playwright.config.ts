import { defineConfig } from "@playwright/test";
import { CHROMIUM } from "./harness/chromium.js";

export default defineConfig({
  testDir: ".",
  testMatch: ["sdk/*.spec.ts", "pages/*.spec.ts"],
  // Two cores, and a server beside the browser: one at a time. A test that needs a second
  // chance has found something.
  workers: 1,
  retries: 0,
  // Patience is for machines of which others take a part: all of it takes five minutes on
  // two cores that have nothing else to do.
  timeout: 60_000,
  expect: { timeout: 30_000 },
  globalTimeout: 25 * 60_000,
  forbidOnly: process.env["CI"] !== undefined,
  reporter: [["list"]],
  use: CHROMIUM,
});
