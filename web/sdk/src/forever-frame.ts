/**
 * The forever frame, for browsers without the other transports, and the rules by which a push server of 2013 chose
 * transports.
 *
 * @packageDocumentation
 */

import { foreverFrame } from "./transports/forever-frame.js";
import type { Transport, TransportName } from "./transports/transport.js";

export { foreverFrame };

/** The abilities of a client and a server of 2013. */
export interface Abilities {
  /** Whether the page requests JSONP. */
  isJsonpRequested: boolean;
  /** Whether the server's origin differs from the page's. */
  isCrossOrigin: boolean;
  /** Whether the client can send requests to other origins. */
  hasCors: boolean;
  /** Whether the client has WebSocket. */
  hasWebSocket: boolean;
  /** Whether the server has WebSocket. */
  serverHasWebSocket: boolean;
  /** Whether the client has Server-Sent Events. */
  hasEventSource: boolean;
  /** Whether the client supports a hidden frame whose document calls the page. */
  hasForeverFrame: boolean;
}

/** Returns the abilities of this client with the Thalweg server at `url`. */
export function abilities(url: string | URL): Abilities {
  const here = typeof location === "object" ? location : undefined;
  return {
    isJsonpRequested: false,
    // `connect` takes URLs with `ws:`, too.
    isCrossOrigin: new URL(url, here?.href).origin.replace(/^ws/, "http") !== here?.origin,
    hasCors: typeof fetch === "function",
    hasWebSocket: typeof WebSocket === "function",
    serverHasWebSocket: true,
    hasEventSource: typeof EventSource === "function",
    hasForeverFrame: typeof document === "object",
  };
}

/**
 * Returns `transports` for `connect` by the rules that a push server of 2013 published. The client tries each
 * transport if those before it are missing or fail:
 *
 * | situation | transports |
 * |---|---|
 * | JSONP is requested | long polling |
 * | the server has another origin; client and server have WebSocket, and the client has CORS | WebSocket, long polling |
 * | the server has another origin, in all other cases | long polling |
 * | the server has the same origin | WebSocket, SSE, forever frame, long polling |
 *
 * Thalweg has no JSONP: the client then polls as usual.
 *
 * @param server - the URL that `connect` gets, or the abilities of a client with a server.
 */
export function published(server: string | URL | Abilities): (TransportName | Transport)[] {
  if (!server) throw new TypeError("published() needs the URL of the server: published(url)");
  const can = typeof server === "string" || server instanceof URL ? abilities(server) : server;
  const webSocket = can.hasWebSocket && can.serverHasWebSocket;
  const preferred: (TransportName | Transport | false)[] = can.isJsonpRequested
    ? []
    : can.isCrossOrigin
      ? [can.hasCors && webSocket && "websocket"]
      : [webSocket && "websocket", can.hasEventSource && "sse", can.hasForeverFrame && foreverFrame];
  return [...preferred.filter((transport) => transport !== false), "long-polling"];
}
