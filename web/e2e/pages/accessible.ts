/** Whether everybody can use a page, as far as axe can tell. */

import { AxeBuilder } from "@axe-core/playwright";
import { expect, type Page } from "@playwright/test";

/**
 * Wide and narrow, in light and dark.
 *
 * @param before - done to the page before each look.
 */
export async function expectAccessible(page: Page, before = async (): Promise<void> => {}): Promise<void> {
  for (const width of [1280, 390]) {
    await page.setViewportSize({ width, height: 800 });
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      await before();
      const { violations } = await new AxeBuilder({ page }).analyze();
      const told = violations.map(
        ({ id, help, nodes }) => `${id}: ${help}: ${nodes.map(({ html }) => html).join("  ")}`,
      );
      expect(told, `${width} px, ${colorScheme}`).toEqual([]);
    }
  }
}
