/** Checks of all pages: content security policy, layout, accessibility, keyboard. */

import type { Page } from "@playwright/test";
import { startSmall } from "../harness/lab.js";
import { later } from "../harness/live.js";
import { expect, test } from "../harness/test.js";
import { expectAccessible } from "./accessible.js";

const PAGES = [
  {
    name: "Overview",
    path: "/",
    ready: (page: Page) => page.getByRole("link", { name: "car_live_data" }).first().waitFor(),
  },
  {
    name: "Demo",
    path: "/demo",
    ready: (page: Page) => page.getByText(/^100 cars, the fastest/).waitFor(),
  },
  { name: "Live, table", path: "/?topic=car_live_data&view=table", ready: (page: Page) => later(page, 100) },
  {
    name: "Live, chart",
    path: "/?topic=car_live_data&view=chart",
    ready: (page: Page) => page.getByRole("img", { name: /^Chart/ }).waitFor(),
  },
  {
    name: "Live, map",
    path: "/?topic=car_live_data&view=map",
    ready: (page: Page) => page.locator("canvas").waitFor(),
  },
  { name: "Matches", path: "/matches", ready: (page: Page) => page.getByRole("heading", { level: 1 }).waitFor() },
  { name: "Lab", path: "/lab", ready: (page: Page) => page.getByRole("button", { name: "Start" }).waitFor() },
  { name: "Reports", path: "/reports", ready: (page: Page) => page.getByRole("heading", { level: 1 }).waitFor() },
] as const;

// Without runs the list of runs is 404, which browsers log.
test.use({ args: ["--demo"], expected: /404 \(Not Found\)/ });

/** Directives in the policy of every page. A test of the server checks the others. */
const POLICY = ["default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "base-uri 'none'"];

for (const { name, path, ready } of PAGES) {
  test(`${name}: keeps its policy, and fits into 360 px`, async ({ page }) => {
    await page.setViewportSize({ width: 360, height: 740 });
    const answer = await page.goto(path);
    const policy = answer?.headers()["content-security-policy"] ?? "";
    for (const directive of POLICY) expect(policy).toContain(directive);
    expect(policy).not.toContain("unsafe");
    expect(answer?.headers()["cache-control"]).toBe("no-cache");
    await ready(page);
    const wide = await page.evaluate(() => ({
      page: document.documentElement.scrollWidth,
      // Clipped content is an error too.
      out: [...document.querySelectorAll("main :is(h1, h2, p, label, button, select, input, dl, pre)")]
        .filter(
          (part) => !part.closest(".rows, .scroll, .quiet") && part.getBoundingClientRect().right > innerWidth + 1,
        )
        .map((element) => element.outerHTML.slice(0, 100)),
    }));
    expect(wide).toEqual({ page: 360, out: [] });
  });

  test(`${name}: axe finds nothing`, async ({ page }) => {
    test.slow();
    await page.goto(path);
    await ready(page);
    // A page that renders continuously leaves axe a small part of a core.
    const pause = page.getByRole("button", { name: "Pause", exact: true });
    if (await pause.isVisible()) await pause.click();
    await expectAccessible(page);
  });

  test(`${name}: by keyboard alone`, async ({ page }) => {
    await page.goto(path);
    await ready(page);
    await page.keyboard.press("Tab");
    await expect(page.getByRole("link", { name: /^Skip/ })).toBeFocused();
    // Tab reaches every control, the focus is visible, and Tab leaves it again.
    const missed = await page.evaluate(walkable);
    const reached = new Set<string>();
    for (let step = 0; step < missed.length * 2 + 10; step++) {
      const { key, isSeen } = await page.evaluate(focused);
      if (key === null) break;
      expect(isSeen, `${key} shows that it has the focus`).toBe(true);
      reached.add(key);
      await page.keyboard.press("Tab");
    }
    expect(missed.filter((key) => !reached.has(key))).toEqual([]);
  });
}

/** Pages without content, of a server without sources. */
const EMPTY = [
  { name: "Overview, no topics", path: "/", says: "No topic yet." },
  { name: "Live, no topics", path: "/live", says: "No topic yet" },
  { name: "Live, a topic that nobody publishes to", path: "/?topic=nobody/here", says: "Waiting for the first event" },
  { name: "Lab, no sources", path: "/lab", says: "thalweg serve --demo" },
  { name: "Reports, no folder", path: "/reports", says: "thalweg serve --runs" },
] as const;

test.describe("of an empty server", () => {
  test.use({ args: [] });

  for (const { name, path, says } of EMPTY) {
    test(`${name}: axe finds nothing`, async ({ page }) => {
      test.slow();
      await page.goto(path);
      await page.getByText(says).first().waitFor();
      await expectAccessible(page);
    });
  }
});

test.describe("of a server that requires a token", () => {
  test.use({
    args: [
      "--token",
      "subscriber=read-me-1234567890,subscribe=**",
      "--token",
      "publisher=write-me-1234567890,subscribe=**,publish=**,inspect=**,admin=true",
    ],
  });
  test.use({ expected: /401 \(Unauthorized\)/ });

  test("its form: axe finds nothing", async ({ page }) => {
    test.slow();
    await page.goto("/");
    await page.getByLabel("Token").waitFor();
    await expectAccessible(page);
  });
});

test("Lab, with a result: axe finds nothing", async ({ page }) => {
  test.slow();
  await page.goto("/lab");
  await startSmall(page, 1);
  await page.getByRole("region", { name: "Figures" }).waitFor();
  await expectAccessible(page);
});

/** Returns the names of all controls; of each group of radio buttons, only the checked one. Runs in the page. */
function walkable(): string[] {
  const all = document.querySelectorAll("a[href], button, select, input, [tabindex='0']");
  return [...all]
    .filter((element) => !(element as HTMLButtonElement).disabled && element.checkVisibility())
    .filter((it) => (it as HTMLInputElement).type !== "radio" || (it as HTMLInputElement).checked)
    .map((it, at) => ((it as HTMLElement).dataset["walk"] ??= `${at} ${it.tagName} ${it.textContent?.slice(0, 20)}`));
}

/** Returns the focused element, and whether the focus is visible. Runs in the page. */
function focused(): { key: string | null; isSeen: boolean } {
  const it = document.activeElement as HTMLElement | null;
  if (!it || it === document.body) return { key: null, isSeen: false };
  const marked = [it, it.closest("label")].some((part) => {
    if (!part) return false;
    const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(part);
    return (outlineStyle !== "none" && parseFloat(outlineWidth) > 0) || boxShadow !== "none";
  });
  return { key: it.dataset["walk"] ?? it.tagName, isSeen: marked };
}

test("visits all pages and changes the topic by keyboard", async ({ page }) => {
  await page.goto("/?topic=car_live_data&view=table");
  await later(page, 100);
  await page.getByRole("link", { name: "Lab" }).focus();
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/\/lab$/);
  await page.getByRole("link", { name: "Reports" }).focus();
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/\/reports$/);
  await page.getByRole("link", { name: "Overview" }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("link", { name: "car_live_data" }).first().waitFor();
  await page.getByRole("link", { name: "Live", exact: true }).focus();
  await page.keyboard.press("Enter");
  // A browser logs an error for a WebSocket that is closed while it connects.
  await later(page, 1);
  await page.getByLabel("Topic").focus();
  await page.keyboard.type("ticker");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Live data of ticker");
});
