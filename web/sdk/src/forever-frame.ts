/**
 * For browsers from before all of that: the forever frame, and the rules of 2013.
 *
 * @packageDocumentation
 */

import { foreverFrame } from "./transports/forever-frame.js";
import type { Transport, TransportName } from "./transports/transport.js";

export { foreverFrame };

/** What a client and a server of 2013 could do. */
export interface Abilities {
  /** The server's origin is not the page's. */
  isCrossOrigin: boolean;
  /** The client can send requests to other origins. */
  hasCors: boolean;
  /** The client has WebSocket. */
  hasWebSocket: boolean;
  /** The server has it as well. */
  serverHasWebSocket: boolean;
  /** The client has Server-Sent Events. */
  hasEventSource: boolean;
  /** The client can have a hidden frame whose document calls the page. */
  hasForeverFrame: boolean;
}

/** What this client can do with the Thalweg server at `url`. */
export function abilities(url: string | URL = "/"): Abilities {
  const here = typeof location === "object" ? location : undefined;
  return {
    isCrossOrigin: new URL(url, here?.href).origin !== here?.origin,
    hasCors: typeof fetch === "function",
    hasWebSocket: typeof WebSocket === "function",
    serverHasWebSocket: true,
    hasEventSource: typeof EventSource === "function",
    hasForeverFrame: typeof document === "object",
  };
}

/**
 * The policy `published`: the rules of experiment B as they were published in 2013 (JSONP
 * aside). One transport, and long polling should it fail.
 *
 * @returns what to give `connect` as `transports`.
 */
export function published(can: Abilities = abilities()): (TransportName | Transport)[] {
  const webSocket = can.hasWebSocket && can.serverHasWebSocket;
  if (can.isCrossOrigin) {
    return can.hasCors && webSocket ? ["websocket", "long-polling"] : ["long-polling"];
  }
  if (webSocket) return ["websocket", "long-polling"];
  if (can.hasEventSource) return ["sse", "long-polling"];
  return can.hasForeverFrame ? [foreverFrame, "long-polling"] : ["long-polling"];
}
