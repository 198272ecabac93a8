/** Two runs beside each other: the cells that both have. Pure. */

/** Of a `summary.json`, what is used here. */
export interface Summary {
  readonly manifest: {
    readonly version: string;
    readonly machine: { readonly cpu: string; readonly cores: number; readonly kernel: string };
  };
  readonly parts: readonly Part[];
}

interface Part {
  readonly name: string;
  /** Missing in the lab's earliest summaries, whose rows have other members, too. */
  readonly figure?: string;
  readonly rows: readonly Row[];
}

interface Row {
  readonly cell: string;
  readonly subject: string;
  readonly is_noise: boolean;
  readonly valid: number;
  readonly cpu: { readonly us_per_event: Measured | null };
  readonly throughput: { readonly events_per_s: Measured | null };
  readonly latency: { readonly p99_us: number | null };
  readonly memory: { readonly rss_bytes_per_connection: number | null };
  readonly round_trip: { readonly mean_us: Measured | number | null };
}

/** A median, and how far the samples are apart where that is known. */
interface Measured {
  readonly median: number;
  readonly low?: number;
  readonly high?: number;
}

/** A figure of one subject in one cell, in both runs. */
export interface Pair {
  readonly part: string;
  readonly cell: string;
  readonly subject: string;
  readonly figure: string;
  readonly first: Measured;
  readonly second: Measured;
  /** The second to the first. */
  readonly ratio: number;
  /** Whether the samples of both overlap; `null` where that is not known. */
  readonly overlaps: boolean | null;
}

type Figure = readonly [name: string, of: (row: Row) => Measured | number | null];

/** What a part is about, by its name in the summary. */
const FIGURES: Readonly<Record<string, Figure>> = {
  cpu: ["CPU µs per event", (row) => row.cpu.us_per_event],
  latency: ["p99 µs", (row) => row.latency.p99_us],
  roundtrip: ["round trip, mean µs", (row) => row.round_trip.mean_us],
  ceiling: ["events/s", (row) => row.throughput.events_per_s],
  memory: ["bytes per connection", (row) => row.memory.rss_bytes_per_connection],
};

export interface Comparison {
  readonly pairs: readonly Pair[];
  /** What differs between the runs besides the figures, a sentence each. */
  readonly differences: readonly string[];
}

export function compare(first: Summary, second: Summary): Comparison {
  const pairs: Pair[] = [];
  for (const part of first.parts) {
    const other = second.parts.find(({ name }) => name === part.name);
    const [name, of] = FIGURES[(part.figure ?? "").replace(/[_-]/g, "").toLowerCase()] ?? [];
    if (!other || !name || !of) continue;
    for (const row of part.rows) {
      if (row.is_noise) continue;
      const match = other.rows.find(({ cell, subject }) => cell === row.cell && subject === row.subject);
      const [one, two] = [measured(row, of), match && measured(match, of)];
      if (!one || !two) continue;
      pairs.push({
        part: part.name,
        cell: row.cell,
        subject: row.subject,
        figure: name,
        first: one,
        second: two,
        ratio: two.median / one.median,
        overlaps: overlaps(one, two),
      });
    }
  }
  return { pairs, differences: differences(first.manifest, second.manifest) };
}

function measured(row: Row, of: Figure[1]): Measured | null {
  const found = row.valid > 0 ? of(row) : null;
  return typeof found === "number" ? { median: found } : found;
}

function overlaps(one: Measured, other: Measured): boolean | null {
  const { low, high } = one;
  if (low === undefined || high === undefined || other.low === undefined || other.high === undefined) return null;
  return low <= other.high && other.low <= high;
}

function differences(one: Summary["manifest"], other: Summary["manifest"]): string[] {
  const sides: [string, string, string][] = [
    ["version", one.version, other.version],
    ["processor", one.machine.cpu, other.machine.cpu],
    ["cores", `${one.machine.cores}`, `${other.machine.cores}`],
    ["kernel", one.machine.kernel, other.machine.kernel],
  ];
  return sides.filter(([, a, b]) => a !== b).map(([name, a, b]) => `${name}: ${a} and ${b}`);
}
