/** The system's browser, without network requests of its own. */

import type { PlaywrightTestConfig } from "@playwright/test";

const QUIET = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--no-first-run",
];

/** Launch options for Playwright. `CHROMIUM` names another browser than Debian's. */
export const CHROMIUM = {
  browserName: "chromium",
  headless: true,
  launchOptions: { executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium", args: QUIET },
} satisfies PlaywrightTestConfig["use"];
