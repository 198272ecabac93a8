/** README's code for a web page, unchanged. */

import type { Page } from "@playwright/test";
import { snippet } from "../../sdk/test/snippet.js";
import { publish, type Server } from "../harness/server.js";
import { expect, test } from "../harness/test.js";

/** Runs the code in a page, and publishes an event to it. */
async function greet(page: Page, server: Server, lines: string): Promise<void> {
  const said: string[] = [];
  page.on("console", (message) => said.push(message.text()));
  await page.goto("/e2e/empty.html");
  await page.addScriptTag({ type: "module", content: lines });
  await fetch(`${server.origin}/v1/topics/greetings`, { method: "POST", body: '{"hello":"world"}' });
  await expect.poll(() => said.at(-1)).toContain("world");
}

test("README: in a web page", ({ page, server }) => greet(page, server, snippet("js")));

test.describe("of a server that allows other origins", () => {
  test.use({ args: ["--allow-origin", "*"] });

  test("README: in a page of another origin", ({ page, server }) => {
    const lines = snippet("js").replace('"/sdk/', `"${server.origin}/sdk/`);
    return greet(page, server, lines.replace('connect("/"', `connect("${server.origin}"`));
  });
});

test("README: a page that survives kill -9", async ({ page, server, network }) => {
  const html = snippet("html", "A page that survives `kill -9`").replaceAll("http://127.0.0.1:8090", network.origin);
  await publish(server, "numbers", 1, 3);
  await page.goto("/e2e/empty.html");
  await page.setContent(html);
  await publish(server, "numbers", 4, 7);
  await expect(page.getByText("received 7, lost 0, open websocket")).toBeVisible();
  await publish(server, "numbers", 9, 9);
  await expect(page.getByText("received 8, lost 1, open websocket")).toBeVisible();
});
