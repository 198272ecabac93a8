/** Whether so many events come that columns are worth their while. Pure: the time is given. */

/**
 * From so many events a second on columns are asked for. A page still reads several times as many
 * as JSON, but what that takes is felt.
 */
export const HIGH_PER_S = 50_000;
/** As the mean of so long, ms. */
const SPAN_MS = 3000;

export class Volume {
  #beganMs: number | null = null;
  #count = 0;

  /** @returns whether it has been high for the last while. */
  came(count: number, nowMs: number): boolean {
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
