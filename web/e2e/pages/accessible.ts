/** Whether everybody can use a page, as far as axe can tell. */

import { expect, type Page } from "@playwright/test";
import axe, { type RunOptions } from "axe-core";

/** A list shows its first few; the rules find no more in the thousandth, and take a second for it. */
const ALIKE = ":is(tr, option):nth-of-type(n + 5)";

/** Wide and narrow, and in dark the colours alone: all else is the same. */
const LOOKS = [
  { width: 1280, colorScheme: "light", rules: null },
  { width: 1280, colorScheme: "dark", rules: ["color-contrast"] },
  { width: 390, colorScheme: "light", rules: null },
] as const;

/**
 * Looks at a page as {@link LOOKS} says.
 *
 * @param before - done to the page before each look.
 */
export async function expectAccessible(page: Page, before = async (): Promise<void> => {}): Promise<void> {
  // As Playwright evaluates it, the page's policy does not apply to it.
  await page.evaluate(axe.source);
  for (const { width, colorScheme, rules } of LOOKS) {
    await page.setViewportSize({ width, height: 800 });
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    await before();
    const options: RunOptions = { resultTypes: ["violations"], preload: false };
    if (rules) options.runOnly = [...rules];
    const run = async ({ alike, options }: { alike: string; options: RunOptions }) => {
      const { violations } = await (globalThis as unknown as { axe: typeof axe }).axe.run({ exclude: alike }, options);
      return violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map(({ html }) => html).join("  ")}`);
    };
    const told = await page.evaluate(run, { alike: ALIKE, options });
    expect(told, `${width} px, ${colorScheme}`).toEqual([]);
  }
}
