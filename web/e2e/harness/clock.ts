/** The clock of a page, controlled by the test, so that the machine's load has no effect. */

import type { Page } from "@playwright/test";
import type { Network } from "./proxy.js";
import type { Kind } from "./seen-request.js";

/** The default `connectTimeout`: a transport that stays silent for this long has failed. */
const CONNECT_TIMEOUT_MS = 5000;

/** The default `idleTimeout`: a connection that is silent for this long is dead. */
export const IDLE_TIMEOUT_MS = 60_000;

/** Stops the clock of a page: its timers fire only when the test advances the clock. */
export async function stopClock(page: Page): Promise<void> {
  await page.clock.install();
  await page.clock.pauseAt(Date.now() + 1000);
}

/** Waits until the page requests a transport, and lets it time out. The page's clock must be installed. */
export async function timeOut(page: Page, network: Network, kind: Kind, from = 0): Promise<void> {
  await network.seen((asked) => asked.kind === kind, from);
  await page.clock.fastForward(CONNECT_TIMEOUT_MS);
}
