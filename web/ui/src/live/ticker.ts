/** Schedules rendering a few times a second, or less often if it takes long, so that the page keeps up with its data. */

/** Largest share of the time that rendering may take. */
const SHARE = 1 / 3;

/** Returns the pause after rendering that took `tookMs`, ms. Pure. */
export function pause(everyMs: number, tookMs: number): number {
  return Math.max(everyMs - tookMs, tookMs / SHARE - tookMs);
}

/** Calls `draw` about every `everyMs`. Returns a function that stops it. */
export function ticker(everyMs: () => number, draw: (nowMs: number) => void): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let frame = 0;
  let isOver = false;
  const tick = (): void => {
    frame = requestAnimationFrame(() => {
      const begun = performance.now();
      draw(Date.now());
      // Components render in a microtask after `draw`; the pause starts after them.
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
