/** Rates over the last seconds, from totals that only grow. Pure: the time is given. */

interface Reading {
  readonly at: number;
  readonly total: number;
}

/** A rate is taken over so long, ms; over longer where little happens, so that it keeps still. */
const SPAN_MS = 2000;
const SPAN_MS_MAX = 10_000;
/** So much is enough for the shorter span. */
const ENOUGH = 50;

export class Meter {
  #readings: Reading[] = [];
  #total = 0;

  get total(): number {
    return this.#total;
  }

  add(amount: number): void {
    this.#total += amount;
  }

  /** Per second. */
  rate(nowMs: number): number {
    this.#readings.push({ at: nowMs, total: this.#total });
    const isOld = (reading: Reading | undefined): boolean => reading !== undefined && nowMs - reading.at >= SPAN_MS_MAX;
    while (isOld(this.#readings[1])) this.#readings.shift();
    const isEnough = ({ at, total }: Reading): boolean => nowMs - at >= SPAN_MS && this.#total - total >= ENOUGH;
    const from = this.#readings.findLast(isEnough) ?? (this.#readings[0] as Reading);
    const passed = nowMs - from.at;
    return passed > 0 ? ((this.#total - from.total) * 1000) / passed : 0;
  }
}
