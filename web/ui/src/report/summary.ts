/** The lab's `summary.json`, as far as the report shows it. Pure. */

/** A value with the interval that holds it. */
export interface Estimate {
  readonly median: number;
  readonly low: number;
  readonly high: number;
}

type Figures = Readonly<Record<string, number | null>>;

export interface Row {
  readonly cell: string;
  readonly subject: string;
  readonly settings: Readonly<Record<string, unknown>>;
  readonly is_baseline: boolean;
  readonly is_noise: boolean;
  readonly valid: number;
  readonly verdict: string;
  readonly cpu: { readonly us_per_event: Estimate | null };
  readonly throughput: { readonly events_per_s: Estimate | null };
  readonly latency: Figures;
  readonly memory: Figures;
  readonly load: Figures;
  readonly round_trip: Figures;
  readonly held?: { readonly connections: Estimate } | null;
  readonly browser?: Readonly<Record<string, Estimate | number | null>> | null;
}

export interface Comparison {
  readonly metric: string;
  readonly cell?: string;
  readonly subject: string;
  readonly baseline: string;
  readonly is_control: boolean;
  readonly ratio: number;
  readonly low: number | null;
  readonly high: number | null;
  readonly word: "better" | "worse" | "equivalent" | "undecided";
}

export interface Part {
  readonly name: string;
  readonly title: string;
  readonly figure: string;
  readonly rows: readonly Row[];
  readonly comparisons?: readonly Comparison[];
  readonly pooled?: readonly Comparison[];
}

/** A step of a search, or of a ramp. */
interface Step {
  readonly rate: number;
  readonly connections: number;
  readonly p99_us: number;
  readonly missed: string | null;
}

/** Seconds since the span began, and values. */
type Curve = readonly (readonly [number, number])[];

export interface Curves {
  /** A word, or an object for a sample that does not count. */
  readonly limited_by: unknown;
  readonly rss_bytes: Curve;
  /** Absent in summaries of older versions, as the next three. */
  readonly cpu_cores?: Curve;
  readonly p50_us?: Curve;
  readonly p99_us?: Curve;
  readonly late_us_max?: Curve;
  readonly steps: readonly Step[];
  readonly spreads: Readonly<Record<string, Estimate | null>>;
}

/** Text and curves of a part. Lists have the order of the part's rows or comparisons. */
export interface ShownPart {
  readonly asked: string;
  readonly metric: string;
  readonly metric_name: string;
  readonly charts: readonly string[];
  readonly heads: readonly [readonly string[], readonly string[]];
  readonly figures: readonly (readonly string[])[];
  readonly notes: readonly string[];
  readonly compared: readonly string[];
  readonly pooled: readonly string[];
  readonly curves: readonly Curves[];
  readonly received: readonly (readonly [string, readonly Fact<string>[]])[];
  readonly published: Published | null;
}

export type Fact<T> = readonly [string, T];

interface Published {
  readonly source: string;
  readonly machine: string;
  readonly figures: readonly { readonly what: string; readonly figure: string }[];
}

export type Grid = readonly (readonly string[])[];

export interface Summary {
  readonly name: string;
  readonly manifest: {
    readonly begun: string;
    readonly command_line: string;
    readonly machine: { readonly cpu: string; readonly cores: number };
  };
  readonly parts: readonly Part[];
  /** Absent in archived summaries. */
  readonly shown?: {
    readonly headline: string;
    readonly details: readonly string[];
    readonly trust: readonly string[];
    readonly standings: Grid;
    readonly cost_table: Grid;
    readonly cost: readonly string[];
    readonly unsettled: readonly string[];
    readonly facts: readonly Fact<readonly string[]>[];
    readonly parts: readonly ShownPart[];
  };
}

/** A row with its curves. */
export interface Shown {
  readonly row: Row;
  readonly curves: Curves | undefined;
}

/** Returns rows by cell, in their order. */
export function byCell(part: Part, shown?: ShownPart): Shown[][] {
  const cells: Shown[][] = [];
  part.rows.forEach((row, index) => {
    const last = cells.at(-1);
    const one = { row, curves: shown?.curves[index] };
    // Old runs may have two cells of the same name: a subject appears once in a cell.
    const isSame = last?.[0]?.row.cell === row.cell && !last.some((other) => other.row.subject === row.subject);
    if (last && isSame) last.push(one);
    else cells.push([one]);
  });
  return cells;
}

/** Figures over time: a title, and the curve in its unit. */
export const OVER_TIME: readonly (readonly [string, (shown: Shown) => Curve])[] = [
  ["Resident memory over time, MB", ({ curves }) => scaled(curves?.rss_bytes, 1e-6)],
  ["CPU of the subject over time, % of a core", ({ curves }) => scaled(curves?.cpu_cores, 100)],
  ["Latency over time, p50, µs", ({ curves }) => scaled(curves?.p50_us, 1)],
  ["Latency over time, p99, µs", ({ curves }) => scaled(curves?.p99_us, 1)],
  [
    "Latest event, or longest silence of an endpoint's connection, over time, ms",
    ({ curves }) => scaled(curves?.late_us_max, 1e-3),
  ],
];

function scaled(curve: Curve = [], by: number): Curve {
  return curve.map(([at_s, value]) => [at_s, value * by]);
}

export interface Metric {
  readonly title: string;
  readonly of: (shown: Shown) => Estimate | null | undefined;
}

const exact = (value: number | null | undefined): Estimate | null =>
  value === null || value === undefined ? null : { median: value, low: value, high: value };
const times = (estimate: Estimate | null | undefined, by: number): Estimate | null =>
  estimate ? { median: estimate.median * by, low: estimate.low * by, high: estimate.high * by } : null;
const cpu: Metric["of"] = ({ row }) => row.cpu.us_per_event;
const rate: Metric["of"] = ({ row }) => row.throughput.events_per_s;
const spread =
  (name: string, by = 1): Metric["of"] =>
  ({ curves }) =>
    times(curves?.spreads[name], by);
const p99: Metric["of"] = (shown) => shown.curves?.spreads["p99_us"] ?? exact(shown.row.latency["p99_us"]);
const browser =
  (name: string, by = 1): Metric["of"] =>
  ({ row }) =>
    times(row.browser?.[name] as Estimate | null, by);

/** Charts by the names that the lab gives them. */
export const METRICS: Readonly<Record<string, Metric>> = {
  events: { title: "Events per second", of: rate },
  messages: { title: "Messages per second", of: rate },
  "set-up": { title: "Established connections per second", of: rate },
  cpu: { title: "CPU of the subject per event, µs", of: cpu },
  "message-cpu": { title: "CPU of the server per message, µs", of: cpu },
  "set-up-cpu": { title: "CPU of the subject per connection, µs", of: cpu },
  "subject-busy": { title: "CPU of the subject, % of its cores", of: spread("subject_busy", 100) },
  p99: { title: "Latency, p99, µs", of: p99 },
  "service-p99": { title: "Service time, p99, µs", of: p99 },
  "set-up-p99": { title: "Due to established, p99, µs", of: p99 },
  "round-trip": { title: "Mean round trip, µs", of: spread("round_trip_us") },
  "round-trip-worst": {
    title: "Mean round trip of the worst sample, µs",
    of: ({ row }) => exact(row.round_trip["mean_us_worst"]),
  },
  "round-trip-p99": { title: "Round trip, p99, µs", of: spread("round_trip_p99_us") },
  "round-trips": { title: "All round trips of a sample, ms", of: spread("round_trips_ms") },
  held: { title: "Clients held within the objective", of: ({ row }) => row.held?.connections },
  received: { title: "Received, MB/s", of: spread("mb_per_s") },
  memory: { title: "Resident memory per connection, KiB", of: spread("rss_bytes_per_connection", 1 / 1024) },
  open: { title: "Time until all connections were established, ms", of: spread("open_ms") },
  "browser-cpu": { title: "CPU of the browser per event, µs", of: browser("us_per_event") },
  "browser-busy": { title: "CPU of the browser, % of a core", of: browser("cpu", 100) },
  "subject-cores": { title: "CPU of the server, % of a core", of: browser("subject_cpu", 100) },
};

/** Cells that differ in one number only. */
export interface Facet {
  /** The other settings that vary, such as `sse, 1000 connections`. */
  readonly label: string;
  readonly cells: readonly (readonly Shown[])[];
}

export interface Axis {
  /** Key of the setting, or `null` if no number varies. */
  readonly key: string | null;
  readonly facets: readonly Facet[];
  /** Cells that no facet has. */
  readonly rest: readonly (readonly Shown[])[];
}

/** Finds the number that varies most: the axis that connects most cells. */
export function axis(cells: readonly (readonly Shown[])[]): Axis {
  let best: Axis = { key: null, facets: [], rest: cells };
  for (const key of varying(cells).filter((name) => cells.every((cell) => typeof setting(cell, name) === "number"))) {
    const all = facetsOf(cells, key);
    const facets = all.filter((facet) => facet.cells.length > 1);
    const rest = all.filter((facet) => facet.cells.length === 1).flatMap((facet) => facet.cells);
    const found = { key, facets, rest };
    const segments = (one: Axis): number => one.facets.reduce((sum, facet) => sum + facet.cells.length - 1, 0);
    if (segments(found) > segments(best)) best = found;
  }
  // Once more without the cells that stand alone: their differences are no part of the labels.
  const together = best.facets.flatMap((facet) => facet.cells);
  return best.key === null ? best : { ...best, facets: facetsOf(together, best.key) };
}

function setting(cell: readonly Shown[], key: string): unknown {
  return (cell.find(({ row }) => row.is_baseline) ?? cell[0])?.row.settings[key];
}

/** Returns the settings that differ between cells. */
function varying(cells: readonly (readonly Shown[])[]): string[] {
  const keys = new Set(cells.flatMap((cell) => Object.keys(cell[0]?.row.settings ?? {})));
  return [...keys].filter((key) => new Set(cells.map((cell) => JSON.stringify(setting(cell, key)))).size > 1);
}

/** Groups cells that differ in one setting only. */
function facetsOf(cells: readonly (readonly Shown[])[], key: string): Facet[] {
  const others = varying(cells).filter((other) => other !== key);
  const groups = new Map<string, (readonly Shown[])[]>();
  for (const cell of cells) {
    const label = others.map((other) => named(other, setting(cell, other))).join(", ");
    groups.set(label, [...(groups.get(label) ?? []), cell]);
  }
  return [...groups].map(([label, group]) => ({ label, cells: group }));
}

/** Returns a setting's value of a cell. */
export function at(cell: readonly Shown[], key: string): number {
  return Number(setting(cell, key));
}

/** Returns a setting for a heading: `1,000 connections`, `window 4`, `no tls`, `sse`. */
export function named(key: string, value: unknown): string {
  if (typeof value === "number") {
    const number = value.toLocaleString("en");
    return key.endsWith("s") ? `${number} ${title(key)}` : `${title(key)} ${number}`;
  }
  if (typeof value === "boolean") return value ? title(key) : `no ${title(key)}`;
  return String(value);
}

/** Returns the name of a setting for an axis: `event bytes`. */
export function title(key: string): string {
  return key.replaceAll("_", " ");
}

/** Looks of a subject: a class of colours. */
export function looks(rows: readonly Row[]): ReadonlyMap<string, string> {
  const all = new Map<string, string>();
  let others = 0;
  for (const { subject, is_baseline, is_noise } of rows) {
    if (all.has(subject)) continue;
    all.set(subject, is_baseline ? "base" : is_noise ? "again" : `c${others++ % 6}`);
  }
  return all;
}
