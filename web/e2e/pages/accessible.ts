/** Accessibility checks with axe. */

import { expect, type Page } from "@playwright/test";
import axe, { type RunOptions } from "axe-core";

/** List items that are not checked: the fifth and later ones take a second and reveal no further violations. */
const ALIKE = ":is(tr, option):nth-of-type(n + 5)";

/** Wide and narrow, and the colours of the dark scheme: everything else is the same. */
const LOOKS = [
  { width: 1280, colorScheme: "light", rules: null },
  { width: 1280, colorScheme: "dark", rules: ["color-contrast"] },
  { width: 390, colorScheme: "light", rules: null },
] as const;

/** Checks a page in all {@link LOOKS}. @param before - called before each check. */
export async function expectAccessible(page: Page, before = async (): Promise<void> => {}): Promise<void> {
  // Playwright's evaluation bypasses the page's content security policy.
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
