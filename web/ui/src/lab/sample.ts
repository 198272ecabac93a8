/** What one measurement found. Pure. */

/** What is known of the page's own thread while it was measured. */
export interface Busy {
  /** Of the looks at it, how many found it at work: 0 to 1. */
  readonly share: number;
  /** Of the time, how much went into tasks of over 50 ms; `null` where the browser does not tell. */
  readonly longTasks: number | null;
}

export interface RowsSample {
  readonly kind: "rows";
  readonly spanMs: number;
  /** Over all connections. */
  readonly eventsPerS: number;
  readonly bytesPerS: number;
  readonly batchesPerS: number;
  /** Events that the server made for each connection; `null` if it did not say. */
  readonly madePerS: number | null;
  /** Events that gaps left out, over all connections. */
  readonly missed: number;
  /** How much later than the quickest the first of each batch came, ms. */
  readonly laterP50Ms: number;
  readonly laterP99Ms: number;
  readonly busy: Busy;
}

export interface TripsSample {
  readonly kind: "trips";
  readonly trips: number;
  /** For all of them. */
  readonly totalMs: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly busy: Busy;
}

export type Sample = RowsSample | TripsSample;

/** What is compared: events/s, or ms for all round trips. */
export function figure(sample: Sample): number {
  return sample.kind === "rows" ? sample.eventsPerS : sample.totalMs;
}

/** Who was the limit of a sample. */
export type Limit = "plan" | "server" | "page" | "between" | "unknown";

/** What is this near to what was planned counts as all of it. */
const NEARLY = 0.95;
/** A thread that is found at work this often has no time left. */
const SATURATED = 0.85;

/** @param planned - events a second for each connection. */
export function limit(sample: RowsSample, planned: number, connections: number): Limit {
  const { madePerS, eventsPerS, busy } = sample;
  if (eventsPerS >= planned * connections * NEARLY) return "plan";
  if (madePerS === null) return busy.share > SATURATED ? "page" : "unknown";
  if (eventsPerS >= madePerS * connections * NEARLY) return "server";
  return busy.share > SATURATED ? "page" : "between";
}

/** In words. */
export const LIMITS: Readonly<Record<Limit, string>> = {
  plan: "nobody: all that was planned arrived",
  server: "the server: it made fewer rows than planned, and all that it made arrived",
  page: "this page: its thread had no time left",
  between: "the way between: transport, browser or machine; this page had time left",
  unknown: "not known: the server did not say what it made",
};
