/** The received data of one topic. Batches are stored at any rate; the page draws them a few times a second. */

import type { Gap } from "thalweg";
import { type Age, Ages } from "./age.js";
import { type Column, Columns, cell, type Key, numeric, timeOf } from "./columns.js";
import { type Version, version } from "./document.js";
import { type Events, isSparse, type Received } from "./events.js";
import { KeyedRows } from "./keyed-rows.js";
import { Meter } from "./meter.js";
import { Ring } from "./ring.js";
import { Savings } from "./savings.js";
import { type Aggregate, Series } from "./series.js";

const ROWS_MAX = 100_000;
/** Maximum size of the rows held, bytes on the wire. */
const BYTES_MAX = 48 * 1024 * 1024;
/**
 * The page derives columns from this many first events of a topic, and from a few events of each later batch.
 */
const LEARNED_FROM = 1000;
const LEARNED_FROM_OF_BATCH = 4;
/** Reason of a gap: the server does not have the newest version of a value topic. */
const UNKNOWN = "unknown";
/** Reason of a gap that the server has not reported. After all others the server sends all keys of a keyed topic again. */
const UNANNOUNCED = "unannounced";
const GAPS_MAX = 100;

export interface Missed {
  readonly atMs: number;
  readonly gap: Gap;
}

export interface Stats {
  readonly eventsPerS: number;
  readonly bytesPerS: number;
  readonly age: Age | null;
  readonly gaps: number;
  readonly missed: number;
  readonly isMissedKnown: boolean;
}

export class Feed {
  /** The newest events; on a keyed topic, the newest event of each key. */
  rows: Ring | KeyedRows = new Ring(ROWS_MAX, BYTES_MAX);
  readonly columns = new Columns();
  readonly gaps: Missed[] = [];
  /** The newest version of a value topic. */
  version: Version | null = null;
  /** Time since which the newest version is unknown; `null` while it is known. */
  unknownSinceMs: number | null = null;
  readonly savings = new Savings();
  /** Whether offsets are sparse. Then a difference of offsets is not a number of events. */
  isSparse = false;
  /** The series of the chart, by the key of the column. Names of columns may change. */
  #series = new Map<Key, Series>();
  #windowMs = 0;
  #aggregate: Aggregate = "mean";
  #time: Column | undefined;
  readonly #events = new Meter();
  readonly #bytes = new Meter();
  readonly #ages = new Ages();
  #gapCount = 0;
  #missed = 0;
  #isMissedKnown = true;
  /** For each gap, the number of the first row after it, counted from the first row ever received. */
  readonly #cuts = new Set<number>();

  /** @param isOld - whether the batch was published before the page opened. Old batches do not count in rates. */
  take(batch: Received, nowMs: number, isOld = false): void {
    const { events, gap, keys, bytes } = batch;
    if (gap) this.#miss(gap, nowMs);
    if (!isOld) this.#bytes.add(bytes);
    const count = events.length;
    if (!count) return;
    const stride = this.rows.count < LEARNED_FROM ? 1 : Math.ceil(count / LEARNED_FROM_OF_BATCH);
    for (let index = count - 1; index >= 0; index -= stride) this.columns.learn(events.event(index));
    if (keys) this.#keyed().push(events, keys, bytes);
    else this.#push(batch);
    if (!isOld) this.#events.add(count);
    const time = this.#findTime();
    this.#ages.add(nowMs, time ? numeric("time", cell(events.event(count - 1), time)) : Number.NaN);
    if (this.#series.size) this.#draw(events, time, nowMs);
  }

  /** Returns the series of these columns, and drops all other series. */
  chart(columns: readonly Column[], windowMs: number, aggregate: Aggregate = "mean"): Series[] {
    if (windowMs !== this.#windowMs || aggregate !== this.#aggregate) this.#series.clear();
    this.#windowMs = windowMs;
    this.#aggregate = aggregate;
    const before = this.#series;
    this.#series = new Map();
    return columns.map((column) => {
      const series = before.get(column.key) ?? this.#remembered(column);
      this.#series.set(column.key, series);
      return series;
    });
  }

  stats(nowMs: number): Stats {
    return {
      eventsPerS: this.#events.rate(nowMs),
      bytesPerS: this.#bytes.rate(nowMs),
      age: this.#ages.of(nowMs),
      gaps: this.#gapCount,
      missed: this.#missed,
      isMissedKnown: this.#isMissedKnown,
    };
  }

  /** Returns the rows of a keyed topic. The first events with keys show that the topic is keyed. */
  #keyed(): KeyedRows {
    // Later events of a key replace earlier ones, so offsets have holes.
    this.isSparse = true;
    if (!(this.rows instanceof KeyedRows)) this.rows = new KeyedRows(ROWS_MAX, BYTES_MAX);
    return this.rows;
  }

  #push(batch: Received): void {
    const { events, previous, bytes } = batch;
    // The topic may have another kind after a restart of the server.
    if (this.rows instanceof KeyedRows) this.rows = new Ring(ROWS_MAX, BYTES_MAX);
    const newest = this.rows.at(this.rows.length - 1);
    const isJump = newest && newest.offset + 1 !== events.offset(0) && !this.#cuts.has(this.rows.count);
    if (previous === undefined && (isJump || isSparse(events))) this.isSparse = true;
    this.rows.push(events, previous === undefined ? bytes : this.#replace(batch));
  }

  #findTime(): Column | undefined {
    // The rows of a keyed topic are not in the order of time.
    if (this.rows instanceof KeyedRows) return undefined;
    if (!this.#time || !this.columns.all.includes(this.#time)) this.#time = timeOf(this.rows, this.columns.all);
    return this.#time;
  }

  /** @returns the size of the version, bytes. */
  #replace({ events, changed, bytes }: Received): number {
    const document = events.event(0);
    const size = this.savings.add(document, bytes);
    this.unknownSinceMs = null;
    this.version = version(this.savings.versions, document, changed, this.version);
    return size;
  }

  #miss(gap: Gap, nowMs: number): void {
    this.gaps.push({ atMs: nowMs, gap });
    if (this.gaps.length > GAPS_MAX) this.gaps.shift();
    this.#gapCount += 1;
    // After a gap the version on the page may be outdated.
    if (gap.reason === UNKNOWN || this.version) this.unknownSinceMs ??= nowMs;
    if (this.rows instanceof KeyedRows && gap.reason !== UNANNOUNCED) this.rows.clear();
    for (const series of this.#series.values()) series.cut();
    for (const number of this.#cuts) {
      if (number >= this.rows.start) break;
      this.#cuts.delete(number);
    }
    this.#cuts.add(this.rows.count);
    // A gap of a value topic has no missed events to count, because each version replaces the one before.
    if (gap.reason === UNKNOWN) return;
    if (gap.missed === null) this.#isMissedKnown = false;
    else this.#missed += gap.missed;
  }

  #draw(events: Events, time: Column | undefined, nowMs: number): void {
    const times = time ? events.numbers(time) : nowMs;
    for (const column of this.columns.all) this.#series.get(column.key)?.addAll(times, events.numbers(column));
  }

  /** Returns a series with the values of the rows held, if they have a time. */
  #remembered(column: Column): Series {
    const series = new Series(this.#windowMs, this.#aggregate);
    const time = this.#time;
    const { rows } = this;
    if (!time || rows instanceof KeyedRows) return series;
    for (const [number, events] of rows.batches()) {
      const [times, values] = [events.numbers(time), events.numbers(column)];
      for (let index = Math.max(0, rows.start - number); index < events.length; index++) {
        if (this.#cuts.has(number + index)) series.cut();
        series.add(times[index] as number, values[index] as number);
      }
    }
    if (this.#cuts.has(rows.count)) series.cut();
    return series;
  }
}
