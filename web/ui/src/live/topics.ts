/** The topics that a server has. */

import { askForToken, errorMessage, maySubscribe, request, token } from "../server.js";

export interface Topic {
  readonly topic: string;
  /** Of its newest event. */
  readonly position: string;
  /** Events that the server still has. */
  readonly events: number;
  readonly subscribers: number;
}

/** The server does not list its topics to who is here. */
export class NotListed extends Error {}

/** Why not, and with which token: asked again it would say the same. */
let refused: { readonly token: string; readonly why: string } | null = null;

/** All of them, by name, as many as a menu can show; those whose names begin with `prefix`. @throws NotListed */
export async function topics(prefix = "", limit = 1000): Promise<Topic[]> {
  const shown = token();
  if (refused?.token === shown) throw new NotListed(refused.why);
  const path = `v1/topics?limit=${limit}${prefix && `&prefix=${encodeURIComponent(prefix)}`}`;
  const response = await request(path, { isQuiet: true });
  if (response.status === 401) {
    const why = await errorMessage(response);
    const isSubscriber = await maySubscribe(shown);
    // It may have been presented meanwhile.
    if (isSubscriber) refused = { token: shown, why };
    else if (shown === token()) askForToken();
    throw new NotListed(why);
  }
  if (!response.ok) throw new Error(await errorMessage(response));
  return ((await response.json()) as { topics: Topic[] }).topics;
}

/** One of them; `null` if there is none of that name. */
export async function topic(name: string): Promise<Topic | null> {
  // By name: what begins like it comes after it.
  const [first] = await topics(name, 1);
  return first?.topic === name ? first : null;
}

/** What the columns of a topic are called; none where the server does not know, or does not say it. */
export async function columnNames(topic: string): Promise<string[]> {
  const response = await request(`v1/columns/${topic}`, { isQuiet: true });
  if (!response.ok) return [];
  return ((await response.json()) as { columns: { name: string }[] }).columns.map(({ name }) => name);
}

/** Topics that somebody has made for a moment: the lab's, and those of queries. */
export function isPassing(topic: string): boolean {
  return /^(lab|query)\//.test(topic);
}

/** What a page opens with: a demo topic if there is one, else one where something happens. */
export function opening(all: readonly Topic[]): string | null {
  const alive = all.filter(({ topic, events, subscribers }) => events + subscribers > 0 && !isPassing(topic));
  return (alive.find(({ topic }) => topic === "car_live_data") ?? alive[0])?.topic ?? null;
}
