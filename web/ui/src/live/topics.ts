/** The topics that a server has. */

import { askForToken, maySubscribe, refusal, request, token } from "../server.js";

export interface Topic {
  readonly topic: string;
  /** Of its newest event. */
  readonly position: string;
  /** Events that the server still has. */
  readonly events: number;
  readonly subscribers: number;
}

/** The server does not list its topics to the reader of this page. */
export class NotListed extends Error {}

/** Topics that a menu shows at first, and that are added at a time. */
export const PAGE = 1000;
/** The server lists no more in one answer. */
const ANSWER_MAX = 10_000;
/** No more are counted: 20 requests, and some 20 MB. */
export const COUNTED_MAX = 200_000;

/** The first topics of a list, by name. */
export interface Listing {
  readonly topics: readonly Topic[];
  /** Whether there are topics behind the last one. */
  readonly isMore: boolean;
}

/** Why the server does not list topics, and with which token: asked again it would say the same. */
let refused: { readonly token: string; readonly why: string } | null = null;

/**
 * The first `limit` topics whose names begin with `prefix`, in as many requests as it takes.
 *
 * @throws NotListed
 */
export async function topics(prefix = "", limit = PAGE): Promise<Listing> {
  const found: Topic[] = [];
  for (;;) {
    const wanted = Math.min(limit - found.length, ANSWER_MAX);
    const { topics, more } = await page(prefix, wanted, found.at(-1)?.topic ?? "");
    found.push(...topics);
    if (!more || !topics.length || found.length >= limit) return { topics: found, isMore: more === true };
  }
}

/** How many topics have names that begin with `prefix`. @throws NotListed */
export async function count(prefix: string): Promise<{ readonly count: number; readonly isAll: boolean }> {
  const { topics: all, isMore } = await topics(prefix, COUNTED_MAX);
  return { count: all.length, isAll: !isMore };
}

/** A piece of the list, as the server gives it (docs/wire.md, "Reading"). @throws NotListed */
async function page(prefix: string, limit: number, after: string): Promise<{ topics: Topic[]; more?: boolean }> {
  const shown = token();
  if (refused?.token === shown) throw new NotListed(refused.why);
  const parameters = new URLSearchParams({ limit: `${limit}`, ...(prefix && { prefix }), ...(after && { after }) });
  const response = await request(`v1/topics?${parameters}`, { isQuiet: true });
  if (response.ok) return (await response.json()) as { topics: Topic[]; more?: boolean };
  const { code, message } = await refusal(response);
  if (response.status === 403 && code === "forbidden") {
    // The server takes the token, which gives other rights: topics can be subscribed to by their names.
    refused = { token: shown, why: message };
    throw new NotListed(message);
  }
  if (response.status !== 401) throw new Error(message);
  const isSubscriber = await maySubscribe(shown);
  // It may have been presented meanwhile.
  if (isSubscriber) refused = { token: shown, why: message };
  else if (shown === token()) askForToken();
  throw new NotListed(message);
}

/** One of them; `null` if there is none of that name. */
export async function topic(name: string): Promise<Topic | null> {
  // By name: what begins like it comes after it.
  const [first] = (await topics(name, 1)).topics;
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

/** The demo's topic of cars. */
const CARS = "car_live_data";

/** The topic that a page opens with: the demo's if there is one, else one where something happens. */
export function opening(all: readonly Topic[]): string | null {
  const alive = all.filter(({ topic, events, subscribers }) => events + subscribers > 0 && !isPassing(topic));
  return (alive.find(({ topic }) => topic === CARS) ?? alive[0])?.topic ?? null;
}

/** The same, of a list whose end is not here: the demo's topic may be behind it. */
export async function openingOf({ topics, isMore }: Listing): Promise<string | null> {
  const cars = isMore && !topics.some(({ topic }) => topic === CARS) ? await topic(CARS) : null;
  return opening(cars ? [...topics, cars] : topics);
}
