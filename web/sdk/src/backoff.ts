/** When to come back: later each time, and never all clients at once. */

/** The first delay, ms. */
const FIRST_MS = 500;
/** No delay is longer, ms. */
const MOST_MS = 30_000;

/**
 * The delay before attempt `number` (from 0), ms: doubled each time, and anywhere in its
 * upper half.
 */
export function delay(number: number): number {
  const most = Math.min(FIRST_MS * 2 ** number, MOST_MS);
  return most / 2 + (most / 2) * Math.random();
}
