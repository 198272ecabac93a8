/** The result of one measurement. Pure. */

/** How busy the page's main thread was during the measurement. */
export interface Busy {
  /** Share of probes that found the thread busy, 0 to 1. */
  readonly share: number;
  /** Share of the time in tasks of over 50 ms; `null` if the browser does not report it. */
  readonly longTasks: number | null;
}

export interface RowsSample {
  readonly kind: "rows";
  readonly spanMs: number;
  /** Sum over all connections. */
  readonly eventsPerS: number;
  readonly bytesPerS: number;
  readonly batchesPerS: number;
  /** Events per second that the server sent to each connection; `null` if it did not report its position. */
  readonly madePerS: number | null;
  /** Events lost in gaps, over all connections. */
  readonly missed: number;
  /** Delay of the first event of each batch, relative to the fastest batch, ms. */
  readonly laterP50Ms: number;
  readonly laterP99Ms: number;
  readonly busy: Busy;
}

export interface TripsSample {
  readonly kind: "trips";
  readonly trips: number;
  readonly totalMs: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly busy: Busy;
}

export type Sample = RowsSample | TripsSample;

/** Returns the figure by which samples are compared: events/s, or ms for all round trips. */
export function figure(sample: Sample): number {
  return sample.kind === "rows" ? sample.eventsPerS : sample.totalMs;
}

/** The component that limited a sample. */
export type Limit = "plan" | "server" | "page" | "between" | "unknown";

/** Share of the planned rate that counts as all of it. */
const NEARLY = 0.95;
/** Share of busy probes from which the thread counts as saturated. */
const SATURATED = 0.85;

/** Returns the limit of a sample. @param planned - planned rate of each connection, events/s. */
export function limit(sample: RowsSample, planned: number, connections: number): Limit {
  const { madePerS, eventsPerS, busy } = sample;
  if (eventsPerS >= planned * connections * NEARLY) return "plan";
  if (madePerS === null) return busy.share > SATURATED ? "page" : "unknown";
  if (eventsPerS >= madePerS * connections * NEARLY) return "server";
  return busy.share > SATURATED ? "page" : "between";
}

/** Limits in words, as they follow "Limited by". */
export const LIMITS: Readonly<Record<Limit, string>> = {
  plan: "the plan: all planned rows arrived",
  server: "the server: it sent fewer rows than planned, and all of them arrived",
  page: "this page: its main thread was saturated",
  between: "the path from server to page (transport, browser or machine); this page was not saturated",
  unknown: "an unknown component: the server did not report how many rows it sent",
};
