/** Reads the live page. */

import type { Locator, Page } from "@playwright/test";
import { expect } from "@playwright/test";
import type { Network } from "./proxy.js";

/** Returns the element of one of the statistics. */
export function figure(page: Page, name: string): Locator {
  return page
    .locator(".stats dl > div")
    .filter({ has: page.locator(`dt:text-is("${name}")`) })
    .locator("dd");
}

/** Returns the offset of the last visible row. */
export async function newest(page: Page): Promise<number> {
  return Number(await page.getByRole("region", { name: "Events" }).locator("tbody th").last().textContent());
}

export async function later(page: Page, than: number): Promise<number> {
  await expect.poll(() => newest(page)).toBeGreaterThan(than);
  return newest(page);
}

export function state(page: Page): Locator {
  return page.locator(".stats [role=status]");
}

/** Parses a number such as `1.2 k`. */
export function read(text: string | null): number {
  const [, value = "", size = ""] = /^(?:over )?([\d.,]+)\s*([kMG]?)/.exec(text ?? "") ?? [];
  return Number(value.replaceAll(",", "")) * ({ k: 1e3, M: 1e6, G: 1e9 }[size] ?? 1);
}

/** Parses a duration such as `250 ms`, `3.2 s`, `4 min` to ms. */
export function readMs(text: string | null): number {
  const [, value = "NaN", unit = ""] = /^([\d.]+) (ms|s|min|h)$/.exec(text ?? "") ?? [];
  return Number(value) * ({ ms: 1, s: 1000, min: 60_000, h: 3_600_000 }[unit] ?? NaN);
}

/** The names of the columns of `--source rows=cars`, with the offset first. */
export const CARS =
  "offset in_use longitude latitude speed_kmh fuel_percent total_km locked car time taken_in never".split(" ");

export const heads = (page: Page): Promise<string[]> => page.getByRole("columnheader").allInnerTexts();

export function askedColumns(network: Network): (string | null)[] {
  return network.asked.filter(({ kind }) => kind === "arrow").map(({ url }) => url.searchParams.get("cursor"));
}

/** Expects no gap and, once the page is paused, consecutive rows. */
export async function expectWhole(page: Page): Promise<void> {
  await expect(figure(page, "gaps")).toHaveText("0");
  await page.getByRole("button", { name: "Pause" }).click();
  const offsets = (await page.locator("tbody th").allInnerTexts()).map(Number);
  expect(offsets.length).toBeGreaterThan(5);
  expect(offsets).toEqual(offsets.map((_, at) => (offsets[0] ?? 0) + at));
}
