/** The transports that there are (docs/wire.md). */

import type { TransportName } from "thalweg";

export const TRANSPORTS: readonly TransportName[] = [
  "websocket",
  "http-streaming",
  "sse",
  "forever-frame",
  "long-polling",
];

/** Heartbeats so frequent that an idle timeout may be short. */
export const HEARTBEAT = ["--heartbeat", "200ms"] as const;

/**
 * How to open a session over one transport where connections break. Chromium does not tell
 * anybody of a document that was cut: a forever frame's idle timeout does.
 */
export function breakable(name: TransportName): { transports: TransportName[]; idleTimeout?: number } {
  return { transports: [name], ...(name === "forever-frame" && { idleTimeout: 700 }) };
}
