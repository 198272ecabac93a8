/** Whether everybody can use a page, as far as axe can tell. */

import { AxeBuilder } from "@axe-core/playwright";
import { expect, type Page } from "@playwright/test";

/** What depends on colours alone. */
const COLOURS = ["color-contrast"];

/**
 * Wide and narrow, in light and dark; in dark it looks at the colours alone, since all else is the same.
 *
 * @param before - done to the page before each look.
 */
export async function expectAccessible(page: Page, before = async (): Promise<void> => {}): Promise<void> {
  for (const width of [1280, 390]) {
    await page.setViewportSize({ width, height: 800 });
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      await before();
      const axe = new AxeBuilder({ page });
      if (colorScheme === "dark") axe.withRules(COLOURS);
      const { violations } = await axe.analyze();
      const told = violations.map(
        ({ id, help, nodes }) => `${id}: ${help}: ${nodes.map(({ html }) => html).join("  ")}`,
      );
      expect(told, `${width} px, ${colorScheme}`).toEqual([]);
    }
  }
}
