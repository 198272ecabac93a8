/** Rates over the last seconds, computed from running totals. Pure: the time is a parameter. */

interface Reading {
  readonly at: number;
  readonly total: number;
}

/** Time span of a rate, ms. At low rates the longer span applies, so that the figure is stable. */
const SPAN_MS = 2000;
const SPAN_MS_MAX = 10_000;
/** Amount from which the shorter span applies. */
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

  /** Returns the rate per second. */
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
