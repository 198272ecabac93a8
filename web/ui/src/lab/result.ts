/** A run of the lab page: all that was measured, as it is saved and opened again. Pure. */

import type { Environment } from "./environment.js";
import { type Cell, isSame, type Plan } from "./plan.js";
import { figure, type Limit, limit, type Sample } from "./sample.js";
import { median, type Spread, spread } from "./statistics.js";

const FORMAT = "thalweg-lab-page-1";

export interface Taken {
  readonly cell: Cell;
  /** Which time round, from 1. */
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

/**
 * Reads a saved result.
 *
 * @throws Error with a sentence, if it is none.
 */
export function parse(text: string): Result {
  let found: Partial<Result>;
  try {
    found = JSON.parse(text) as Partial<Result>;
  } catch {
    throw new Error("This file is not JSON: open the one that was saved as JSON.");
  }
  if (found?.format !== FORMAT || !isWhole(found))
    throw new Error("This file is no result of the lab page: open one that was saved here as JSON.");
  return found as Result;
}

/** Whether all is there that is counted on: somebody may have written in the file. */
function isWhole({ plan, environment, begun, samples, failures }: Partial<Result>): boolean {
  if (!isPlan(plan) || typeof environment?.server !== "string" || typeof begun !== "string") return false;
  const kind = plan.experiment === "b" ? "trips" : "rows";
  const isCell = (cell: Partial<Cell> | undefined): boolean => typeof cell?.transport === "string";
  const isSample = (sample: Partial<Sample> | undefined): boolean =>
    sample?.kind === kind && typeof sample.busy?.share === "number";
  return (
    isAll(failures, (it: Partial<Failure> | null) => isCell(it?.cell)) &&
    isAll(samples, (it: Partial<Taken> | null) => isCell(it?.cell) && isSample(it?.sample))
  );
}

function isPlan(plan: Partial<Plan> | undefined): plan is Plan {
  const isNumber = (it: unknown): boolean => typeof it === "number";
  if (!isAll(plan?.transports, (it) => typeof it === "string")) return false;
  if (plan?.experiment === "b") return isNumber(plan.trips);
  return plan?.experiment === "a1" && isAll(plan.batches, isNumber) && isAll(plan.connections, isNumber);
}

function isAll<T>(all: readonly T[] | undefined, is: (one: T) => boolean): boolean {
  return Array.isArray(all) && all.every(is);
}

/** What the repeats of a cell come to. */
export interface Row {
  readonly cell: Cell;
  readonly figure: Spread;
  /** Of the samples' own, the middle one. */
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly busy: number;
  /** MB/s; 0 for round trips. */
  readonly megabytesPerS: number;
  readonly missed: number;
  /** Of most samples. */
  readonly limit: Limit;
}

/** One for each cell that was measured, in the order of `cells`. */
export function rows(samples: readonly Taken[], cells: readonly Cell[]): Row[] {
  return cells.flatMap((cell): Row[] => {
    const own = samples.filter((it) => isSame(it.cell, cell)).map(({ sample }) => sample);
    const figures = spread(own.map(figure));
    if (!figures) return [];
    const middle = (of: (sample: Sample) => number): number => median(own.map(of));
    return [
      {
        cell,
        figure: figures,
        p50Ms: middle((it) => (it.kind === "rows" ? it.laterP50Ms : it.p50Ms)),
        p99Ms: middle((it) => (it.kind === "rows" ? it.laterP99Ms : it.p99Ms)),
        busy: middle((it) => it.busy.share),
        megabytesPerS: middle((it) => (it.kind === "rows" ? it.bytesPerS / 1e6 : 0)),
        missed: own.reduce((sum, it) => sum + (it.kind === "rows" ? it.missed : 0), 0),
        limit: most(own.map((it) => (it.kind === "rows" ? limit(it, planned(cell), cell.connections) : "plan"))),
      },
    ];
  });
}

/** Events a second that the server is to make for each connection: a batch every ms. */
export function planned({ batch }: Cell): number {
  return (batch ?? 0) * 1000;
}

function most<T>(all: readonly T[]): T {
  const times = (one: T): number => all.filter((it) => it === one).length;
  return [...all].sort((a, b) => times(b) - times(a))[0] as T;
}
