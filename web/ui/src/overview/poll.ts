/** Asks the server for a reading each second while the page is visible, and later each time while it cannot be reached. */

import type { Status } from "thalweg";
import { errorMessage, type Problem, problemOf, request } from "../server.js";
import { Metrics } from "./metrics.js";
import { added, type Ranked, type Reading } from "./reading.js";

export const EVERY_MS = 1000;
/** Longest time that an answer may take, ms. */
const ANSWER_MS = 10_000;
/** Delays after failures, ms. */
const RETRY_MS = [1000, 2000, 4000, 8000];

/** The part of the table that the server sends. */
export interface TopicQuery {
  readonly search: string;
  /** A member of a topic; with a minus, the largest first. */
  readonly sort: string;
  readonly limit: number;
}

export type PollStatus = Pick<Status, "state" | "reason" | "retryAt">;

/** The error of a server that does not show its metrics to this reader. */
export class NotShown extends Error {}

export interface PollListener {
  took(readings: readonly Reading[]): void;
  changed(status: PollStatus, problem: Problem | null): void;
  /** The reader has no right to the metrics. */
  refused(): void;
}

export class Poll {
  #query: TopicQuery;
  #readings: readonly Reading[] = [];
  #failures = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** Aborts the request under way. */
  #current: AbortController | null = null;
  readonly #listener: PollListener;
  readonly #shown = (): void => {
    if (!document.hidden) this.now();
  };

  constructor(query: TopicQuery, listener: PollListener) {
    this.#query = query;
    this.#listener = listener;
    document.addEventListener("visibilitychange", this.#shown);
    this.now();
  }

  ask(query: TopicQuery): void {
    this.#query = query;
    this.now();
  }

  now(): void {
    clearTimeout(this.#timer);
    this.#current?.abort();
    const current = new AbortController();
    this.#current = current;
    void this.#read(current);
  }

  close(): void {
    document.removeEventListener("visibilitychange", this.#shown);
    clearTimeout(this.#timer);
    this.#current?.abort();
    this.#current = null;
  }

  async #read(current: AbortController): Promise<void> {
    try {
      const signal = AbortSignal.any([current.signal, AbortSignal.timeout(ANSWER_MS)]);
      const reading = await read(this.#query, signal);
      if (this.#current !== current) return;
      this.#failures = 0;
      this.#readings = added(this.#readings, reading);
      this.#listener.changed({ state: "open", reason: null }, null);
      this.#listener.took(this.#readings);
      // A hidden page asks again when it is shown.
      if (!document.hidden) this.#timer = setTimeout(() => this.now(), EVERY_MS);
    } catch (error) {
      if (this.#current !== current) return;
      if (error instanceof NotShown) return this.#listener.refused();
      const delayMs = RETRY_MS[Math.min(this.#failures, RETRY_MS.length - 1)] as number;
      this.#failures += 1;
      const isLate = error instanceof DOMException;
      const problem = problemOf(isLate ? new Error("the server does not answer") : error);
      const reason = problem.isUnreachable ? "no server answers" : problem.text;
      this.#listener.changed({ state: "waiting", reason, retryAt: Date.now() + delayMs }, problem);
      if (!document.hidden) this.#timer = setTimeout(() => this.now(), delayMs);
    }
  }
}

/** @throws NotShown */
async function read({ search, sort, limit }: TopicQuery, signal: AbortSignal): Promise<Reading> {
  const parameters = new URLSearchParams({ sort, limit: `${limit}`, ...(search && { search }) });
  const answer = async (path: string): Promise<Response> => {
    const response = await request(path, { isQuiet: true, signal });
    if (response.status === 401 || response.status === 403) throw new NotShown();
    if (!response.ok) throw new Error(await errorMessage(response));
    return response;
  };
  // The metrics first, so that a reader without the right to them makes one request.
  const metrics = new Metrics(await (await answer("metrics")).text());
  const ranked = (await (await answer(`overview/topics?${parameters}`)).json()) as Ranked;
  return { atMs: Date.now(), metrics, ranked };
}
