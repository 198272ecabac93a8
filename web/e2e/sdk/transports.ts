/** All transports (docs/reference/subscribing.md). */

import type { TransportName } from "thalweg";

export const TRANSPORTS: readonly TransportName[] = [
  "websocket",
  "http-streaming",
  "sse",
  "forever-frame",
  "long-polling",
];

/** Frequent heartbeats, so that the idle timeout can be short. */
export const HEARTBEAT = ["--heartbeat", "200ms"] as const;

/**
 * Options of a session over one transport, for tests with broken connections. Chromium does not report a broken
 * forever frame: only the idle timeout detects it.
 */
export function breakable(name: TransportName): { transports: TransportName[]; idleTimeout?: number } {
  return { transports: [name], ...(name === "forever-frame" && { idleTimeout: 700 }) };
}
