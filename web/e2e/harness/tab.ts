/**
 * A tab that nobody looks over the shoulder of. Playwright's own pages are told of every
 * message of a WebSocket and of an EventSource, with all of its text, by way of the
 * browser's process: that alone costs several times what the page itself does with it. And
 * they are made to believe that they are seen; this one can be hidden behind another.
 */

import { setTimeout as after } from "node:timers/promises";
import type { Browser } from "@playwright/test";
import { test as base } from "./test.js";

export { expect } from "./test.js";

/** Between two looks at whether something is so, ms. */
const LOOK_MS = 20;

export interface Tab {
  /** Opens an address; does not wait for what is there. */
  open(url: string): Promise<void>;
  /** What a function that is run in the page comes to. */
  evaluate<Given extends unknown[], Result>(
    run: (...given: Given) => Result | Promise<Result>,
    ...given: Given
  ): Promise<Result>;
  /** Waits until something is so in the page. */
  until(is: () => boolean): Promise<void>;
  /** Puts another tab before it, in the same window. */
  hide(): Promise<void>;
  /** Is the one that is seen again. */
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

/** A tab in a context of its own, and what closes it. */
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

/** With a tab, which has a window and a process of its own. */
export const test = base.extend<{ tab: Tab }>({
  tab: ({ browser }, use) => lend({ browser }, use),
});
