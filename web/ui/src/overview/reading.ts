/** The figures of a server at one time, and their change since earlier times. Pure. */

import { type Metrics, quantile } from "./metrics.js";

/** One row of the table of topics (docs/reference/http.md, "Pages and runs"). */
export interface RankedTopic {
  readonly topic: string;
  readonly kind: string | null;
  /** `null` until the server has taken two samples. */
  readonly events_per_s: number | null;
  readonly bytes_per_s: number | null;
  readonly subscribers: number;
  /** Number of events in memory. */
  readonly events: number;
  readonly memory_bytes: number;
  readonly age_ms: number | null;
  readonly gaps: number;
  readonly trend: readonly number[];
}

export interface Ranked {
  readonly topics: readonly RankedTopic[];
  readonly matching: number;
  /** Whether the server has more topics than it takes figures of. */
  readonly more?: boolean;
  readonly all: {
    readonly topics: number;
    readonly subscribers: number;
    readonly gaps: number;
    readonly events_per_s: number | null;
    readonly bytes_per_s: number | null;
    readonly due_events_per_s: number | null;
  };
  /** By the name of the metric that must stay below. */
  readonly limits: Readonly<Record<string, number>>;
}

export interface Reading {
  readonly atMs: number;
  readonly metrics: Metrics;
  readonly ranked: Ranked;
}

/** Returns topics in the order of `names`, as far as it has them. The others follow in their own order. */
export function inOrder(topics: readonly RankedTopic[], names: readonly string[]): RankedTopic[] {
  const places = new Map(names.map((name, place) => [name, place]));
  const place = ({ topic }: RankedTopic): number => places.get(topic) ?? names.length;
  return [...topics].sort((one, other) => place(one) - place(other));
}

/** Number of readings kept: a minute. */
export const READINGS_MAX = 61;
/** Longest time that a reading is kept, ms: a hidden page reads nothing. */
const KEPT_MS = 60_000;
/** Time span of latencies, ms: long enough for some values, and short enough to show a change. */
const LATENCY_SPAN_MS = 10_000;

/** Adds a reading. A server that has begun again begins a new series. */
export function added(readings: readonly Reading[], next: Reading): Reading[] {
  const start = ({ metrics }: Reading): number => metrics.sum("process_start_time_seconds");
  const last = readings.at(-1);
  if (!last || start(last) !== start(next)) return [next];
  const recent = readings.filter(({ atMs }) => next.atMs - atMs <= KEPT_MS);
  return [...recent, next].slice(-READINGS_MAX);
}

/** The newest reading, compared with those before. There is at least one. */
export class Readings {
  readonly all: readonly Reading[];
  readonly now: Reading;
  readonly #first: Reading;

  constructor(all: readonly Reading[]) {
    this.all = all;
    this.now = all.at(-1) as Reading;
    this.#first = all[0] as Reading;
  }

  /** Returns the increase of a counter per second since the reading before; `null` with a single reading. */
  perS(name: string, labels?: Readonly<Record<string, string>>): number | null {
    return this.rates(name, labels).at(-1) ?? null;
  }

  /** Returns the increase of a counter per second between each two readings. */
  rates(name: string, labels?: Readonly<Record<string, string>>): number[] {
    return this.all.slice(1).map((reading, index) => {
      const before = this.all[index] as Reading;
      const passedS = Math.max(1, reading.atMs - before.atMs) / 1000;
      return (reading.metrics.sum(name, labels) - before.metrics.sum(name, labels)) / passedS;
    });
  }

  /** Returns the increase of a counter over the readings held, at most a minute. */
  recent(name: string, labels: Readonly<Record<string, string>>): number {
    return this.now.metrics.sum(name, labels) - this.#first.metrics.sum(name, labels);
  }

  /** Returns a percentile of a histogram over the last ten seconds, ms; `null` without values. */
  latencyMs(name: string, share: number, shard?: string): number | null {
    const { atMs, metrics } = this.now;
    const before = this.all.find((reading) => atMs - reading.atMs <= LATENCY_SPAN_MS);
    if (!before || before === this.now) return null;
    const seconds = quantile(share, metrics.buckets(name, shard), before.metrics.buckets(name, shard));
    return seconds === null ? null : seconds * 1000;
  }

  /** Returns a percentile of a histogram between each two readings, ms; 0 without values. */
  latencies(name: string, share: number): number[] {
    const buckets = this.all.map(({ metrics }) => metrics.buckets(name));
    return buckets.slice(1).map((after, index) => (quantile(share, after, buckets[index] ?? []) ?? 0) * 1000);
  }

  /** Returns the codes of a counter that have occurred: the most frequent of the last minute first. */
  codes(name: string): { readonly code: string; readonly recent: number; readonly total: number }[] {
    const codes = this.now.metrics.values(name, "code").map((code) => ({
      code,
      recent: this.recent(name, { code }),
      total: this.now.metrics.sum(name, { code }),
    }));
    return codes
      .filter(({ total }) => total > 0)
      .sort((one, other) => other.recent - one.recent || other.total - one.total);
  }
}
