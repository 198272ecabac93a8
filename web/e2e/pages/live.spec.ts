/** The live page with any topic. */

import { figure, later, newest, read, readMs, state } from "../harness/live.js";
import { BROKEN_NETWORK, expect, test } from "../harness/test.js";
import { TRANSPORTS } from "../sdk/transports.js";

const ROWS = ["--source", "rows=cars,cars=20,interval=20ms"];

/** Publishes as curl does. */
async function post(url: string | URL, body: string): Promise<void> {
  const headers = { "Content-Type": "application/x-www-form-urlencoded" };
  expect((await fetch(url, { method: "POST", headers, body })).status).toBe(200);
}

test("without a topic the page shows how to create one, and then shows the topic", async ({ page, server }) => {
  await page.goto("/live");
  await expect(page.getByRole("heading", { name: "No topic yet" })).toBeVisible();
  const said = await page.locator("pre").textContent();
  const [, body, address] = /curl -d '(.*)' (\S+)/.exec(said ?? "") ?? [];
  await post(new URL(new URL(address ?? "").pathname, server.origin), body ?? "");
  // The page asks again on its own.
  await expect(page.getByRole("cell", { name: "world" })).toBeVisible();
});

test("an empty topic shows how to publish", async ({ page, server }) => {
  await page.goto("/?topic=quiet/one");
  await expect(page.getByRole("heading", { name: "Waiting for the first event of quiet/one" })).toBeVisible();
  await post(`${server.origin}/v1/topics/quiet/one`, '{"speed":39}');
  await expect(page.getByRole("cell", { name: "39" })).toBeVisible();
  await expect(page.getByRole("columnheader", { name: "speed" })).toBeVisible();
});

test.describe("with a continuous source", () => {
  test.use({ args: ROWS });

  test("the table fills, and follows the newest row", async ({ page }) => {
    await page.goto("/?topic=rows");
    const seen = await later(page, 0);
    await later(page, seen + 2000);
    await expect(state(page)).toHaveText("Live");
    await expect(figure(page, "transport")).toHaveText("websocket");
    await expect.poll(async () => read(await figure(page, "events/s").textContent())).toBeGreaterThan(0);
    await expect.poll(async () => read(await figure(page, "bytes/s").textContent())).toBeGreaterThan(0);
    expect(await page.locator("tbody tr").count()).toBeLessThan(200);
  });

  test("a paused page stands still and continues to receive", async ({ page }) => {
    await page.goto("/?topic=rows");
    await later(page, 100);
    const pause = page.getByRole("button", { name: "Pause" });
    const shown = await newest(page);
    await pause.click();
    await expect(pause).toHaveAttribute("aria-pressed", "true");
    const rows = page.getByRole("region", { name: "Events" }).locator("tbody");
    const held = await rows.innerText();
    // The table has not moved.
    expect(await newest(page)).toBeGreaterThanOrEqual(shown);
    const since = page.getByText(/([1-9][\d,]*) more received since/);
    await expect(since).toBeVisible();
    const said = await since.textContent();
    await expect(since).not.toHaveText(said ?? "");
    expect(await rows.innerText()).toBe(held);
    await expect(state(page)).toContainText("paused here");
    const at = await newest(page);
    await pause.click();
    await later(page, at + 1000);
  });

  test("a paused page shows an event in full", async ({ page, server }) => {
    await post(`${server.origin}/v1/topics/long`, JSON.stringify({ text: `${"x".repeat(300)} the end` }));
    await page.goto("/?topic=long&view=table");
    await later(page, 0);
    await page.getByRole("button", { name: "Pause" }).click();
    const row = page.getByRole("region", { name: "Events" }).getByRole("button", { name: "1", exact: true });
    await row.focus();
    await page.keyboard.press("Enter");
    const event = page.getByRole("region", { name: "Event 1" });
    await expect(event).toContainText("the end");
    await page.keyboard.press("Enter");
    await expect(event).toBeHidden();
    await row.click();
    await page.getByRole("button", { name: "Close" }).click();
    await expect(event).toBeHidden();
  });

  test("without Follow, the table stands still", async ({ page }) => {
    await page.goto("/?topic=rows");
    const shown = await later(page, 1000);
    await page.getByRole("button", { name: "Follow" }).click();
    expect(await newest(page)).toBeGreaterThanOrEqual(shown);
  });

  test("the page renders at the selected rate", async ({ page }) => {
    let received = 0;
    page.on("websocket", (socket) => socket.on("framereceived", () => void received++));
    await page.clock.install();
    await page.goto("/?topic=rows&view=table");
    await later(page, 100);
    await page.clock.pauseAt(Date.now() + 1000);
    const stepMs = 50;
    /** Advances the page's clock to the next render. Returns how far, ms. */
    const untilRender = async (): Promise<number> => {
      const shown = await newest(page);
      for (let ms = stepMs; ; ms += stepMs) {
        const before = received;
        await expect.poll(() => received).toBeGreaterThan(before + 1);
        await page.clock.runFor(stepMs);
        if ((await newest(page)) !== shown) return ms;
      }
    };
    const pace = page.getByLabel("Update at most every");
    await pace.selectOption({ label: "1 s" });
    // The first render ends a pause that began with the previous rate.
    await untilRender();
    const slow = await untilRender();
    expect(slow).toBeGreaterThanOrEqual(1000);
    expect(slow).toBeLessThanOrEqual(1000 + 2 * stepMs);
    await pace.selectOption({ label: "50 ms" });
    await untilRender();
    expect(await untilRender()).toBeLessThanOrEqual(3 * stepMs);
  });

  test("settings stay when the topic changes", async ({ page, server }) => {
    await post(`${server.origin}/v1/topics/other`, "1");
    await page.goto("/?topic=rows");
    await later(page, 100);
    await page.getByLabel("Transport").selectOption({ label: "sse" });
    await page.getByLabel("Update at most every").selectOption({ label: "100 ms" });
    await page.getByLabel("Topic").selectOption({ label: "other" });
    await expect(page.getByRole("heading", { level: 1 })).toHaveText("Live data of other");
    await expect(figure(page, "transport")).toHaveText("sse");
    await expect(page.getByLabel("Update at most every").locator(":checked")).toHaveText("100 ms");
  });

  test("a filter shows only matching rows", async ({ page }) => {
    await page.goto("/?topic=rows");
    await later(page, 1000);
    await page.getByLabel("Filter").fill("c00007");
    await expect(page.getByText(/^[\d,]+ of [\d,]+ rows/)).toBeVisible();
    const rows = page.getByRole("region", { name: "Events" }).locator("tbody tr");
    await expect(rows.first()).toContainText("c00007");
    for (const text of await rows.allInnerTexts()) expect(text).toContain("c00007");
    await page.getByLabel("Filter").fill("no row says this");
    await expect(page.getByText(/^0 of [\d,]+ rows/)).toBeVisible();
    await page.getByLabel("Filter").fill("");
    await later(page, await newest(page));
  });

  test("the table sorts by a column, descending, ascending, and not at all", async ({ page }) => {
    await page.goto("/?topic=rows");
    await later(page, 1000);
    const pause = page.getByRole("button", { name: "Pause" });
    await pause.click();
    // The fourth column of a car is its speed.
    const head = page.getByRole("columnheader").nth(4);
    const column = (): Promise<number[]> =>
      page
        .locator("tbody tr td:nth-of-type(4)")
        .allInnerTexts()
        .then((texts) => texts.map(Number));
    for (const [order, sign] of [
      ["descending", -1],
      ["ascending", 1],
    ] as const) {
      await head.getByRole("button").click();
      await expect(head).toHaveAttribute("aria-sort", order);
      const isSorted = async (): Promise<boolean> => {
        const values = await column();
        return values.every((value, at) => at === 0 || sign * (value - (values[at - 1] ?? 0)) >= 0);
      };
      await expect.poll(isSorted).toBe(true);
    }
    await head.getByRole("button").click();
    await expect(head).not.toHaveAttribute("aria-sort", /./);
  });

  test("a table that is scrolled back stays there; Follow returns to the newest row", async ({ page }) => {
    await page.goto("/?topic=rows");
    await later(page, 2000);
    const rows = page.getByRole("region", { name: "Events" });
    const follow = page.getByRole("button", { name: "Follow" });
    await expect(follow).toHaveAttribute("aria-pressed", "true");
    await rows.hover();
    await page.mouse.wheel(0, -5000);
    await expect(follow).toHaveAttribute("aria-pressed", "false");
    const held = await newest(page);
    const lag = read(await figure(page, "events/s").textContent());
    expect(lag).toBeGreaterThan(0);
    await expect(page.getByText(/rows in memory/)).not.toHaveText(
      (await page.getByText(/rows in memory/).textContent()) ?? "",
    );
    expect(await newest(page)).toBe(held);
    await follow.click();
    await later(page, held + 1000);
  });

  test("the chart draws the selected columns", async ({ page }) => {
    await page.goto("/?topic=rows&view=chart");
    await expect(page.getByRole("img", { name: /^Chart of/ })).toBeVisible();
    const ink = async (): Promise<string> =>
      page
        .locator(".chart canvas")
        .first()
        .evaluate((element) => (element as HTMLCanvasElement).toDataURL());
    const drawn = await ink();
    await expect.poll(ink).not.toBe(drawn);
    const box = page.getByRole("group", { name: "Columns" }).getByRole("checkbox", { checked: false }).first();
    const name = await box.evaluate((input) => input.closest("label")?.textContent?.trim());
    await box.check();
    await expect(page.locator(".chart .legend")).toContainText(name ?? "?");
    await page.getByLabel("Time window").selectOption({ label: "10 s" });
    await expect(page.getByRole("img", { name: /^Chart of .*, the last 10 s$/ })).toBeVisible();
  });

  test("the map draws positions", async ({ page }) => {
    await page.goto("/?topic=rows");
    await later(page, 100);
    await page.getByRole("radio", { name: "map" }).check();
    const map = page.locator("canvas").first();
    const ink = (): Promise<string> => map.evaluate((element) => (element as HTMLCanvasElement).toDataURL());
    const drawn = await ink();
    await expect.poll(ink).not.toBe(drawn);
    expect(new URL(page.url()).searchParams.get("view")).toBe("map");
  });

  test("the transport can be switched while data flows", async ({ page }) => {
    await page.goto("/?topic=rows");
    for (const name of TRANSPORTS) {
      await page.getByLabel("Transport").selectOption({ label: name });
      await expect(figure(page, "transport")).toHaveText(name);
      await later(page, await newest(page));
    }
    await page.getByLabel("Transport").selectOption({ index: 0 });
    await expect(figure(page, "transport")).toHaveText("websocket");
    // Lost or repeated events would be a gap, or a missing row.
    await expect(figure(page, "gaps")).toHaveText("0");
    await page.getByRole("button", { name: "Pause" }).click();
    const offsets = (await page.locator("tbody th").allInnerTexts()).map(Number);
    expect(offsets).toEqual(offsets.map((_, at) => (offsets[0] ?? 0) + at));
  });

  test.describe("and a network that breaks", () => {
    test.use({ expected: BROKEN_NETWORK });

    test("a killed server shows as reconnecting, and its restart as a gap", async ({ page, server }) => {
      await page.goto("/?topic=rows");
      await later(page, 100);
      await server.kill();
      await expect(state(page)).toContainText("Reconnecting");
      await server.restart();
      await expect(state(page)).toHaveText("Live");
      await expect(figure(page, "gaps")).toHaveText("1");
      await page.getByText(/^One gap/).click();
      await expect(page.getByText("the server lost its history")).toBeVisible();
      await later(page, await newest(page));
    });

    test("a page without incoming data shows its lag", async ({ page, network }) => {
      await page.goto("/?topic=rows");
      await later(page, 100);
      await expect(figure(page, "lag")).toHaveText(/^[\d,]+$/);
      network.freeze();
      await expect.poll(async () => read(await figure(page, "lag").textContent())).toBeGreaterThan(1500);
      expect(readMs(await figure(page, "age").textContent())).toBeGreaterThan(0);
    });

    test("a broken connection loses no events", async ({ page, network }) => {
      await page.goto("/?topic=rows");
      await later(page, 100);
      const before = network.asked.length;
      network.cut();
      await network.seen(({ kind }) => kind === "websocket", before);
      await expect(state(page)).toHaveText("Live");
      await later(page, await newest(page));
      await expect(figure(page, "gaps")).toHaveText("0");
    });
  });
});

test.describe("of the demo", () => {
  test.use({ args: ["--demo"] });

  test("the chart of the cars shows the highest speed of each second, or the mean and range", async ({ page }) => {
    await page.goto("/?topic=car_live_data&view=chart");
    await expect(
      page.getByRole("img", { name: "Chart of max(speed_kmh) of each second, the last 1 min" }),
    ).toBeVisible();
    const highest = page.locator(".chart .legend b");
    await expect.poll(async () => Number(await highest.textContent())).toBeGreaterThan(90);
    await expect(page.locator(".chart .range")).toHaveCount(0);
    await page.getByLabel("Aggregate").selectOption({ label: "mean, range" });
    await expect(page.getByRole("img", { name: "Chart of speed_kmh, the last 1 min" })).toBeVisible();
    await expect(page.locator(".chart .range")).toHaveText(/ to /);
  });

  test("the highest speed of each second has a chart by default", async ({ page }) => {
    await page.goto("/?topic=max-speed");
    await expect(page.getByRole("img", { name: /^Chart of \w+, the last 1 min$/ })).toBeVisible();
    await expect(page.locator(".chart .legend b")).toHaveText(/^\d/);
    await expect(page.getByRole("radio", { name: "chart" })).toBeChecked();
  });
});
