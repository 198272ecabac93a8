/** Extends timeouts on a loaded machine, as `crates/thalweg-testing` does: with three threads per core, threefold. */

import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import type { TestInfo } from "@playwright/test";

const LOOK_MS = 250;

/** Returns the share of a core that a thread gets; 1 if the system does not report it (`proc_loadavg(5)`). */
function share(): number {
  try {
    const runnable = Number(readFileSync("/proc/loadavg", "utf8").split(" ")[3]?.split("/")[0]);
    return availableParallelism() / Math.max(availableParallelism(), runnable || 1);
  } catch {
    return 1;
  }
}

/** Extends a test's timeout while other processes use the machine. Returns a function that stops this. */
export function patience(info: TestInfo): () => void {
  let [looked, owed] = [performance.now(), 0];
  const look = (): void => {
    const now = performance.now();
    owed += (now - looked) * (1 - share());
    looked = now;
    if (owed < 1000) return;
    info.setTimeout(info.timeout + Math.round(owed));
    owed = 0;
  };
  const timer = setInterval(look, LOOK_MS);
  return () => clearInterval(timer);
}
