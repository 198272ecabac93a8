/** Runs a plan cell by cell, and reports progress. */

import { environment, isHttp1 } from "./environment.js";
import { type Cell, cells, estimateMs, hindrance, isSame, type Plan, turns } from "./plan.js";
import { type Failure, type Result, result, type Taken } from "./result.js";
import { sampleRows } from "./rows.js";
import type { Sample } from "./sample.js";
import { sampleTrips } from "./trips.js";

export interface Progress {
  readonly done: number;
  readonly all: number;
  readonly leftMs: number;
  /** The cell that is measured now, and its figure so far: events/s, or trips done. */
  readonly cell: Cell | null;
  readonly figure: number | null;
  readonly samples: readonly Taken[];
  readonly failures: readonly Failure[];
}

export async function run(plan: Plan, signal: AbortSignal, onProgress: (progress: Progress) => void): Promise<Result> {
  const begun = new Date();
  const samples: Taken[] = [];
  const failures: Failure[] = cells(plan).flatMap((cell) => {
    const why = hindrance(cell, isHttp1());
    return why ? [{ cell, repeat: 0, why }] : [];
  });
  const rounds = turns(plan, isHttp1(), Math.random);
  const all = rounds.flat().length;
  const plannedMs = estimateMs(plan, isHttp1());
  let done = 0;
  const report = (cell: Cell | null, figure: number | null): void => {
    const tookMs = Date.now() - begun.getTime();
    // An estimate needs at least three finished cells.
    const leftMs = done < 3 ? plannedMs - tookMs : (tookMs / done) * (all - done);
    onProgress({
      done,
      all,
      leftMs: Math.max(0, leftMs),
      cell,
      figure,
      samples: [...samples],
      failures: [...failures],
    });
  };
  const finish = (): Result => {
    const times = { begun: begun.toISOString(), ended: new Date().toISOString() };
    return result({ plan, environment: environment(), ...times, wasStopped: signal.aborted, samples, failures });
  };
  for (const [round, turn] of rounds.entries()) {
    for (const cell of turn) {
      const repeat = round + 1;
      // A cell that failed once is skipped in later rounds.
      if (!failures.some((failure) => isSame(failure.cell, cell))) {
        try {
          report(cell, null);
          const sample = await seen(plan, cell, signal, (figure) => report(cell, figure));
          samples.push({ cell, repeat, sample });
        } catch (error) {
          if (signal.aborted) return finish();
          failures.push({ cell, repeat, why: error instanceof Error ? error.message : String(error) });
        }
      }
      done += 1;
    }
  }
  report(null, null);
  return finish();
}

/** Measures a sample while the page is visible: a browser throttles hidden tabs. */
async function seen(
  plan: Plan,
  cell: Cell,
  signal: AbortSignal,
  onProgress: (figure: number) => void,
): Promise<Sample> {
  for (;;) {
    await visible(signal);
    let wasHidden = false;
    const look = (): void => void (wasHidden ||= document.hidden);
    document.addEventListener("visibilitychange", look);
    try {
      const sample =
        plan.experiment === "a1"
          ? await sampleRows(cell, plan.seconds, signal, onProgress)
          : await sampleTrips(cell, plan.trips, signal, onProgress);
      if (!wasHidden) return sample;
    } catch (error) {
      // An error in a hidden tab may be due to throttling: the sample is repeated.
      if (!wasHidden || signal.aborted) throw error;
    } finally {
      document.removeEventListener("visibilitychange", look);
    }
  }
}

function visible(signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    if (!document.hidden) {
      resolve();
      return;
    }
    const look = (): void => {
      if (document.hidden) return;
      document.removeEventListener("visibilitychange", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
    signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
  });
}
