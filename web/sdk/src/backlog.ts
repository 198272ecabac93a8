/**
 * What has been received and not yet processed, in bytes: it bounds what a slow page
 * holds.
 */

/** From here on a transport with backpressure is held back. */
const FULL_BYTES = 4 * 1024 * 1024;
/** From here on a transport without it is given up, until there is room. */
const OVER_BYTES = 16 * 1024 * 1024;

/** @internal */
export interface Backlog {
  add(bytes: number): void;
  done(bytes: number): void;
  isOver(): boolean;
  /** `null`, or what to wait for. */
  drained(): Promise<void> | null;
}

/** @internal */
export function backlog(): Backlog {
  let total = 0;
  const waiters: (() => void)[] = [];
  return {
    add(bytes) {
      total += bytes;
    },
    done(bytes) {
      total -= bytes;
      if (total < FULL_BYTES / 2) for (const resolve of waiters.splice(0)) resolve();
    },
    isOver: () => total > OVER_BYTES,
    drained: () => (total < FULL_BYTES ? null : new Promise((resolve) => waiters.push(resolve))),
  };
}
