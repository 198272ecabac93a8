/**
 * How busy the page's thread is. Probes at random times find it at work as often as it
 * is at work. Each one waits until there is nothing else to do: one that is late found it
 * busy. Tasks much shorter than a millisecond, with pauses between, are overlooked.
 */

import type { Busy } from "./sample.js";

/** A probe is late after so long, ms. */
const LATE_MS = 1;
/** Between two probes, ms, and by chance up to as long again. */
const EVERY_MS = 6;

interface Scheduler {
  postTask(task: () => void, options: { priority: string; delay: number }): Promise<void>;
}

/** Probes until what it returns is called. */
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
      // Who never gets a turn is not idle.
      share: probes ? late / probes : 1,
      longTasks: hasLongTasks ? longMs / (performance.now() - begunMs) : null,
    };
  };
}
