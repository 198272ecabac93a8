/** The topics that a server has. */

import { ask, complaint } from "../ask.js";

export interface Topic {
  readonly topic: string;
  /** Of its newest event. */
  readonly position: string;
  /** Events that the server still has. */
  readonly events: number;
  readonly subscribers: number;
}

/** All of them, by name, as many as a menu can show; those whose names begin with `prefix`. */
export async function topics(prefix = "", limit = 1000): Promise<Topic[]> {
  const response = await ask(`v1/topics?limit=${limit}${prefix && `&prefix=${encodeURIComponent(prefix)}`}`);
  if (!response.ok) throw new Error(await complaint(response));
  return ((await response.json()) as { topics: Topic[] }).topics;
}

/** One of them; `null` if there is none of that name. */
export async function topic(name: string): Promise<Topic | null> {
  // By name: what begins like it comes after it.
  const [first] = await topics(name, 1);
  return first?.topic === name ? first : null;
}

/** What a page opens with: a demo topic if there is one, else one where something happens. */
export function opening(all: readonly Topic[]): string | null {
  const alive = all.filter(({ topic, events, subscribers }) => events + subscribers > 0 && !topic.startsWith("lab/"));
  return (alive.find(({ topic }) => topic === "cars") ?? alive[0])?.topic ?? null;
}
