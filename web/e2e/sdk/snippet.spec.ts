/** README's lines for a web page run in one, as they stand there. */

import type { Page } from "@playwright/test";
import { snippet } from "../../sdk/test/snippet.js";
import type { Server } from "../harness/server.js";
import { expect, test } from "../harness/test.js";

/** Runs these lines in a page, and what is published reaches them. */
async function greet(page: Page, server: Server, lines: string): Promise<void> {
  const said: string[] = [];
  page.on("console", (message) => said.push(message.text()));
  await page.goto("/e2e/empty.html");
  await page.addScriptTag({ type: "module", content: lines });
  await fetch(`${server.origin}/v1/topics/greetings`, { method: "POST", body: '{"hello":"world"}' });
  await expect.poll(() => said.at(-1)).toContain("world");
}

test("README: in a web page", ({ page, server }) => greet(page, server, snippet("js")));

test.describe("of a server that lets others in", () => {
  test.use({ args: ["--allow-origin", "*"] });

  test("README: in a page of another origin", ({ page, server }) => {
    const lines = snippet("js").replace('"/sdk/', `"${server.origin}/sdk/`);
    return greet(page, server, lines.replace('connect("/"', `connect("${server.origin}"`));
  });
});
