/** The lab page's form, as its reader fills it in. */

import type { Page } from "@playwright/test";

/** In the group `name`, these and no others. */
export async function pick(page: Page, name: string, ...wanted: readonly string[]): Promise<void> {
  const group = page.getByRole("group", { name, exact: true });
  await group.waitFor();
  for (const box of await group.getByRole("checkbox").all()) {
    const label = (await box.evaluate((it) => it.closest("label")?.textContent?.trim())) ?? "";
    await box.setChecked(wanted.includes(label));
  }
}

export async function choose(page: Page, label: string, value: string): Promise<void> {
  await page.getByRole("combobox", { name: label }).selectOption(value);
}

/** Starts the least that A1 can be: one transport, a row a millisecond, a second each. */
export async function startSmall(page: Page, repeats: number): Promise<void> {
  await pick(page, "Transports", "websocket");
  await pick(page, "Rows per ms", "1");
  await choose(page, "Seconds each", "1");
  await choose(page, "Repeats", `${repeats}`);
  await page.getByRole("button", { name: "Start" }).click();
}
