/** When to reconnect (docs/wire.md, "Reconnecting"): later each time, and never all clients at once. */

/** A connection that lived for so long was of use, ms. @internal */
export const SHORT_MS = 5000;
/** The next one after it comes within this time, ms. */
const SOON_MS = 500;
/** The first delay after one that lived for less is at most this, and at least half of it, ms. */
const FIRST_MS = 2000;
/** No delay is longer, unless the server asks for it, ms. */
const MOST_MS = 30_000;
/** As far ahead as a server may ask for, ms: a day. */
const RETRY_AFTER_MS_MAX = 86_400_000;

/**
 * The delay before the next attempt, ms: anywhere in the upper half of a bound that doubles with each
 * connection in a row that lived for less than {@link SHORT_MS}.
 *
 * @param livedMs - how long the last connection worked; 0 if it was never established.
 * @param retryAfterMs - not before this time is over; 0 if the server has not asked for any.
 * @internal
 */
export type Backoff = (livedMs: number, retryAfterMs?: number) => number;

/** @internal */
export function backoff(): Backoff {
  let failures = 0;
  return (livedMs, retryAfterMs = 0) => {
    const isSoon = livedMs >= SHORT_MS;
    const most = isSoon ? SOON_MS : Math.min(FIRST_MS * 2 ** failures, MOST_MS);
    failures = isSoon ? 0 : failures + 1;
    const random = Math.random();
    return Math.max((most / 2) * (1 + random), retryAfterMs && retryAfterMs + 1000 * random);
  };
}

/** How long a response asks to wait (RFC 9110 §10.2.3), ms; 0 if it does not. @internal */
export function retryAfter({ headers }: Response): number {
  const value = headers.get("Retry-After") ?? "";
  const ms = (/^\d+$/.test(value) ? Number(value) * 1000 : Date.parse(value) - Date.now()) || 0;
  return Math.min(Math.max(ms, 0), RETRY_AFTER_MS_MAX);
}
