/** Reads metrics in Prometheus' text format (docs/reference/metrics.md). Pure. */

export interface Sample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** Cumulative counts of a histogram by the upper bound of each bucket, s; the last bound is infinite. */
export type Buckets = readonly (readonly [boundS: number, count: number])[];

const LINE = /^([a-z_]+)(?:\{(.*)\})? (\S+)$/;
const LABEL = /([a-z_]+)="([^"]*)"/g;

export class Metrics {
  readonly #samples = new Map<string, Sample[]>();

  constructor(text: string) {
    for (const line of text.split("\n")) {
      const [, name, labels = "", value] = LINE.exec(line) ?? [];
      if (!name) continue;
      const sample = { labels: labelsOf(labels), value: Number(value) };
      const known = this.#samples.get(name);
      if (known) known.push(sample);
      else this.#samples.set(name, [sample]);
    }
  }

  /** @param name - of a metric; without `process_` or `thalweg_` at its beginning it is one of Thalweg's. */
  samples(name: string): readonly Sample[] {
    return this.#samples.get(/^(process|thalweg)_/.test(name) ? name : `thalweg_${name}`) ?? [];
  }

  /** Returns the sum of all samples, or of those whose labels have these values. */
  sum(name: string, labels: Readonly<Record<string, string>> = {}): number {
    const wanted = Object.entries(labels);
    const fits = (sample: Sample): boolean => wanted.every(([label, value]) => sample.labels[label] === value);
    return this.samples(name).reduce((sum, sample) => (fits(sample) ? sum + sample.value : sum), 0);
  }

  /** Returns the values of a label, each once. */
  values(name: string, label: string): string[] {
    return [...new Set(this.samples(name).flatMap(({ labels }) => labels[label] ?? []))];
  }

  /** Returns the sum of the buckets of all samples, or of those of one shard. */
  buckets(name: string, shard?: string): Buckets {
    const counts = new Map<number, number>();
    for (const { labels, value } of this.samples(`${name}_bucket`)) {
      if (shard !== undefined && labels["shard"] !== shard) continue;
      const bound = labels["le"] === "+Inf" ? Infinity : Number(labels["le"]);
      counts.set(bound, (counts.get(bound) ?? 0) + value);
    }
    return [...counts].sort(([one], [other]) => one - other);
  }
}

/**
 * Returns the duration, s, below which a share of the values between two readings lies, interpolated within its bucket; `null`
 * without values.
 */
export function quantile(share: number, now: Buckets, before: Buckets): number | null {
  const earlier = new Map(before);
  const counts = now.map(([bound, count]) => [bound, count - (earlier.get(bound) ?? 0)] as const);
  const total = counts.at(-1)?.[1] ?? 0;
  if (total <= 0) return null;
  const wanted = share * total;
  let [least, below] = [0, 0];
  for (const [bound, count] of counts) {
    if (count >= wanted) {
      if (bound === Infinity) return least;
      return least + (bound - least) * (count > below ? (wanted - below) / (count - below) : 1);
    }
    [least, below] = [bound, count];
  }
  return least;
}

function labelsOf(text: string): Record<string, string> {
  const labels: Record<string, string> = {};
  for (const [, name = "", value = ""] of text.matchAll(LABEL)) labels[name] = value;
  return labels;
}
