/** Exponential backoff with jitter (docs/reference/errors.md, "Reconnecting"). */

/** Lifetime from which a connection counts as stable, ms. @internal */
export const SHORT_MS = 5000;
/** Longest delay after a stable connection, ms. */
const SOON_MS = 500;
/** Longest first delay after an unstable connection, ms; the shortest is half of it. */
const FIRST_MS = 2000;
/** Longest delay, unless the server asks for a longer one, ms. */
const MOST_MS = 30_000;
/** Longest delay that a server may ask for, ms: a day. */
const RETRY_AFTER_MS_MAX = 86_400_000;

/**
 * Returns the delay before the next attempt, ms: a random time between half of a bound and the bound. The bound doubles with
 * each consecutive connection that lived for less than {@link SHORT_MS}.
 * @param livedMs - lifetime of the last connection; 0 if it was never established.
 * @param retryAfterMs - shortest delay that the server asked for, or 0. @internal
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

/** Returns the delay that a response asks for (`Retry-After`, RFC 9110 §10.2.3), ms; 0 without one. @internal */
export function retryAfter({ headers }: Response): number {
  const value = headers.get("Retry-After") ?? "";
  const ms = (/^\d+$/.test(value) ? Number(value) * 1000 : Date.parse(value) - Date.now()) || 0;
  return Math.min(Math.max(ms, 0), RETRY_AFTER_MS_MAX);
}
