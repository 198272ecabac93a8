/** Ad hoc queries (docs/reference/sql.md): requests, errors with their place in the text, and examples. */

import { errorMessage, request } from "../server.js";

export interface AdHocQuery {
  readonly query: string;
  readonly topic: string;
}

/** The error for a query that the server rejected. */
export class Refused extends Error {
  readonly status: number;

  constructor(message: string, status: number) {
    super(message);
    this.status = status;
  }
}

/** Returns the topic of a query's rows. The server drops the query a few seconds after its last reader leaves. @throws Refused */
export async function topicOf(query: string): Promise<string> {
  return ((await (await ask("query", query)).json()) as { topic: string }).topic;
}

/** Returns a description of a query. @throws Refused */
export async function explain(query: string): Promise<string> {
  return (await ask("explain", query)).text();
}

async function ask(parameter: string, query: string): Promise<Response> {
  const response = await request(`v1/topics?${parameter}=${encodeURIComponent(query)}`, { isQuiet: true });
  if (!response.ok) throw new Refused(await errorMessage(response), response.status);
  return response;
}

/** A line of a query with an error. */
export interface Mistake {
  readonly before: string;
  /** The wrong word; a blank if a word is missing. */
  readonly word: string;
  readonly after: string;
}

const PLACE = /^line (\d+), column (\d+): /i;
const WORD = /^(?:[\p{L}\p{N}_]+|"[^"]*"|'[^']*'|\S)/u;

/** Returns the place of an error; `null` if the message does not name one. */
export function mistake(query: string, message: string): Mistake | null {
  const [, line, column] = PLACE.exec(message) ?? [];
  if (!line || !column) return null;
  // The server counts characters. JavaScript counts UTF-16 units, so the line is split into characters.
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
  {
    name: "each car so far",
    query: `SELECT car, count(*) AS positions, max(speed_kmh) AS fastest FROM ${CARS} GROUP BY car`,
  },
];

/** @param topics - the topics that the server lists. @param current - the topic that the page shows. */
export function examples(topics: readonly string[], current: string | null): readonly Example[] {
  if (topics.includes(CARS)) return EXAMPLES;
  // The rows of an ad hoc query cannot be queried.
  if (!current || current.startsWith("query/")) return [];
  return [{ name: `every event of ${current}`, query: `SELECT * FROM ${identifier(current)}` }];
}

/** Returns a topic in the syntax of `FROM`. */
function identifier(topic: string): string {
  return /^[a-z_]\w*$/i.test(topic) ? topic : `"${topic}"`;
}
