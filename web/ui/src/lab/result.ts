/** The result of a run, as it is saved and opened again. Pure. */

import type { Environment } from "./environment.js";
import { type Cell, isSame, type Plan } from "./plan.js";
import { figure, type Limit, limit, type Sample } from "./sample.js";
import { median, type Spread, spread } from "./statistics.js";

const FORMAT = "thalweg-lab-page-1";

export interface Taken {
  readonly cell: Cell;
  /** The round, from 1. */
  readonly repeat: number;
  readonly sample: Sample;
}

export interface Failure {
  readonly cell: Cell;
  readonly repeat: number;
  readonly why: string;
}

export interface Result {
  readonly format: typeof FORMAT;
  readonly plan: Plan;
  readonly environment: Environment;
  /** RFC 3339. */
  readonly begun: string;
  readonly ended: string;
  readonly wasStopped: boolean;
  readonly samples: readonly Taken[];
  readonly failures: readonly Failure[];
}

export function result(parts: Omit<Result, "format">): Result {
  return { format: FORMAT, ...parts };
}

/** Parses a saved result. @throws Error with a sentence, if the text is not a result. */
export function parse(text: string): Result {
  let found: Partial<Result>;
  try {
    found = JSON.parse(text) as Partial<Result>;
  } catch {
    throw new Error("this file is not JSON: open a result that the lab page saved as JSON");
  }
  if (found?.format !== FORMAT || !isWhole(found))
    throw new Error("this file is not a result of the lab page: open a result that the lab page saved as JSON");
  return found as Result;
}

/** Returns whether a result has all members that the page needs: the file may have been edited. */
function isWhole({ plan, environment, begun, samples, failures }: Partial<Result>): boolean {
  if (!isPlan(plan) || typeof environment?.server !== "string" || typeof begun !== "string") return false;
  const kind = plan.experiment === "b" ? "trips" : "rows";
  const isCell = (cell: Partial<Cell> | undefined): boolean => typeof cell?.transport === "string";
  const isSample = (sample: Partial<Sample> | undefined): boolean =>
    sample?.kind === kind && typeof sample.busy?.share === "number";
  return (
    isAll(failures, (failure: Partial<Failure> | null) => isCell(failure?.cell)) &&
    isAll(samples, (taken: Partial<Taken> | null) => isCell(taken?.cell) && isSample(taken?.sample))
  );
}

function isPlan(plan: Partial<Plan> | undefined): plan is Plan {
  const isNumber = (value: unknown): boolean => typeof value === "number";
  if (!isAll(plan?.transports, (transport) => typeof transport === "string")) return false;
  if (plan?.experiment === "b") return isNumber(plan.trips);
  return plan?.experiment === "a1" && isAll(plan.batches, isNumber) && isAll(plan.connections, isNumber);
}

function isAll<T>(all: readonly T[] | undefined, test: (item: T) => boolean): boolean {
  return Array.isArray(all) && all.every(test);
}

export interface Row {
  readonly cell: Cell;
  readonly figure: Spread;
  /** Median of the samples' medians. */
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly busy: number;
  /** MB/s; 0 for round trips. */
  readonly megabytesPerS: number;
  readonly missed: number;
  /** The limit of most samples. */
  readonly limit: Limit;
}

/** Returns a summary of each measured cell, in the order of `cells`. */
export function rows(samples: readonly Taken[], cells: readonly Cell[]): Row[] {
  return cells.flatMap((cell): Row[] => {
    const own = samples.filter((taken) => isSame(taken.cell, cell)).map(({ sample }) => sample);
    const figures = spread(own.map(figure));
    if (!figures) return [];
    const middle = (of: (sample: Sample) => number): number => median(own.map(of));
    return [
      {
        cell,
        figure: figures,
        p50Ms: middle((sample) => (sample.kind === "rows" ? sample.laterP50Ms : sample.p50Ms)),
        p99Ms: middle((sample) => (sample.kind === "rows" ? sample.laterP99Ms : sample.p99Ms)),
        busy: middle((sample) => sample.busy.share),
        megabytesPerS: middle((sample) => (sample.kind === "rows" ? sample.bytesPerS / 1e6 : 0)),
        missed: own.reduce((sum, it) => sum + (it.kind === "rows" ? it.missed : 0), 0),
        limit: most(
          own.map((sample) => (sample.kind === "rows" ? limit(sample, planned(cell), cell.connections) : "plan")),
        ),
      },
    ];
  });
}

/** Returns the planned rate of each connection, events/s: a batch every ms. */
export function planned({ batch }: Cell): number {
  return (batch ?? 0) * 1000;
}

function most<T>(all: readonly T[]): T {
  const times = (one: T): number => all.filter((other) => other === one).length;
  return [...all].sort((a, b) => times(b) - times(a))[0] as T;
}
