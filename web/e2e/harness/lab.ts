/** Fills in the form of the lab page. */

import type { Page } from "@playwright/test";

/** Selects these options of a group, and no others. */
export async function pick(page: Page, name: string, ...wanted: readonly string[]): Promise<void> {
  const group = page.getByRole("group", { name, exact: true });
  await group.waitFor();
  for (const box of await group.getByRole("checkbox").all()) {
    const label = (await box.evaluate((input) => input.closest("label")?.textContent?.trim())) ?? "";
    await box.setChecked(wanted.includes(label));
  }
}

export async function choose(page: Page, label: string, value: string): Promise<void> {
  await page.getByRole("combobox", { name: label }).selectOption(value);
}

/** Starts the smallest A1: one transport, one row per millisecond, one second each. */
export async function startSmall(page: Page, repeats: number): Promise<void> {
  await pick(page, "Transports", "websocket");
  await pick(page, "Rows per ms", "1");
  await choose(page, "Seconds per sample", "1");
  await choose(page, "Repeats", `${repeats}`);
  await page.getByRole("button", { name: "Start" }).click();
}
