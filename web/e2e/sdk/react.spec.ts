/** Hooks in React applications, with StrictMode: examples/react, and the code of docs/how-to/react.md. */

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Page } from "@playwright/test";
import { snippetFiles } from "../../sdk/test/snippet.js";
import { app, REACTS, type ReactVersion, type Source } from "../harness/app.js";
import type { Server } from "../harness/server.js";
import { BROKEN_NETWORK, test as base, expect } from "../harness/test.js";

const EXAMPLE = fileURLToPath(new URL("../../../examples/react", import.meta.url));
const PUBLISHER = "write-me-1234567890";

const test = base.extend<{ folder: string; source: Source; react: ReactVersion; everybody: string }>({
  everybody: ["alarms", { option: true }],
  source: [EXAMPLE, { option: true }],
  react: ["React 19", { option: true }],
  folder: async ({}, use) => {
    const folder = mkdtempSync(join(tmpdir(), "thalweg-react-"));
    writeFileSync(join(folder, "secret"), "0123456789abcdef0123456789abcdef");
    await use(folder);
    rmSync(folder, { recursive: true });
  },
  args: async ({ folder, everybody }, use) =>
    use([
      ...["--data", join(folder, "data"), "--store", "**,sync=always"],
      ...["--jwt-secret", `@${join(folder, "secret")}`],
      ...["--token", `publisher=${PUBLISHER},publish=**`],
      ...["--token", `everybody,subscribe=${everybody}`],
    ]),
  baseURL: async ({ folder, server, source, react }, use) => {
    process.env["SECRET"] = join(folder, "secret");
    process.env["THALWEG"] = server.origin;
    const running = await app(source, react);
    await use(running.origin);
    await running.close();
  },
});

test.use({ expected: BROKEN_NETWORK });

async function publish(server: Server, topic: string, first: number, last: number): Promise<void> {
  const ids = Array.from({ length: last - first + 1 }, (_, index) => first + index);
  const response = await fetch(`${server.origin}/v1/topics/${topic}`, {
    method: "POST",
    headers: { "Content-Type": "application/x-ndjson", Authorization: `Bearer ${PUBLISHER}` },
    body: ids.map((id) => JSON.stringify({ id, total: id / 2 })).join("\n"),
  });
  expect(response.status).toBe(200);
}

/** The numbers of the newest 50 orders. */
const newest = (last: number): string[] => Array.from({ length: 50 }, (_, index) => `${last - 49 + index}`);

/** Returns the number of WebSockets that the page opens. */
function sockets(page: Page): () => number {
  let count = 0;
  page.on("websocket", (socket) => void (count += socket.url().includes("/v1/") ? 1 : 0));
  return () => count;
}

for (const react of Object.keys(REACTS) as ReactVersion[]) {
  test.describe(`the example with ${react}`, () => {
    test.use({ react });

    test("neither loses nor repeats an order when the server is killed", async ({ page, server }) => {
      const opened = sockets(page);
      await publish(server, "orders", 1, 60);
      await page.goto("/");
      const ids = page.locator("tbody td:first-child");
      await expect(ids).toHaveText(newest(60));
      expect(opened()).toBe(1);
      let last = 60;
      for (let crash = 0; crash < 3; crash++) {
        await publish(server, "orders", last + 1, last + 10);
        await server.kill();
        await expect(page.getByRole("status")).toContainText("Not live");
        await server.restart();
        await publish(server, "orders", last + 11, last + 20);
        last += 20;
        // The button, unless the session has connected meanwhile.
        await page.evaluate(() => document.querySelector("button")?.click());
        // More than the ten that may not have arrived before: a missing order would leave a hole.
        await expect(ids).toHaveText(newest(last));
        await expect(page.getByRole("status")).toHaveText("Live");
        await expect(page.getByText(`Newest: order ${last}`)).toBeVisible();
        await expect(page.getByRole("alert")).toHaveCount(0);
      }
    });
  });
}

const HTML = '<!doctype html><title>Docs</title><link rel="icon" href="data:,"><div id="root"></div>';
const page = (main: string): string => `${HTML}<script type="module" src="/${main}"></script>`;

/** The files of docs/how-to/react.md, for the server of a test. */
function files(main: string): Record<string, string> {
  const all = snippetFiles("docs/how-to/react.md");
  const config = all["vite.config.js"]?.replace('"http://127.0.0.1:8080"', 'process.env["THALWEG"]');
  return { ...all, "vite.config.js": config ?? "", "index.html": page(main) };
}

test.describe("the docs", () => {
  test.use({ source: files("main.tsx") });

  test("have a dashboard", async ({ page, server }) => {
    const { token } = await import(join(EXAMPLE, "token.js"));
    await page.route("**/token", (route) => route.fulfill({ body: token("alice") }));
    await publish(server, "orders", 1, 60);
    await page.goto("/");
    await expect(page.getByRole("listitem")).toHaveText(newest(60).map((id) => `Order ${id}: ${Number(id) / 2}`));
    await expect(page.getByText("Live")).toBeVisible();
    await publish(server, "orders", 61, 61);
    await expect(page.getByRole("listitem").last()).toHaveText("Order 61: 30.5");
  });
});

/** Shows the other components of the docs. The page of the server runs in the browser. */
const OTHERS = `
  import { StrictMode } from "react";
  import { createRoot } from "react-dom/client";
  import { SessionProvider } from "thalweg/react";
  import { InWorker } from "./worker";
  import Page from "./page";
  import { Sound } from "./sound";
  const play = ({ id }) => { document.title += " " + id; };
  const page = await Page();
  document.title = "Played";
  createRoot(document.getElementById("root")).render(
    <StrictMode>
      <InWorker><Sound play={play} /></InWorker>
      {page}
    </StrictMode>,
  );`;

function others(): Source {
  const all: Record<string, string> = { ...files("others.tsx"), "others.tsx": OTHERS };
  return { ...all, "page.tsx": all["page.tsx"]?.replace("http://127.0.0.1:8080", "") ?? "" };
}

test.describe("the docs", () => {
  test.use({ source: others(), everybody: "alarms orders" });

  test("have a page that was rendered on the server, an effect, and a session in a Worker", async ({
    page,
    server,
  }) => {
    await publish(server, "orders", 1, 3);
    await page.goto("/");
    await expect(page.getByText("1 2 3")).toBeVisible();
    await publish(server, "orders", 4, 4);
    await expect(page.getByText("1 2 3 4")).toBeVisible();
    // The Worker's session may not be open yet.
    await expect
      .poll(async () => {
        await publish(server, "alarms", 1, 1);
        return page.title();
      })
      .toMatch(/^Played( 1)+$/);
    const played = (await page.title()).split(" ").length;
    await publish(server, "alarms", 2, 2);
    // An effect that ran twice would play it twice.
    await expect(page).toHaveTitle(/ 2$/);
    expect((await page.title()).split(" 2")).toHaveLength(2);
    expect(played).toBeGreaterThan(1);
  });
});
