/**
 * When to draw: a few times a second, in step with the screen, and less often where
 * drawing takes long. A page that falls behind its data has stopped being live.
 */

/** The part of the time that rendering may take. */
const SHARE = 1 / 3;

/** How long to wait after drawing that took so long, ms. Pure. */
export function pause(everyMs: number, tookMs: number): number {
  return Math.max(everyMs - tookMs, tookMs / SHARE - tookMs);
}

/** Calls `draw` every `everyMs` until what it returns is called. */
export function ticker(everyMs: () => number, draw: (nowMs: number) => void): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let frame = 0;
  let isOver = false;
  const tick = (): void => {
    frame = requestAnimationFrame(() => {
      const begun = performance.now();
      draw(Date.now());
      // After what drawing has set off: components render in a microtask of their own.
      queueMicrotask(() => {
        if (!isOver) timer = setTimeout(tick, pause(everyMs(), performance.now() - begun));
      });
    });
  };
  tick();
  return () => {
    isOver = true;
    clearTimeout(timer);
    cancelAnimationFrame(frame);
  };
}
