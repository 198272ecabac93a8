/** What the server has for the lab page. */

import { topics } from "../live/topics.js";

export interface Offer {
  /** Rows per ms that it has sources for, ascending. */
  readonly batches: readonly number[];
  readonly runners: number;
}

const ROWS = /^lab\/rows\/(\d+)$/;
/** A Runner, and not where its acks go. */
export const RUNNER = /^lab\/runner\/\d+$/;

/** Pure. */
export function offer(names: readonly string[]): Offer {
  const batches = names.flatMap((name) => {
    const [, batch] = ROWS.exec(name) ?? [];
    return batch ? [Number(batch)] : [];
  });
  return { batches: batches.sort((a, b) => a - b), runners: names.filter((name) => RUNNER.test(name)).length };
}

export async function fetchOffer(): Promise<Offer> {
  return offer((await topics("lab/")).topics.map(({ topic }) => topic));
}
