/** The transports there are, and in which order they are tried. */

import { httpStreaming } from "./http-streaming.js";
import { longPolling } from "./long-polling.js";
import { sse } from "./sse.js";
import type { Transport, TransportName } from "./transport.js";
import { webSocket } from "./websocket.js";

/** For most things. */
export const DEFAULT_ORDER: readonly Transport[] = [webSocket, httpStreaming, sse, longPolling];

/**
 * For much data in one direction: a streamed `fetch` carries several times as much into
 * a tab as a browser's WebSocket or EventSource, and has backpressure, which they have
 * not.
 */
export const HIGH_VOLUME_ORDER: readonly Transport[] = [httpStreaming, webSocket, sse, longPolling];

/** A transport by its name; one that does not come with the core is given as it is. */
export function transport(wanted: TransportName | Transport): Transport {
  const found = typeof wanted === "string" ? DEFAULT_ORDER.find((it) => it.name === wanted) : wanted;
  if (!found) throw new TypeError(`no transport is called ${wanted as string}`);
  return found;
}
