/** The status of a session. */

import type { TransportName } from "./transports/transport.js";

/**
 * The status of a session. The session changes it on its own; a page displays it and handles `closed`.
 *
 * | `state` | when | next states |
 * |---|---|---|
 * | `idle` | there is no subscription and therefore no connection | `connecting`, with the first subscription |
 * | `connecting` | a connection is being opened over `transport` | `open`, `waiting`, or `connecting` over another transport |
 * | `open` | the first message has arrived over `transport`; reported again when another transport takes over | `waiting` or `connecting`, when the connection is lost; `idle`, after the last subscription |
 * | `waiting` | there is no connection: the next attempt follows after a delay (at most 30 s), or when the page has processed its batches; see `reason` | `connecting` |
 * | `closed` | the page closed the session (`reason` is `null`), or the session failed (see `reason`) | none: all subscriptions have ended; `connect` creates a new session |
 */
export interface Status {
  /** A state of the table above. */
  readonly state: "idle" | "connecting" | "open" | "waiting" | "closed";
  /** The transport in use or being tried; `null` without one. */
  readonly transport: TransportName | null;
  /** The reason for this state, in words; `null` without a particular reason. */
  readonly reason: string | null;
  /**
   * The time of the next attempt, in ms since 1970, for a countdown; {@link Session.reconnect} connects at once. Only in
   * the state `waiting`, and not while the page has to catch up.
   */
  readonly retryAt?: number | undefined;
}

/** The status of a new session. @internal */
export const IDLE: Status = { state: "idle", transport: null, reason: null };
