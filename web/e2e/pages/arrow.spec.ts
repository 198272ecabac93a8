/** The live page with columns: selected by hand, or because of high volume. */

import type { Page } from "@playwright/test";
import { askedColumns, CARS, expectWhole, figure, heads, later, newest, state } from "../harness/live.js";
import type { Server } from "../harness/server.js";
import { BROKEN_NETWORK, expect, test } from "../harness/test.js";

async function post(server: Server, topic: string, ...events: object[]): Promise<void> {
  const headers = { "Content-Type": "application/x-ndjson" };
  const body = events.map((event) => JSON.stringify(event)).join("\n");
  expect((await fetch(`${server.origin}/v1/topics/${topic}`, { method: "POST", headers, body })).status).toBe(200);
}

async function choose(page: Page, way: string): Promise<void> {
  await page.getByLabel("Transport").selectOption({ label: way });
  await expect(figure(page, "transport")).toHaveText(way);
}

test.describe("with a continuous source", () => {
  test.use({ args: ["--source", "rows=cars,cars=20,interval=20ms"], expected: BROKEN_NETWORK });

  test("a switch to columns and back continues at the position, with the same rows", async ({ page, network }) => {
    await page.goto("/?topic=rows&view=table");
    await later(page, 1000);
    expect(await heads(page)).toEqual(CARS);
    const row = await page.locator("tbody tr").last().locator("td").allInnerTexts();
    await choose(page, "arrow");
    await later(page, (await newest(page)) + 1000);
    expect(await heads(page)).toEqual(CARS);
    const after = await page.locator("tbody tr").last().locator("td").allInnerTexts();
    // Texts, numbers and times look as before.
    const shape = (cells: string[]): string[] =>
      cells.map((cell) => cell.replace(/(\.\d+)?Z$/, "Z").replace(/\d+(\.\d+)?/g, "0"));
    expect(shape(after)).toEqual(shape(row));
    expect(askedColumns(network)).toEqual([expect.stringMatching(/^[0-9a-f]+\.\d+$/)]);
    await choose(page, "websocket");
    await later(page, (await newest(page)) + 1000);
    await expectWhole(page);
  });

  test("filters, sorts, draws, and shows an event in full", async ({ page }) => {
    await page.goto("/?topic=rows&view=table");
    await choose(page, "arrow");
    await later(page, 1000);
    await page.getByLabel("Filter").fill("c00007");
    const rows = page.getByRole("region", { name: "Events" }).locator("tbody tr");
    await expect(rows.first()).toContainText("c00007");
    for (const text of await rows.allInnerTexts()) expect(text).toContain("c00007");
    await page.getByRole("button", { name: "Pause" }).click();
    await rows.last().getByRole("button").click();
    await expect(page.getByRole("region", { name: /^Event \d+/ }).locator("pre")).toContainText('"c00007"');
    await page.getByRole("button", { name: "Pause" }).click();
    for (const [view, canvas] of [
      ["chart", ".chart canvas"],
      ["map", "canvas.map"],
    ] as const) {
      await page.getByRole("radio", { name: view }).check();
      const ink = (): Promise<string> =>
        page
          .locator(canvas)
          .first()
          .evaluate((element) => (element as HTMLCanvasElement).toDataURL());
      const drawn = await ink();
      await expect.poll(ink).not.toBe(drawn);
    }
  });

  test("a broken connection loses no events, and a new server causes a gap", async ({ page, network, server }) => {
    await page.goto("/?topic=rows&view=table");
    await choose(page, "arrow");
    await later(page, 100);
    const before = network.asked.length;
    network.cut();
    await network.seen(({ kind }) => kind === "arrow", before);
    await expect(state(page)).toHaveText("Live");
    await later(page, await newest(page));
    await expect(figure(page, "gaps")).toHaveText("0");
    await server.kill();
    await expect(state(page)).toContainText("Reconnecting");
    await server.restart();
    await expect(state(page)).toHaveText("Live");
    await expect(figure(page, "gaps")).toHaveText("1");
    await page.getByText(/^One gap/).click();
    await expect(page.getByText("the server lost its history")).toBeVisible();
    await expect(figure(page, "transport")).toHaveText("arrow");
  });
});

test("other columns appear when events have them", async ({ page, server }) => {
  await post(server, "cars", { seq: 1, car: "c1" });
  await page.goto("/?topic=cars&view=table");
  await choose(page, "arrow");
  await expect(page.getByRole("cell", { name: "c1" })).toBeVisible();
  await post(server, "cars", { seq: 2, car: "c2", more: { deep: ["x"] } });
  await expect(page.getByRole("columnheader", { name: "more" })).toBeVisible();
  await expect(page.getByRole("cell", { name: '{"deep":["x"]}' })).toBeVisible();
  await expect(page.locator("tbody th")).toHaveText(["1", "2"]);
  await expect(figure(page, "gaps")).toHaveText("0");
});

test.describe("of a value topic", () => {
  test.use({ args: ["--topic", "state,kind=value"], expected: BROKEN_NETWORK });

  test("there are no columns: the page keeps its transport", async ({ page, network, server }) => {
    await post(server, "state", { score: 1 });
    await page.goto("/?topic=state");
    await expect(page.getByText("score")).toBeVisible();
    await page.getByLabel("Transport").selectOption({ label: "arrow" });
    await network.seen(({ kind }) => kind === "arrow");
    await post(server, "state", { score: 2 });
    await expect(page.getByText("2", { exact: true }).first()).toBeVisible();
    await expect(figure(page, "transport")).toHaveText("websocket");
    await expect(state(page)).toHaveText("Live");
  });
});
