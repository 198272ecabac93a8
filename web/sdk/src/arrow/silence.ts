/** Measures the silence of a server. Time in which the reader waits for the page does not count. */

/** @internal */
export interface Silence {
  /** Restarts the timer with this timeout, ms, because data has arrived. */
  received(nextMs: number): void;
  /** Stops the timer while the reader waits for the page. */
  waitFor(page: Promise<void>): Promise<void>;
  stop(): void;
}

/** Starts a timer that calls `silent` once if no data arrives for `timeoutMs`. @internal */
export function silence(timeoutMs: number, silent: () => void): Silence {
  /** `Infinity` while the reader waits for the page. */
  let lastAt = Date.now();
  const check = (): void => {
    const leftMs = lastAt + timeoutMs - Date.now();
    if (leftMs > 0) timer = setTimeout(check, Math.min(leftMs, timeoutMs));
    else silent();
  };
  let timer = setTimeout(check, timeoutMs);
  return {
    received(nextMs) {
      lastAt = Date.now();
      if (nextMs === timeoutMs) return;
      timeoutMs = nextMs;
      clearTimeout(timer);
      check();
    },
    async waitFor(page) {
      lastAt = Infinity;
      await page;
      lastAt = Date.now();
    },
    stop: () => clearTimeout(timer),
  };
}
