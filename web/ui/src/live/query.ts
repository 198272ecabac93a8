/** Queries that are asked for (docs/queries.md): what the server says of one, where one is wrong, and some to pick. */

import { errorMessage, request } from "../server.js";

/** A query that is shown, and the topic of its rows. */
export interface Asked {
  readonly query: string;
  readonly topic: string;
}

/** The server does not run a query. */
export class Refused extends Error {
  /** Of its answer. */
  readonly status: number;

  constructor(message: string, status: number) {
    super(message);
    this.status = status;
  }
}

/** The topic of a query's rows. Some seconds after nobody reads it the server has forgotten it. @throws Refused */
export async function topicOf(query: string): Promise<string> {
  return ((await (await ask("query", query)).json()) as { topic: string }).topic;
}

/** What a query does, in words. @throws Refused */
export async function explain(query: string): Promise<string> {
  return (await ask("explain", query)).text();
}

async function ask(parameter: string, query: string): Promise<Response> {
  const response = await request(`v1/topics?${parameter}=${encodeURIComponent(query)}`, { isQuiet: true });
  if (!response.ok) throw new Refused(await errorMessage(response), response.status);
  return response;
}

/** A line of a query in which something is wrong. */
export interface Mistake {
  readonly before: string;
  /** What is wrong; a blank where something is missing. */
  readonly word: string;
  readonly after: string;
}

const PLACE = /^line (\d+), column (\d+): /i;
const WORD = /^(?:[\p{L}\p{N}_]+|"[^"]*"|'[^']*'|\S)/u;

/** Where it is that the server finds something wrong; `null` if it does not say so. */
export function mistake(query: string, message: string): Mistake | null {
  const [, line, column] = PLACE.exec(message) ?? [];
  if (!line || !column) return null;
  // The server counts characters, and not the halves of some.
  const text = [...(query.split("\n")[Number(line) - 1] ?? "")];
  const before = text.slice(0, Number(column) - 1).join("");
  const rest = text.slice(Number(column) - 1).join("");
  const word = WORD.exec(rest)?.[0] ?? " ";
  return { before, word, after: rest.slice(word.length) };
}

export interface Example {
  readonly name: string;
  readonly query: string;
}

/** The demo's topic. */
const CARS = "car_live_data";
const EXAMPLES: readonly Example[] = [
  { name: "every row", query: `select * from ${CARS}` },
  {
    name: "the highest speed of each second",
    query: `SELECT window_start, max(speed_kmh) as speed_kmh FROM tumble(${CARS}, INTERVAL 1 s) group by window_start`,
  },
  {
    name: "fast cars, each with its mean speed",
    query:
      `SELECT window_start, car, avg(speed_kmh) AS speed_kmh FROM hop(${CARS}, INTERVAL 1 s, INTERVAL 5 s) ` +
      "GROUP BY window_start, car HAVING avg(speed_kmh) > 60",
  },
];

/**
 * Queries to begin with.
 *
 * @param topics - that the server lists.
 * @param current - the one that is shown.
 */
export function examples(topics: readonly string[], current: string | null): readonly Example[] {
  if (topics.includes(CARS)) return EXAMPLES;
  // Rows of a query that somebody has asked for cannot be queried again.
  if (!current || current.startsWith("query/")) return [];
  return [{ name: `every event of ${current}`, query: `SELECT * FROM ${identifier(current)}` }];
}

/** A topic, as it stands behind `FROM`. */
function identifier(topic: string): string {
  return /^[a-z_]\w*$/i.test(topic) ? topic : `"${topic}"`;
}
