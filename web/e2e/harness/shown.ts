/** Playwright shows every page. This script simulates a hidden one. */

import type { Page } from "@playwright/test";

export async function show(page: Page, isShown: boolean): Promise<void> {
  await page.evaluate((isShown) => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => !isShown });
    Object.defineProperty(document, "visibilityState", {
      configurable: true,
      get: () => (isShown ? "visible" : "hidden"),
    });
    document.dispatchEvent(new Event("visibilitychange"));
  }, isShown);
}
