/** What the next connection is to carry, and with which right. */

import { NO_TOKEN, ThalwegError } from "./errors.js";
import type { Post } from "./post.js";
import type { Wanted } from "./reconcile.js";
import type { ConnectPlan, Transport } from "./transports/transport.js";
import { quantity } from "./wire.js";

/** @throws ThalwegError if there is no token or no ticket to be had. @internal */
export async function plan({ hasHeaders }: Transport, wanted: Wanted, post: Post): Promise<ConnectPlan> {
  const { base, fetch, deltas, connectTimeout, token: freshToken } = wanted.settings;
  const token = await freshToken().catch((error) => {
    throw new ThalwegError(NO_TOKEN, error?.message ?? `${error}`);
  });
  const buy = { path: "v1/tickets", body: "", timeoutMs: connectTimeout, token };
  const ticket = token && !hasHeaders ? (await post(buy)).ticket : null;
  const topics = [...wanted.topics.values()];
  // A one-way transport has the same for all of them.
  const interval = quantity(Math.min(...topics.map(wanted.intervalOf)), "ms");
  const [policy, ...others] = new Set(topics.map((it) => it.options.policy));
  const terms = { interval, policy: others.length ? undefined : policy };
  return { base, topics, terms, deltas, token, ticket, fetch };
}
