/** Layout shifts: parts of a page that move although the reader did nothing. */

import type { Page } from "@playwright/test";

interface Shift extends PerformanceEntry {
  readonly value: number;
  readonly hadRecentInput: boolean;
  readonly sources: readonly { readonly node: Node | null }[];
}

/** Records the shifts of all documents that the page opens from now on. */
export async function watchShifts(page: Page): Promise<void> {
  await page.addInitScript(() => {
    const moved: string[] = [];
    Object.assign(globalThis, { moved });
    new PerformanceObserver((list) => {
      for (const { hadRecentInput, value, sources } of list.getEntries() as Shift[]) {
        // Text is named by its element.
        const elements = sources.map(({ node }) => (node instanceof Element ? node : node?.parentElement));
        const names = elements.map((element) => element?.outerHTML.slice(0, 80) ?? "a removed part");
        if (!hadRecentInput) moved.push(`${value.toFixed(4)}: ${names.join(", ")}`);
      }
    }).observe({ type: "layout-shift", buffered: true });
  });
}

/** Returns the shifts of the page's document. */
export function shifts(page: Page): Promise<string[]> {
  return page.evaluate(() => (globalThis as unknown as { moved: string[] }).moved);
}
