/** The transports of the core, and their orders. */

import { httpStreaming, longPolling } from "./http.js";
import { sse } from "./sse.js";
import type { Transport, TransportName } from "./transport.js";
import { webSocket } from "./websocket.js";

/** The order for most sessions. */
export const DEFAULT_ORDER: readonly Transport[] = [webSocket, httpStreaming, sse, longPolling];

/** For high volume: a streamed `fetch` carries several times as much as a WebSocket, and has backpressure. */
export const HIGH_VOLUME_ORDER: readonly Transport[] = [httpStreaming, webSocket, sse, longPolling];

/** Returns a transport of the core by its name; other transports are returned unchanged. @throws TypeError */
export function transport(wanted: TransportName | Transport): Transport {
  const found = typeof wanted === "string" ? DEFAULT_ORDER.find(({ name }) => name === wanted) : wanted;
  if (!found) throw new TypeError(`unknown transport ${wanted as string}`);
  return found;
}
