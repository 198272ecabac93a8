/** Measures whether the volume is high enough for columns. Pure: the time is a parameter. */

/** Rate from which the page requests columns, events/s. JSON would work at several times this rate, but at a noticeable cost. */
export const HIGH_PER_S = 50_000;
/** Time span of the rate, ms. */
const SPAN_MS = 3000;

export class Volume {
  #beganMs: number | null = null;
  #count = 0;

  /** @returns whether the rate was high during the last time span. */
  add(count: number, nowMs: number): boolean {
    this.#beganMs ??= nowMs;
    this.#count += count;
    const passedMs = nowMs - this.#beganMs;
    if (passedMs < SPAN_MS) return false;
    const isHigh = this.#count * 1000 >= HIGH_PER_S * passedMs;
    this.#beganMs = nowMs;
    this.#count = 0;
    return isHigh;
  }
}
