/** The sources that a server has for the lab page. */

import { topics } from "../live/topics.js";

export interface Offer {
  /** Rows per ms of the server's sources, ascending. */
  readonly batches: readonly number[];
  readonly runners: number;
}

const ROWS = /^lab\/rows\/(\d+)$/;
/** The topics of the source `runner`, but not the topics to which their acks go. */
export const RUNNER = /^lab\/runner\/\d+$/;

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
