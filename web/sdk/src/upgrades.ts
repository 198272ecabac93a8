/** When a better transport is tried again: after some time, then after twice as long. */

/** The first delay, ms. */
const FIRST_MS = 30_000;
/** No delay is longer, ms. */
const MOST_MS = 15 * 60_000;

/** @internal */
export interface UpgradeTimer {
  /** The next attempt is due after the delay, if none is due already. */
  start(): void;
  stop(): void;
  /** Stops; from now on the first delay is this one, ms. */
  reset(delayMs?: number): void;
}

/** @param upgrade - tries a better transport. @internal */
export function upgradeTimer(upgrade: () => void): UpgradeTimer {
  let nextMs = FIRST_MS;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const stop = (): void => {
    clearTimeout(timer);
    timer = undefined;
  };
  return {
    start() {
      if (timer) return;
      timer = setTimeout(() => {
        timer = undefined;
        upgrade();
      }, nextMs);
      nextMs = Math.min(nextMs * 2 || FIRST_MS, MOST_MS);
    },
    stop,
    reset(delayMs = FIRST_MS) {
      stop();
      nextMs = delayMs;
    },
  };
}
