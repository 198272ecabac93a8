/** The match centre, from a published document to a highlighted cell. */

import type { Page } from "@playwright/test";
import { list, MATCH_FEED, match, post } from "../harness/match.js";
import { type Provider, provider } from "../harness/provider.js";
import { expect, test } from "../harness/test.js";
import { expectAccessible } from "./accessible.js";

test.use({ args: [...MATCH_FEED] });

const TOPIC = "matchesfeed/8/matchcentre";

/** A transparent background. */
const NOTHING = "rgba(0, 0, 0, 0)";

const field = (page: Page, name: string) => page.locator(`[data-field="${name}"]`);
const marked = (page: Page) => page.locator(".matches .changed");

test("one match: shows the published document, and highlights only the changes", async ({ page, server }) => {
  const game = match("8");
  await post(server, TOPIC, game);
  await page.goto("/matches?match=8");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Reds against Blues");
  await expect(page.locator(".clock")).toHaveText("12:05");
  await expect(field(page, "t1p9/rating")).toHaveText("6.0");
  await expect(page.getByText("Yellow card: Blues 5")).toBeVisible();
  await expect(page.getByRole("region", { name: "Line-up of Reds" }).getByRole("row")).toHaveCount(16);
  await expect(marked(page)).toHaveCount(0);

  const scorer = game.lineups.find(({ id }) => id === "t1p9");
  if (!scorer) throw new Error("there is no Reds 9");
  game.home.score = 1;
  game.clock.second = 6;
  scorer.rating = 7.4;
  scorer.stats["shots"] = 1;
  game.timeline.unshift({ id: "e2", minute: 12, type: "goal", team: "t1", player: "t1p9", text: "Goal: Reds 9" });
  await post(server, TOPIC, game);

  await expect(field(page, "home/score").locator(".changed")).toHaveText("1");
  await expect(field(page, "t1p9/rating").locator(".changed")).toHaveText("7.4");
  await expect(field(page, "t1p9/shots").locator(".changed")).toHaveText("1");
  await expect(page.locator(".timeline li.changed")).toContainText("Goal: Reds 9");
  await expect(marked(page)).toHaveCount(4);
  await expect(page.getByRole("status").filter({ hasText: "Reds" })).toHaveText("Reds 1, Blues 0");
  await expect(page.locator(".clock")).toHaveText("12:06");
  // The version arrived as a patch.
  await expect(page.locator(".foot")).toContainText("2 versions in");
  await expect(page.locator(".foot")).toContainText("patches saved");
});

test("a highlight is visible, even with reduced motion", async ({ page, server }) => {
  const game = match("8");
  for (const reducedMotion of ["no-preference", "reduce"] as const) {
    await page.emulateMedia({ reducedMotion });
    await post(server, TOPIC, game);
    await page.goto("/matches?match=8");
    await expect(page.locator(".clock")).toBeVisible();
    game.home.score += 1;
    await post(server, TOPIC, game);
    const mark = field(page, "home/score").locator(".changed");
    await expect(mark).toHaveText(`${game.home.score}`);
    // The highlight appears and disappears; it fades only without reduced motion.
    const background = () => mark.evaluate((element) => getComputedStyle(element).backgroundColor);
    expect(await background()).not.toBe(NOTHING);
    await expect.poll(background).toBe(NOTHING);
    const duration = await mark.evaluate((element) => getComputedStyle(element).transitionDuration);
    expect(Number.parseFloat(duration) > 0).toBe(reducedMotion === "no-preference");
  }
});

test("all matches, one of them, and back, by keyboard", async ({ page, server }) => {
  const [one, other] = [match("8"), match("9")];
  other.status = "half_time";
  await post(server, "matchesfeed/all", list(one, other));
  await post(server, "matchesfeed/9/matchcentre", other);
  await page.goto("/matches");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Matches");
  const cards = page.locator(".card a");
  await expect(cards).toHaveCount(2);
  await expect(cards.last()).toContainText("Half-time");
  one.away.score = 2;
  await post(server, "matchesfeed/all", list(one, other));
  await expect(field(page, "8/away/score").locator(".changed")).toHaveText("2");
  await expect(marked(page)).toHaveCount(1);
  await cards.last().focus();
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/\/matches\?match=9$/);
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Reds against Blues");
  await page.goBack();
  await expect(cards).toHaveCount(2);
  await page.goForward();
  await page.getByRole("link", { name: "All matches" }).click();
  await expect(cards).toHaveCount(2);
});

test("a feed with other documents does no harm", async ({ page, server }) => {
  await page.goto("/matches?match=8");
  await expect(page.getByRole("heading", { name: "Waiting for the first version" })).toBeVisible();
  for (const wrong of [null, 7, "text", [], {}, { id: "8", home: {}, away: null }]) {
    await post(server, TOPIC, wrong);
    await expect(page.getByRole("heading", { name: "This document is not from a match feed" })).toBeVisible();
  }
  const odd = {
    ...match("8"),
    lineups: [null, 1, { id: "x", team: "t1", stats: null }],
    timeline: "none",
    venue: null,
  };
  await post(server, TOPIC, odd);
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Reds against Blues");
});

test("the end of a deleted match is shown", async ({ page, server }) => {
  await post(server, TOPIC, match("8"));
  await page.goto("/matches?match=8");
  await expect(page.locator(".foot")).toContainText("Live");
  await fetch(`${server.origin}/v1/topics/${TOPIC}`, { method: "DELETE" });
  await expect(page.locator(".foot")).toContainText("The topic was deleted");
});

for (const path of ["/matches", "/matches?match=8", `/?topic=${TOPIC}`]) {
  test(`${path}: axe finds nothing, and the page fits`, async ({ page, server }) => {
    test.slow();
    const game = match("8");
    await post(server, TOPIC, game);
    await post(server, "matchesfeed/all", list(game));
    await page.goto(path);
    await page.locator(".card, .board, .document").first().waitFor();
    await expectAccessible(page, async () => {
      // The check includes highlights.
      game.home.score += 1;
      await post(server, TOPIC, game);
      await post(server, "matchesfeed/all", list(game));
      await page.locator(".changed").first().waitFor({ state: "attached" });
    });
    for (const width of [360, 1280]) {
      await page.setViewportSize({ width, height: 740 });
      expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(width);
    }
  });
}

test.describe("from an HTTP API without push", () => {
  const fetched = test.extend<{ api: Provider }>({
    api: async ({}, use) => {
      const api = await provider();
      await use(api);
      await api.close();
    },
  });
  fetched.use({
    args: ({ api }, use) =>
      use(["--upstream", `matchesfeed/**=${api.origin}/{topic},max-age=100ms,min-interval=100ms`]),
  });

  fetched("a change in the API is highlighted in its cell, and nowhere else", async ({ page, api }) => {
    const game = match("8");
    api.set(TOPIC, game);
    await page.goto("/matches?match=8");
    await expect(field(page, "t1p9/rating")).toHaveText("6.0");
    // Repeated answers with the same document cause no highlight.
    const asked = api.requests();
    await expect.poll(() => api.requests()).toBeGreaterThan(asked + 3);
    await expect(marked(page)).toHaveCount(0);
    const scorer = game.lineups.find(({ id }) => id === "t1p9");
    if (!scorer) throw new Error("there is no Reds 9");
    scorer.rating = 7.4;
    api.set(TOPIC, game);
    await expect(field(page, "t1p9/rating").locator(".changed")).toHaveText("7.4");
    await expect(marked(page)).toHaveCount(1);
    await expect(page.locator(".foot")).toContainText("2 versions in");
  });
});

test.describe("the live page", () => {
  test("shows a value topic as a document, highlights changes, and shows the savings", async ({ page, server }) => {
    const game = match("8");
    await post(server, TOPIC, game);
    await page.goto(`/?topic=${TOPIC}`);
    const row = (pointer: string) => page.locator(`.document tr[data-pointer="${pointer}"]`);
    await expect(row("/clock/second")).toContainText("5");
    await expect(page.locator(".document .changed")).toHaveCount(0);
    game.clock.second = 6;
    game.lineups[8] = { ...(game.lineups[8] as (typeof game.lineups)[number]), rating: 9.1 };
    await post(server, TOPIC, game);
    await expect(row("/clock/second").locator(".changed")).toHaveText("6");
    // A closed container shows the number of changes in it.
    await expect(row("/lineups").locator(".changed")).toHaveText("28 elements, 1 changed");
    await expect(page.locator(".document .changed")).toHaveCount(2);
    await row("/lineups").getByRole("button").focus();
    await page.keyboard.press("Enter");
    await expect(row("/lineups/8")).toContainText("8 · Reds 9");
    await row("/lineups/8").getByRole("button").click();
    await expect(row("/lineups/8/rating").locator(".changed")).toHaveText("9.1");
    await expect(page.locator(".stats dl")).toContainText(/saved[1-9]\d? %/);
    await expect(page.getByText(/^Received 2 versions in/)).toBeVisible();
    await page.getByRole("button", { name: "Pause" }).click();
    game.clock.second = 7;
    await post(server, TOPIC, game);
    await expect(page.getByText(/^Received 3 versions in/)).toBeVisible();
    await expect(row("/clock/second")).toContainText("6");
  });

  test("is fast with a large document: few rows, and little time for each version", async ({ page, server }) => {
    const game = match("8", 90);
    expect(JSON.stringify(game).length).toBeGreaterThan(160_000);
    await post(server, TOPIC, game);
    await page.goto(`/?topic=${TOPIC}`);
    await page.locator(".document").waitFor();
    await page.locator('.document tr[data-pointer="/lineups"]').getByRole("button").click();
    await page.locator('.document tr[data-pointer="/lineups/0"]').getByRole("button").click();
    await page.locator('.document tr[data-pointer="/lineups/0/actions"]').getByRole("button").click();
    await expect(page.getByRole("button", { name: "40 more" })).toBeVisible();
    for (let second = 6; second < 16; second++) {
      game.clock.second = second;
      await post(server, TOPIC, game);
      await expect(page.locator('.document tr[data-pointer="/clock/second"]')).toContainText(`${second}`);
    }
    expect(await page.locator(".document tr").count()).toBeLessThan(200);
    await page.getByRole("button", { name: "40 more" }).click();
    await expect(page.locator('.document tr[data-pointer="/lineups/0/actions/89"]')).toBeVisible();
  });
});

test.describe("of the demo", () => {
  test.use({ args: ["--demo"] });

  test("matches are fetched from their provider, and changes are highlighted", async ({ page }) => {
    await page.goto("/matches");
    const cards = page.locator(".card");
    await expect(cards).toHaveCount(10);
    await expect(cards.locator(".minute").first()).toHaveText(/^\d\d:\d\d$|^Half-time$/);
    await cards.first().getByRole("link").click();
    await expect(page.getByRole("region", { name: /^Line-up of/ })).toHaveCount(2);
    // In each second of the match there is a pass.
    await expect(page.locator(".lineup .changed").first()).toBeAttached();
    await expect.poll(async () => Number(await page.locator(".foot").getAttribute("data-versions"))).toBeGreaterThan(4);
    await expect(page.locator(".foot")).toContainText("patches saved");
    await page.goto("/?topic=matchesfeed/1/matchcentre");
    await expect(page.locator('.document tr[data-pointer="/lineups"] .changed')).toContainText("changed");
  });
});
