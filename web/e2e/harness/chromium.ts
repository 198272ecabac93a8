/** The system's browser, with nothing of its own to say to the network. */

import type { PlaywrightTestConfig } from "@playwright/test";

const QUIET = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--no-first-run",
];

/** How Playwright starts it. `CHROMIUM` names another than Debian's. */
export const CHROMIUM = {
  browserName: "chromium",
  headless: true,
  launchOptions: { executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium", args: QUIET },
} satisfies PlaywrightTestConfig["use"];
