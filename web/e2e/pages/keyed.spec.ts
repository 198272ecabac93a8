/** The live page of a keyed topic: a row for each key. */

import type { Page } from "@playwright/test";
import { state } from "../harness/live.js";
import type { Server } from "../harness/server.js";
import { BROKEN_NETWORK, expect, test } from "../harness/test.js";

test.use({ args: ["--topic", "vehicles/**,kind=keyed,key=/id"], expected: BROKEN_NETWORK });

async function publish(server: Server, ...events: { id: string; speed: number }[]): Promise<void> {
  const response = await fetch(`${server.origin}/v1/topics/vehicles/city`, {
    method: "POST",
    headers: { "Content-Type": "application/x-ndjson" },
    body: events.map((event) => JSON.stringify(event)).join("\n"),
  });
  expect(response.status).toBe(200);
}

async function remove(server: Server, key: string): Promise<void> {
  const url = `${server.origin}/v1/topics/vehicles/city?key=${encodeURIComponent(key)}`;
  expect((await fetch(url, { method: "DELETE" })).status).toBe(204);
}

const events = (page: Page) => page.getByRole("region", { name: "Events" });
/** The key of each row with the cell of its speed. */
const rows = (page: Page): Promise<string[]> =>
  events(page)
    .locator("tbody tr")
    .evaluateAll((all) => all.map((row) => `${row.querySelector("th")?.textContent} ${row.lastChild?.textContent}`));

test("the table has a row for each key, which changes in place until the key is removed", async ({ page, server }) => {
  await publish(server, { id: "bus 7", speed: 1 }, { id: "tram 2", speed: 2 }, { id: "bus 7", speed: 3 });
  await page.goto("/live?topic=vehicles/city");
  await expect.poll(() => rows(page)).toEqual(["tram 2 2", "bus 7 3"]);
  await expect(events(page).getByRole("columnheader").first()).toHaveText("key");
  await publish(server, { id: "tram 2", speed: 4 });
  await expect.poll(() => rows(page)).toEqual(["tram 2 4", "bus 7 3"]);
  await publish(server, { id: "bus 9", speed: 5 });
  await expect.poll(() => rows(page)).toEqual(["tram 2 4", "bus 7 3", "bus 9 5"]);
  await expect(page.getByText("3 keys in memory.")).toBeVisible();
  await remove(server, "bus 7");
  await expect.poll(() => rows(page)).toEqual(["tram 2 4", "bus 9 5"]);

  // The state of another life of the server replaces all rows.
  await server.kill();
  await server.restart();
  await publish(server, { id: "bus 1", speed: 6 });
  await expect.poll(() => rows(page)).toEqual(["bus 1 6"]);
  await expect(state(page)).toHaveText("Live");
});

test("a search and an order hold while rows change", async ({ page, server }) => {
  await publish(server, { id: "bus 7", speed: 1 }, { id: "tram 2", speed: 2 }, { id: "bus 9", speed: 3 });
  await page.goto("/live?topic=vehicles/city&view=table");
  await page.getByLabel("Filter").fill("bus");
  await expect.poll(() => rows(page)).toEqual(["bus 7 1", "bus 9 3"]);
  await expect(page.getByText("2 of 3 keys in memory.")).toBeVisible();
  await events(page).getByRole("button", { name: "speed" }).click();
  await expect.poll(() => rows(page)).toEqual(["bus 9 3", "bus 7 1"]);
  await publish(server, { id: "bus 7", speed: 4 }, { id: "tram 2", speed: 5 });
  await expect.poll(() => rows(page)).toEqual(["bus 7 4", "bus 9 3"]);
  await remove(server, "bus 9");
  await expect.poll(() => rows(page)).toEqual(["bus 7 4"]);
  await page.getByLabel("Filter").fill("speed>4");
  await expect.poll(() => rows(page)).toEqual(["tram 2 5"]);
});

test("a paused table holds its rows, and shows an event in full", async ({ page, server }) => {
  await publish(server, { id: "bus 7", speed: 1 });
  await page.goto("/live?topic=vehicles/city&view=table");
  await expect.poll(() => rows(page)).toEqual(["bus 7 1"]);
  await page.getByRole("button", { name: "Pause" }).click();
  await publish(server, { id: "bus 7", speed: 2 });
  await expect(page.getByText("select a key to see the full event; 1 more received since")).toBeVisible();
  expect(await rows(page)).toEqual(["bus 7 1"]);
  await events(page).getByRole("button", { name: "bus 7" }).click();
  await expect(page.getByRole("region", { name: "Event 1" })).toContainText('"speed": 1');
});
