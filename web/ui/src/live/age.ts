/** The age of the newest event by its timestamp; with another clock, its delay relative to the fastest event. Pure. */

/** Difference from which two clocks count as different, ms. */
const APART_MS = 24 * 3600 * 1000;

export type AgeBy = "its own time" | "the fastest event" | "its arrival";

export interface Age {
  readonly ms: number;
  readonly by: AgeBy;
}

export class Ages {
  #cameMs: number | null = null;
  #happenedMs = Number.NaN;
  /** Smallest time between an event and its arrival. */
  #leastMs = Infinity;

  /** @param happenedMs - the event's timestamp; `NaN` without one. */
  add(nowMs: number, happenedMs: number): void {
    this.#cameMs = nowMs;
    this.#happenedMs = happenedMs;
    if (Number.isFinite(happenedMs)) this.#leastMs = Math.min(this.#leastMs, nowMs - happenedMs);
  }

  /** Returns the age; `null` before the first event. */
  of(nowMs: number): Age | null {
    if (this.#cameMs === null) return null;
    if (!Number.isFinite(this.#happenedMs)) return { ms: Math.max(0, nowMs - this.#cameMs), by: "its arrival" };
    const isSame = Math.abs(this.#leastMs) < APART_MS;
    const ms = nowMs - this.#happenedMs - (isSame ? 0 : this.#leastMs);
    return { ms: Math.max(0, ms), by: isSame ? "its own time" : "the fastest event" };
  }
}
