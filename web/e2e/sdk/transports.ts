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

/** For tests with broken connections: only the idle timeout detects a broken forever frame in Chromium. */
export function breakable(name: TransportName): { transports: TransportName[]; idleTimeout?: number } {
  return { transports: [name], ...(name === "forever-frame" && { idleTimeout: 700 }) };
}
