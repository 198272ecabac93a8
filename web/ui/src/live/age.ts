/**
 * How old the newest event is. By its own time, where it has one; where that is of a clock
 * far from this one, by how much later it came than the quickest did. Pure.
 */

/** Clocks that are further apart are not the same one, ms. */
const APART_MS = 24 * 3600 * 1000;

export type AgeBy = "its own time" | "the quickest event" | "when it came";

export interface Age {
  readonly ms: number;
  readonly by: AgeBy;
}

export class Ages {
  #cameMs: number | null = null;
  #happenedMs = Number.NaN;
  /** From happening to coming, of the quickest. */
  #leastMs = Infinity;

  /** @param happenedMs - by the event's own time; `NaN` if it has none. */
  came(nowMs: number, happenedMs: number): void {
    this.#cameMs = nowMs;
    this.#happenedMs = happenedMs;
    if (Number.isFinite(happenedMs)) this.#leastMs = Math.min(this.#leastMs, nowMs - happenedMs);
  }

  /** `null` before the first. */
  of(nowMs: number): Age | null {
    if (this.#cameMs === null) return null;
    if (!Number.isFinite(this.#happenedMs)) return { ms: Math.max(0, nowMs - this.#cameMs), by: "when it came" };
    const isSame = Math.abs(this.#leastMs) < APART_MS;
    const ms = nowMs - this.#happenedMs - (isSame ? 0 : this.#leastMs);
    return { ms: Math.max(0, ms), by: isSame ? "its own time" : "the quickest event" };
  }
}
