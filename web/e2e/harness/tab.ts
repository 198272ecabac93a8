/**
 * A tab without Playwright's instrumentation. Playwright observes every WebSocket and EventSource message of its pages
 * with its full text, through the browser's process, which costs several times as much as the page's own work. It also
 * reports every page as visible; this tab can be hidden behind another one.
 */

import { setTimeout as after } from "node:timers/promises";
import type { Browser } from "@playwright/test";
import { test as base } from "./test.js";

export { expect } from "./test.js";

const LOOK_MS = 20;

export interface Tab {
  /** Opens an address, without waiting for its content. */
  open(url: string): Promise<void>;
  evaluate<Given extends unknown[], Result>(
    run: (...given: Given) => Result | Promise<Result>,
    ...given: Given
  ): Promise<Result>;
  until(is: () => boolean): Promise<void>;
  /** Opens another tab in front of this one, in the same window. */
  hide(): Promise<void>;
  show(): Promise<void>;
}

interface Message {
  id?: number;
  result?: unknown;
  error?: { message: string };
}

interface Evaluated {
  result: { value: unknown };
  exceptionDetails?: { text: string; exception?: { description?: string } };
}

/** Opens a tab in its own context. Returns the tab, and a function that closes the context. */
async function make(browser: Browser): Promise<[Tab, close: () => Promise<unknown>]> {
  const whole = await browser.newBrowserCDPSession();
  const { browserContextId } = await whole.send("Target.createBrowserContext");
  const wanted = { url: "about:blank", browserContextId };
  const { targetId } = await whole.send("Target.createTarget", { ...wanted, newWindow: true });
  const { sessionId } = await whole.send("Target.attachToTarget", { targetId });
  const waiting = new Map<number, (message: Message) => void>();
  let last = 0;
  whole.on("Target.receivedMessageFromTarget", (received) => {
    if (received.sessionId !== sessionId) return;
    const message = JSON.parse(received.message) as Message;
    if (message.id !== undefined) waiting.get(message.id)?.(message);
  });
  const send = async (method: string, params: object = {}): Promise<unknown> => {
    const id = ++last;
    const answered = new Promise<Message>((resolve) => waiting.set(id, resolve));
    await whole.send("Target.sendMessageToTarget", { sessionId, message: JSON.stringify({ id, method, params }) });
    const { result, error } = await answered;
    waiting.delete(id);
    if (error) throw new Error(`${method}: ${error.message}`);
    return result;
  };
  const tab: Tab = {
    open: async (url) => void (await send("Page.navigate", { url })),
    async evaluate(run, ...given) {
      const expression = `(${String(run)})(...${JSON.stringify(given)})`;
      const wanted = { expression, returnByValue: true, awaitPromise: true };
      const { result, exceptionDetails } = (await send("Runtime.evaluate", wanted)) as Evaluated;
      if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
      return result.value as never;
    },
    async until(is) {
      while (!(await tab.evaluate(is))) await after(LOOK_MS);
    },
    hide: async () => void (await whole.send("Target.createTarget", wanted)),
    show: async () => void (await whole.send("Target.activateTarget", { targetId })),
  };
  return [tab, () => whole.send("Target.disposeBrowserContext", { browserContextId })];
}

async function lend({ browser }: { browser: Browser }, use: (tab: Tab) => Promise<void>): Promise<void> {
  const [tab, close] = await make(browser);
  await use(tab);
  await close();
}

/** Runs a test with a tab in its own window and process. */
export const test = base.extend<{ tab: Tab }>({
  tab: ({ browser }, use) => lend({ browser }, use),
});
