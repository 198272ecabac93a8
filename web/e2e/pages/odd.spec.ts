/** Unusual events: the page shows all of them and executes none. */

import type { Page } from "@playwright/test";
import { figure, newest, state } from "../harness/live.js";
import type { Server } from "../harness/server.js";
import { expect, test } from "../harness/test.js";

async function post(server: Server, topic: string, ...events: readonly string[]): Promise<void> {
  const answer = await fetch(`${server.origin}/v1/topics/${topic}`, {
    method: "POST",
    headers: { "Content-Type": "application/x-ndjson" },
    body: events.join("\n"),
  });
  expect(answer.status, await answer.text()).toBe(200);
}

const SCRIPT = `<img src=x onerror="globalThis.ran = true"><script>globalThis.ran = true</script>`;

const ODD: readonly string[] = [
  "null",
  "true",
  '"a text"',
  "5",
  "[]",
  "[1,2,3]",
  '[1,"two",[3],{"four":4},null,6]',
  "{}",
  '{"value":1,"null":2,"":3,"length":4,"constructor":5,"__proto__":6}',
  '{"number":"12.5","blank":" ","large":1e300,"small":1e-300,"beyond":1e999}',
  JSON.stringify({ [SCRIPT]: SCRIPT, number: "no number" }),
  JSON.stringify({ lines: "one\ntwo\r\nthree\u2028four", control: "\u0000\u001b[31m\u202e", emoji: "👩‍👩‍👧" }),
  JSON.stringify({ huge: "x".repeat(500_000) }),
  JSON.stringify({ nested: { huge: Array.from({ length: 50_000 }, (_, index) => ({ index })) } }),
  JSON.stringify(Array.from({ length: 2000 }, (_, index) => index)),
  `{"time":"2026-11-21T20:00:00Z","lon":1e300,"lat":1e-300}`,
  `{"time":"2026-11-21T20:00:01Z","lon":1e300,"lat":2e-300}`,
];

async function isWhole(page: Page): Promise<void> {
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Live data of odd");
  await expect(state(page)).toHaveText("Live");
  expect(await page.evaluate(() => "ran" in globalThis)).toBe(false);
}

test("unusual events in all views", async ({ page, server }) => {
  await post(server, "odd", ...ODD);
  await page.goto("/?topic=odd&view=table");
  await expect(page.getByText(`${ODD.length} rows in memory`)).toBeVisible();
  const rows = page.getByRole("region", { name: "Events" }).locator("tbody tr");
  await expect(rows).toHaveCount(ODD.length);
  await expect(page.getByRole("columnheader", { name: SCRIPT })).toHaveCount(1);
  const heights = await rows.evaluateAll((all) => all.map((element) => element.getBoundingClientRect().height));
  expect(new Set(heights).size).toBe(1);
  // Long texts are truncated.
  expect((await rows.allTextContents()).join("").length).toBeLessThan(50_000);
  await isWhole(page);
  await page.getByLabel("Filter").fill("no number");
  await expect(rows).toHaveCount(1);
  await page.getByLabel("Filter").fill("");
  await page.getByRole("columnheader", { name: "number" }).getByRole("button").click();
  await isWhole(page);
  for (const view of ["chart", "map"]) {
    await page.getByRole("radio", { name: view }).check();
    const seen = await figure(page, "age").textContent();
    await expect(figure(page, "age")).not.toHaveText(seen ?? "");
    await isWhole(page);
  }
});

test("very small and very large numbers on an axis", async ({ page, server }) => {
  for (const [name, values] of Object.entries({ small: ["1e-150", "2e-150"], large: ["1e300", "-1e300"] })) {
    const events = values.map((value, at) => `{"time":"2026-11-21T20:00:0${at}Z","x":${value},"y":${value}}`);
    await post(server, name, ...events);
    await page.goto(`/?topic=${name}&view=chart`);
    await page.getByRole("checkbox", { name: "x" }).check();
    await expect(page.locator(".chart .legend")).toContainText("e");
    await page.getByRole("radio", { name: "map" }).check();
    await expect(page.locator("canvas.map")).toBeVisible();
    await expect(state(page)).toHaveText("Live");
  }
});

test("a name with special characters is listed, shown and kept in the address", async ({ page, server }) => {
  const name = "a@b:c|d+e=f";
  await post(server, encodeURIComponent(name), "1");
  await post(server, "z", "1");
  await page.goto("/?topic=z&view=table");
  await page.getByRole("combobox", { name: "Topic", exact: true }).selectOption({ label: name });
  const isShown = async (offset: number) => {
    await expect(page.getByRole("heading", { level: 1 })).toHaveText(`Live data of ${name}`);
    await expect(state(page)).toHaveText("Live");
    await expect.poll(() => newest(page)).toBe(offset);
  };
  await isShown(1);
  await post(server, encodeURIComponent(name), "2");
  await isShown(2);
  await expect(page).toHaveURL((url) => url.searchParams.get("topic") === name);
  await page.goto(page.url());
  await isShown(2);
  await post(server, encodeURIComponent(name), "3");
  await isShown(3);
});

test("an invalid topic name is rejected, and not suggested in a command", async ({ page }) => {
  await page.goto(`/?topic=${encodeURIComponent("x; rm -rf ~")}`);
  await expect(page.getByRole("alert")).toContainText("X; rm -rf ~ is not a topic name");
  await expect(page.locator("main pre")).toHaveCount(0);
  await expect(state(page)).toContainText("Ended");
});

test("a new topic does not replace the one that is open", async ({ page, server }) => {
  await post(server, "b", "1");
  await page.goto("/live");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Live data of b");
  await post(server, "a", "1");
  await expect(page.getByLabel("Topic").getByRole("option", { name: "a", exact: true })).toBeAttached();
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Live data of b");
});
