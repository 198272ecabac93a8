/** Rates over the last seconds, from totals that only grow. Pure: the time is given. */

interface Look {
  readonly at: number;
  readonly total: number;
}

/** A rate is taken over so long, ms; over longer where little happens, so that it keeps still. */
const SPAN_MS = 2000;
const SPAN_MS_MAX = 10_000;
/** So much is enough for the shorter span. */
const ENOUGH = 50;

export class Meter {
  #looks: Look[] = [];
  #total = 0;

  get total(): number {
    return this.#total;
  }

  add(amount: number): void {
    this.#total += amount;
  }

  /** Per second. */
  rate(nowMs: number): number {
    this.#looks.push({ at: nowMs, total: this.#total });
    const isOld = (look: Look | undefined): boolean => look !== undefined && nowMs - look.at >= SPAN_MS_MAX;
    while (isOld(this.#looks[1])) this.#looks.shift();
    const isEnough = ({ at, total }: Look): boolean => nowMs - at >= SPAN_MS && this.#total - total >= ENOUGH;
    const from = this.#looks.findLast(isEnough) ?? (this.#looks[0] as Look);
    const passed = nowMs - from.at;
    return passed > 0 ? ((this.#total - from.total) * 1000) / passed : 0;
  }
}
