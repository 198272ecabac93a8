import { defineConfig } from "@playwright/test";
import { CHROMIUM } from "../harness/chromium.js";

export default defineConfig({
  testDir: ".",
  testMatch: ["*.measure.ts"],
  workers: 1,
  retries: 0,
  // A measurement ends by itself.
  timeout: 0,
  reporter: [["list"]],
  outputDir: "../test-results/measure",
  use: CHROMIUM,
});
