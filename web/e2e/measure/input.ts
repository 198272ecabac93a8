/** Input, as the system would bring it: a key and a click in turn. */

import { readFileSync } from "node:fs";
import type { Tab } from "../harness/tab.js";

/** Between two inputs, ms. */
const EVERY_MS = 500;

const WATCH = new URL("../site/input.js", import.meta.url);

export interface Delays {
  readonly handler: readonly number[];
  readonly paint: readonly number[];
  /** Event Timing's durations, of those that took 16 ms or more. */
  readonly timing: readonly number[];
}

/** Before the page is opened. */
export async function watch(tab: Tab): Promise<void> {
  await tab.send("Page.enable");
  await tab.send("Page.addScriptToEvaluateOnNewDocument", { source: readFileSync(WATCH, "utf8") });
}

/**
 * Gives input until what it returns is called, which says how long each waited.
 *
 * @param place - where a click does nothing.
 */
export function tap(tab: Tab, place: { x: number; y: number }): () => Promise<Delays> {
  let number = 0;
  const timer = setInterval(() => {
    // Not awaited: an answer that is late is what is looked for.
    if (number++ % 2) {
      void tab.send("Input.dispatchKeyEvent", { type: "keyDown", key: "Shift", code: "ShiftLeft" });
      void tab.send("Input.dispatchKeyEvent", { type: "keyUp", key: "Shift", code: "ShiftLeft" });
    } else {
      const at = { ...place, button: "left", clickCount: 1 } as const;
      void tab.send("Input.dispatchMouseEvent", { type: "mousePressed", ...at });
      void tab.send("Input.dispatchMouseEvent", { type: "mouseReleased", ...at });
    }
  }, EVERY_MS);
  return async () => {
    clearInterval(timer);
    return tab.evaluate(() => (globalThis as unknown as { inputDelays: Delays }).inputDelays);
  };
}
