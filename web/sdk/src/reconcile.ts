/** Applies the topics that a session wants: a new connection gets a plan, an open two-way connection gets commands. */

import type { Commands } from "./commands.js";
import type { Carried, Connection } from "./connection.js";
import { NO_TOKEN, ThalwegError } from "./errors.js";
import type { Settings } from "./options.js";
import type { SharedSubscription } from "./sharing.js";
import type { ConnectPlan, Transport } from "./transports/transport.js";
import { quantity } from "./wire.js";

/** The topics that a session wants, and their terms. @internal */
export interface DesiredTopics {
  readonly topics: ReadonlyMap<string, SharedSubscription>;
  readonly settings: Settings;
  readonly commands: Commands;
  /** Returns the current interval of a subscription, ms. */
  intervalOf(subscription: SharedSubscription): number;
  /** The server has rejected or ended a topic: no events follow. */
  refused(subscription: SharedSubscription, error: ThalwegError): void;
}

/** Plans the next connection. @throws ThalwegError if the page provides no token, or the server no ticket. @internal */
export async function plan({ hasHeaders }: Transport, wanted: DesiredTopics): Promise<ConnectPlan> {
  const { base, fetch, deltas, member, connectTimeout, token: freshToken } = wanted.settings;
  const token = await freshToken().catch((error) => {
    throw new ThalwegError(NO_TOKEN, error?.message ?? `${error}`);
  });
  const ticketRequest = { path: "v1/tickets", body: "", timeoutMs: connectTimeout, token };
  const ticket = token && !hasHeaders ? (await wanted.commands.post(ticketRequest)).ticket : null;
  const topics = [...wanted.topics.values()];
  // A one-way transport has the same terms for all topics.
  const interval = quantity(Math.min(...topics.map((topic) => wanted.intervalOf(topic))), "ms");
  const [policy, ...others] = new Set(topics.map(({ options }) => options.policy));
  const terms = { interval, policy: others.length ? undefined : policy };
  return { base, topics, terms, deltas, member, token, ticket, fetch };
}

/** Subscribes and unsubscribes on a two-way connection. Call this after each change, and when the connection has opened. @internal */
export function reconcile(connection: Connection, wanted: DesiredTopics): void {
  if (!connection.isOpen) return;
  for (const [topic, carried] of connection.carried) {
    const { by, interval } = carried;
    const subscription = wanted.topics.get(topic);
    const isAsWanted = subscription === by && wanted.intervalOf(subscription) === interval;
    if (interval !== null && !isAsWanted) unsubscribe(connection, wanted, topic, carried);
  }
  for (const subscription of wanted.topics.values()) {
    if (!connection.carried.has(subscription.topic)) subscribe(connection, wanted, subscription);
  }
}

/** Unsubscribes. A new subscription waits for the answer, because events before the answer belong to the old one. */
function unsubscribe(connection: Connection, wanted: DesiredTopics, topic: string, carried: Carried): void {
  carried.interval = null;
  const answered = (): void => {
    if (connection.carried.get(topic) === carried) connection.carried.delete(topic);
    reconcile(connection, wanted);
  };
  wanted.commands.send(connection, "unsubscribe", { topic }).then(answered, answered);
}

function subscribe(connection: Connection, wanted: DesiredTopics, subscription: SharedSubscription): void {
  const { topic, cursor, options } = subscription;
  const interval = wanted.intervalOf(subscription);
  connection.carried.set(topic, { by: subscription, interval });
  const members = {
    topic,
    cursor,
    policy: options.policy,
    interval: quantity(interval, "ms"),
    window: quantity(wanted.settings.window, ""),
    keys: options.keys?.length ? options.keys : undefined,
    prefix: options.prefix || undefined,
  };
  wanted.commands.send(connection, "subscribe", members).catch((error: ThalwegError) => {
    // The next connection repeats a command that this one did not execute.
    if (!connection.isOpen || error.code === "draining" || subscription.state === "closed") return;
    connection.carried.delete(topic);
    wanted.refused(subscription, error);
  });
}
