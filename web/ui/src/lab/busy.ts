/**
 * Measures how busy the page's main thread is. Probes run at random times, with background priority: a probe that
 * runs late found the thread busy. The probes miss tasks much shorter than a millisecond with pauses between them.
 */

import type { Busy } from "./sample.js";

/** Delay from which a probe counts as late, ms. */
const LATE_MS = 1;
/** Shortest time between two probes, ms; the longest is twice as much. */
const EVERY_MS = 6;

interface Scheduler {
  postTask(task: () => void, options: { priority: string; delay: number }): Promise<void>;
}

/** Starts the probes. Returns a function that stops them and returns the result. */
export function watch(): () => Busy {
  const { scheduler } = globalThis as { scheduler?: Scheduler };
  const begunMs = performance.now();
  let [probes, late, longMs, isOver] = [0, 0, 0, false];
  const probe = (): void => {
    const delay = EVERY_MS * (1 + Math.random());
    const dueMs = performance.now() + delay;
    const seen = (): void => {
      if (isOver) return;
      probes += 1;
      if (performance.now() - dueMs > LATE_MS) late += 1;
      probe();
    };
    if (scheduler) void scheduler.postTask(seen, { priority: "background", delay });
    else setTimeout(seen, delay);
  };
  probe();
  const hasLongTasks = PerformanceObserver.supportedEntryTypes.includes("longtask");
  const count = (entries: PerformanceEntryList): void => {
    for (const { duration } of entries) longMs += duration;
  };
  const observer = new PerformanceObserver((list) => count(list.getEntries()));
  if (hasLongTasks) observer.observe({ entryTypes: ["longtask"] });
  return () => {
    isOver = true;
    count(observer.takeRecords());
    observer.disconnect();
    return {
      // A thread on which no probe ever ran was never idle.
      share: probes ? late / probes : 1,
      longTasks: hasLongTasks ? longMs / (performance.now() - begunMs) : null,
    };
  };
}
