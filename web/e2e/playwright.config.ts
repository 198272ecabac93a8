import { defineConfig } from "@playwright/test";
import { CHROMIUM } from "./harness/chromium.js";

export default defineConfig({
  testDir: ".",
  testMatch: ["sdk/*.spec.ts", "pages/*.spec.ts"],
  // Two cores, and a server beside the browser: one at a time. A test that needs a second
  // chance has found something.
  workers: 1,
  retries: 0,
  timeout: 30_000,
  // All of it takes less than four minutes on two cores that have nothing else to do.
  globalTimeout: 10 * 60_000,
  forbidOnly: process.env["CI"] !== undefined,
  reporter: [["list"]],
  use: CHROMIUM,
});
