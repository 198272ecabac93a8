/**
 * A Chromium with a fresh profile and one page, as the lab starts it. No domain of DevTools is enabled, because that
 * would slow the page down (docs/explanation/measuring.md). Evaluating expressions needs none.
 */

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const FLAGS = [
  "--headless=new",
  "--remote-debugging-pipe",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--disable-extensions",
  "--disable-breakpad",
  "--disable-default-apps",
  "--disable-background-timer-throttling",
  "--disable-renderer-backgrounding",
  "--disable-backgrounding-occluded-windows",
  "--no-first-run",
];

/**
 * @param {string} url - of a document that the page loads.
 * @param {string[]} under - a command that runs the browser, such as `taskset`.
 */
export async function openPage(url, under) {
  const profile = mkdtempSync(join(tmpdir(), "round-trips-"));
  const browser = process.env["CHROMIUM"] ?? "/usr/bin/chromium";
  const [program, ...args] = [...under, browser, ...FLAGS, `--user-data-dir=${profile}`, "about:blank"];
  const child = spawn(/** @type {string} */ (program), args, { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
  const ended = new Promise((resolve) => child.on("exit", resolve));
  const killAtExit = () => child.kill("SIGKILL");
  process.once("exit", killAtExit);
  const [, , , input, output] = /** @type {any[]} */ (child.stdio);

  /** @type {Map<number, { resolve(value: any): void, reject(error: Error): void }>} */
  const calls = new Map();
  child.on("error", (error) => calls.forEach(({ reject }) => reject(error)));
  child.on("exit", () => calls.forEach(({ reject }) => reject(new Error("Chromium has ended"))));
  let text = "";
  output.setEncoding("utf8").on("data", (/** @type {string} */ more) => {
    const messages = (text + more).split("\0");
    text = messages.pop() ?? "";
    for (const { id, result, error } of messages.map((message) => JSON.parse(message))) {
      const call = calls.get(id);
      calls.delete(id);
      if (error) call?.reject(new Error(error.message));
      else call?.resolve(result);
    }
  });
  let last = 0;
  const call = (/** @type {string} */ method, /** @type {object} */ params, sessionId = "") =>
    new Promise((resolve, reject) => {
      calls.set(++last, { resolve, reject });
      input.write(`${JSON.stringify({ id: last, method, params, ...(sessionId && { sessionId }) })}\0`);
    });

  const { targetId } = await call("Target.createTarget", { url });
  const { sessionId } = await call("Target.attachToTarget", { targetId, flatten: true });
  /** Returns the value of an expression, or of its promise. @param {string} expression */
  const evaluate = async (expression) => {
    const params = { expression, awaitPromise: true, returnByValue: true };
    const { result, exceptionDetails } = await call("Runtime.evaluate", params, sessionId);
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  };
  const isLoaded = `location.href === ${JSON.stringify(url)} && document.readyState === "complete"`;
  while (!(await evaluate(isLoaded))) await new Promise((go) => setTimeout(go, 10));
  return {
    evaluate,
    async close() {
      await call("Browser.close", {}).catch(killAtExit);
      await ended;
      process.off("exit", killAtExit);
      rmSync(profile, { recursive: true, force: true, maxRetries: 10 });
    },
  };
}
