/** How long a server says nothing: it has so long, and time in which the page is waited for is not counted. */

/** @internal */
export interface Silence {
  /** It has said something, and has so long from now on, ms. */
  heard(nextMs: number): void;
  /** Waits for the page, and not for the server. */
  waitFor(page: Promise<void>): Promise<void>;
  stop(): void;
}

/** @param silent - called once, if nothing was said for `timeoutMs`. @internal */
export function silence(timeoutMs: number, silent: () => void): Silence {
  /** `Infinity` while the page is waited for. */
  let heardAt = Date.now();
  const check = (): void => {
    const leftMs = heardAt + timeoutMs - Date.now();
    if (leftMs > 0) timer = setTimeout(check, Math.min(leftMs, timeoutMs));
    else silent();
  };
  let timer = setTimeout(check, timeoutMs);
  return {
    heard(nextMs) {
      heardAt = Date.now();
      if (nextMs === timeoutMs) return;
      timeoutMs = nextMs;
      clearTimeout(timer);
      check();
    },
    async waitFor(page) {
      heardAt = Infinity;
      await page;
      heardAt = Date.now();
    },
    stop: () => clearTimeout(timer),
  };
}
