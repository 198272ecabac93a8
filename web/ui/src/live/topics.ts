/** The topics of a server. */

import { askForToken, maySubscribe, refusal, request, token } from "../server.js";

export interface Topic {
  readonly topic: string;
  /** Position of the newest event; `null` if the topic is not in memory. */
  readonly position: string | null;
  /** Number of events in memory. */
  readonly events: number;
  readonly subscribers: number;
}

/** The error of a server that does not list topics for this reader. */
export class NotListed extends Error {}

/** Number of topics that the menu shows at first, and that "Show more" adds. */
export const PAGE = 1000;
/** Maximum number of topics in one answer of the server. */
const ANSWER_MAX = 10_000;
/** Maximum number of topics counted: 20 requests, about 20 MB. */
export const COUNTED_MAX = 200_000;

export interface Listing {
  readonly topics: readonly Topic[];
  readonly isMore: boolean;
}

/** The reason why the server does not list topics, and the token of that request. Another request would fail too. */
let refused: { readonly token: string; readonly why: string } | null = null;

/** Returns the first `limit` topics whose names begin with `prefix`, by several requests. @throws NotListed */
export async function topics(prefix = "", limit = PAGE): Promise<Listing> {
  const found: Topic[] = [];
  for (;;) {
    const wanted = Math.min(limit - found.length, ANSWER_MAX);
    const { topics, more } = await page(prefix, wanted, found.at(-1)?.topic ?? "");
    found.push(...topics);
    if (!more || !topics.length || found.length >= limit) return { topics: found, isMore: more === true };
  }
}

/** Returns the number of topics whose names begin with `prefix`. @throws NotListed */
export async function count(prefix: string): Promise<{ readonly count: number; readonly isAll: boolean }> {
  const { topics: all, isMore } = await topics(prefix, COUNTED_MAX);
  return { count: all.length, isAll: !isMore };
}

/** Returns one page of the list (docs/reference/http.md, "Reading"). @throws NotListed */
async function page(prefix: string, limit: number, after: string): Promise<{ topics: Topic[]; more?: boolean }> {
  const shown = token();
  if (refused?.token === shown) throw new NotListed(refused.why);
  const parameters = new URLSearchParams({ limit: `${limit}`, ...(prefix && { prefix }), ...(after && { after }) });
  const response = await request(`v1/topics?${parameters}`, { isQuiet: true });
  if (response.ok) return (await response.json()) as { topics: Topic[]; more?: boolean };
  const { code, message } = await refusal(response);
  if (response.status === 403 && code === "forbidden") {
    // The token is valid, but grants only other rights. Topics can still be opened by name.
    refused = { token: shown, why: message };
    throw new NotListed(message);
  }
  if (response.status !== 401) throw new Error(message);
  const isSubscriber = await maySubscribe(shown);
  // The reader may have presented another token in the meantime.
  if (isSubscriber) refused = { token: shown, why: message };
  else if (shown === token()) askForToken();
  throw new NotListed(message);
}

export async function topic(name: string): Promise<Topic | null> {
  // The list is sorted: longer names with this prefix come after the topic itself.
  const [first] = (await topics(name, 1)).topics;
  return first?.topic === name ? first : null;
}

/** Returns the names of a topic's columns; empty if the server does not know or does not tell them. */
export async function columnNames(topic: string): Promise<string[]> {
  const response = await request(`v1/columns/${topic}`, { isQuiet: true });
  if (!response.ok) return [];
  return ((await response.json()) as { columns: { name: string }[] }).columns.map(({ name }) => name);
}

/** Returns whether a topic with events is keyed. */
export async function hasKeys(topic: string): Promise<boolean> {
  const response = await request(`v1/topics/${topic}?limit=1`, { isQuiet: true });
  return response.ok && "keys" in ((await response.json()) as object);
}

/** Returns whether a topic is temporary: a topic of the lab or of an ad hoc query. */
export function isTemporary(topic: string): boolean {
  return /^(lab|query)\//.test(topic);
}

/** The demo's topic of cars. */
export const CARS = "car_live_data";

/** Returns the topic that the page opens with: the demo's, or the first one with events or subscribers. */
export function opening(all: readonly Topic[]): string | null {
  const alive = all.filter(({ topic, events, subscribers }) => events + subscribers > 0 && !isTemporary(topic));
  return (alive.find(({ topic }) => topic === CARS) ?? alive[0])?.topic ?? null;
}

/** Returns the topic that the page opens with, even if the demo's topic is in the part that is not listed. */
export async function openingOf({ topics, isMore }: Listing): Promise<string | null> {
  const cars = isMore && !topics.some(({ topic }) => topic === CARS) ? await topic(CARS) : null;
  return opening(cars ? [...topics, cars] : topics);
}
