/** The demo: four panels over one session. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Locator, Page } from "@playwright/test";
import { read } from "../harness/live.js";
import { shifts, watchShifts } from "../harness/shifts.js";
import { BROKEN_NETWORK, test as base, expect } from "../harness/test.js";
import { TRANSPORTS } from "../sdk/transports.js";

const test = base.extend<{ data: string }>({
  data: async ({}, use) => {
    const folder = mkdtempSync(join(tmpdir(), "thalweg-demo-"));
    await use(folder);
    rmSync(folder, { recursive: true });
  },
});

const stored = test.extend({
  args: async ({ data }, use) => use(["--demo", "--data", data, "--store", "demo/**"]),
  expected: BROKEN_NETWORK,
});

const figure = (page: Page, id: string): Promise<number> =>
  page
    .locator(`#${id}`)
    .textContent()
    .then((text) => read(text));

/** Waits for this number of further numbers. */
async function more(page: Page, count: number): Promise<void> {
  const goal = (await figure(page, "received")) + count;
  await expect.poll(() => figure(page, "received")).toBeGreaterThanOrEqual(goal);
}

async function expectNoLoss(page: Page): Promise<void> {
  await expect(page.locator("#lost")).toHaveText("0");
  await expect(page.locator("#repeated")).toHaveText("0");
}

async function reconnected(page: Page, times: number): Promise<void> {
  await expect(page.locator("#reconnects")).toHaveText(`${times}`);
}

const kill = (page: Page): Promise<void> => page.getByRole("button", { name: "Kill the connection" }).click();
const words = (page: Page): Locator => page.getByRole("region", { name: "Answer", exact: true });
const done = (page: Page): Promise<void> => expect(page.locator("#answer-live")).toHaveText(/^\d+ words, none missing/);

/** Asks a question, and waits for the first words of its answer. */
async function asked(page: Page, name: string): Promise<string> {
  await page.getByRole("button", { name }).click();
  await expect(words(page)).toHaveText(/(\S+ ){10}/);
  return (await words(page).textContent()) ?? "";
}

/** Returns the pictures of a canvas at two times, with numbers between them. */
async function pictures(page: Page, id: string, between: number): Promise<string[]> {
  const picture = () => page.locator(`#${id}`).evaluate((canvas) => (canvas as HTMLCanvasElement).toDataURL());
  const first = await picture();
  await more(page, between);
  return [first, await picture()];
}

for (const [width, height] of [
  [1280, 800],
  [640, 400],
  [360, 740],
] as const) {
  stored(`shows its parts before its script, and they do not move: ${width} px`, async ({ page, server }) => {
    await page.setViewportSize({ width, height });
    await watchShifts(page);
    let release = (): void => {};
    const held = new Promise<void>((resolve) => (release = resolve));
    await page.route("**/assets/*.js", async (route) => {
      await held;
      await route.continue();
    });
    const boxes = () =>
      page.locator("main :is(h1, h2, section, dl, .says, .state, .actions, .body, .live)").evaluateAll((parts) =>
        parts
          // The board of a match has headings, too.
          .filter((part) => !part.closest(".body *"))
          .map((part) => {
            const { x, y, width, height } = part.getBoundingClientRect();
            return `${part.tagName} ${part.className} ${[x, y + scrollY, width, height].map((px) => px.toFixed(1))}`;
          }),
      );
    await page.goto("/demo", { waitUntil: "commit" });
    await expect(page.getByRole("heading")).toHaveCount(5);
    // Boxes have their sizes once the styles have arrived, and so once something is seen.
    await page.waitForFunction(() => performance.getEntriesByName("first-contentful-paint").length > 0);
    const before = await boxes();
    release();
    await more(page, 20);
    await expect(page.locator("#match-body button").first()).toBeVisible();
    expect(await boxes()).toEqual(before);
    await asked(page, "What is a position?");
    await page.locator("#match-body button").first().click();
    await expect(page.locator("#match-body .board")).toBeVisible();
    await kill(page);
    await reconnected(page, 1);
    await server.kill();
    await expect(page.locator("#state")).toHaveText(/^Not connected/);
    expect(await boxes()).toEqual(before);
    await server.restart();
    await reconnected(page, 2);
    await more(page, 20);
    await expectNoLoss(page);
    expect(await boxes()).toEqual(before);
    expect(await shifts(page)).toEqual([]);
  });
}

for (const name of TRANSPORTS) {
  stored(`loses nothing if a connection is killed: ${name}`, async ({ page, network }) => {
    await page.goto("/demo");
    await more(page, 5);
    await page.getByLabel("Transport").selectOption(name);
    const shown = await page.locator("#transport option:checked").textContent();
    for (const times of [1, 2]) {
      await expect(page.locator("#state")).toHaveText(`Connected over ${shown}.`);
      const from = network.asked.length;
      await kill(page);
      await network.seen(({ kind }) => kind === name, from);
      await reconnected(page, times);
      await more(page, 20);
      await expectNoLoss(page);
    }
    // In Chromium, only the timeout detects a forever frame that is cut.
    if (name === "forever-frame") return;
    network.cut();
    await more(page, 20);
    await expectNoLoss(page);
  });
}

stored("an answer continues after a reload, a kill of the server, and in a second tab", async ({ page, server }) => {
  await page.goto("/demo");
  await asked(page, "What happens when a connection breaks?");
  await page.reload();
  await expect(words(page)).toHaveText(/(\S+ ){15}/);
  const [other] = await Promise.all([
    page.waitForEvent("popup"),
    page.getByRole("link", { name: "Open in a second tab" }).click(),
  ]);
  await expect(words(other)).toHaveText(/(\S+ ){20}/);
  await server.kill();
  await expect(page.locator("#state")).toHaveText(/^Not connected/);
  await server.restart();
  await Promise.all([done(page), done(other)]);
  const id = new URL(page.url()).hash.slice("#answer=".length);
  const answer = await fetch(`${server.origin}/v1/topics/demo/answers/${id}?cursor=earliest&limit=1000`);
  const { events } = (await answer.json()) as { events: { text?: string }[] };
  const whole = events.map(({ text = "" }) => text).join("");
  for (const each of [page, other]) expect(await words(each).textContent()).toBe(whole);
  await expectNoLoss(page);
});

test.describe("in memory", () => {
  test.use({ args: ["--demo"], expected: BROKEN_NETWORK });

  test("says that the answer was lost with the server, and answers again", async ({ page, server }) => {
    await page.goto("/demo");
    await asked(page, "What is a position?");
    await server.kill();
    await server.restart();
    await expect(page.locator("#answer-live")).toContainText("Start it with --data DIR");
    await expect(page.locator("#lost")).toHaveText("unknown");
    await asked(page, "What is a position?");
    await done(page);
    await page.goto(`/demo?again#answer=${"x".repeat(12)}`);
    await expect(page.locator("#answer-live")).toHaveText(/^This server does not have the answer/);
  });
});

test.describe("of the demo", () => {
  test.use({ args: ["--demo"] });

  test("map, chart and matches change, and Pause stops them", async ({ page }) => {
    await page.goto("/demo");
    await expect(page.locator("#map-live")).toHaveText(/^100 cars, the fastest c\d{5} at \d+ km\/h$/);
    await expect(page.locator("#chart-live")).toHaveText(/ km\/h now/);
    for (const id of ["map", "chart"]) expect(new Set(await pictures(page, id, 20)).size, id).toBe(2);
    const versions = page.locator("#matches-live");
    const before = await versions.textContent();
    await expect(versions).not.toHaveText(before ?? "");
    // 100 cars alone send 140 kB a second.
    await expect.poll(() => figure(page, "rate")).toBeGreaterThan(1000);
    expect(await figure(page, "rate")).toBeLessThan(50_000);
    await page.getByRole("button", { name: "Pause" }).click();
    for (const id of ["map", "chart"]) expect(new Set(await pictures(page, id, 20)).size, id).toBe(1);
    await page.getByRole("button", { name: "Pause" }).click();
    expect(new Set(await pictures(page, "map", 20)).size).toBe(2);
    await expectNoLoss(page);
  });

  test("opens a match and goes back by keyboard", async ({ page }) => {
    await page.goto("/demo");
    const first = page.locator("#match-body button").first();
    await first.focus();
    await page.keyboard.press("Enter");
    await expect(page.locator("#match-body .board")).toBeVisible();
    await expect(page.getByRole("button", { name: "All matches" })).toBeFocused();
    await page.keyboard.press("Enter");
    await expect(page.locator("#match-body .card")).toHaveCount(10);
    await expect(page.locator("#match-body")).toBeFocused();
  });

  test("shows its code in place of the panel", async ({ page }) => {
    await page.goto("/demo");
    const topics = ["demo/numbers", "car-positions", "max-speed", "matchesfeed/all", "demo/answers/"];
    for (const [at, topic] of topics.entries()) {
      const code = page.locator("pre").nth(at);
      await expect(code).toBeHidden();
      await page.locator("summary").nth(at).click();
      await expect(code).toContainText(topic);
      await expect(code).toContainText("session.subscribe(");
      await page.locator("summary").nth(at).click();
    }
  });

  test("has the links of the other pages", async ({ page }) => {
    const links = () =>
      page
        .getByRole("navigation", { name: "Pages" })
        .getByRole("link")
        .evaluateAll((all) => all.map((link) => `${link.textContent} ${link.getAttribute("href")}`));
    await page.goto("/demo");
    const own = await links();
    await page.getByRole("link", { name: "Overview" }).click();
    await expect(page.getByRole("heading", { level: 1, name: "Overview" })).toBeVisible();
    expect(await links()).toEqual(own);
  });
});

test.describe("of a server with tokens", () => {
  test.use({
    args: ["--demo", "--token", "inspector=look-at-me-1234567890,inspect=**", "--token", "everybody,subscribe=**"],
    expected: /401 \(Unauthorized\)/,
  });

  test("is the first page without the right to inspect, and says that nobody may ask", async ({ page }) => {
    await page.goto("/");
    await page.waitForURL("**/demo");
    await more(page, 5);
    await page.getByRole("button", { name: "What is a position?" }).click();
    await expect(page.locator("#answer-live")).toHaveText(/^Publishing to demo\/questions needs a token/);
  });
});

test.describe("of a server without the demo", () => {
  test.use({ args: [], expected: /404 \(Not Found\)/ });

  test("says how to start it", async ({ page }) => {
    await page.goto("/demo");
    await expect(page.locator(".state")).toContainText("thalweg serve --demo");
  });
});
