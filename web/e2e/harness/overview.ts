/** Reads the overview page. */

import type { Locator, Page } from "@playwright/test";

/** Returns the value of a tile, and the text below it. */
export function tile(page: Page, name: string): { readonly value: Locator; readonly more: Locator } {
  const own = page.locator(".tiles > div").filter({ has: page.locator(`dt:text-is("${name}")`) });
  return { value: own.locator("b"), more: own.locator(".more") };
}

/** Returns the names in the table of topics, in order. */
export const names = (page: Page): Locator => page.locator(".topics tbody th");

/** Returns a cell of the table of topics. */
export function cell(page: Page, topic: string, column: string): Locator {
  const row = page.locator(".topics tbody tr").filter({ has: page.getByRole("link", { name: topic, exact: true }) });
  return row.locator("th, td").nth(COLUMNS.indexOf(column));
}

export const COLUMNS = "Topic,Kind,Events/s,Bytes/s,Subscribers,Kept,Memory,Age,Gaps".split(",");
