/** README's lines for a web page run in one, as they stand there. */

import { snippet } from "../../sdk/test/snippet.js";
import { expect, test } from "../harness/test.js";

test("README: in a web page", async ({ page, server }) => {
  const said: string[] = [];
  page.on("console", (message) => said.push(message.text()));
  await page.goto("/e2e/empty.html");
  await page.addScriptTag({ type: "module", content: snippet("js") });
  await fetch(`${server.origin}/v1/topics/greetings`, { method: "POST", body: '{"hello":"world"}' });
  await expect.poll(() => said.at(-1)).toContain("world");
});
