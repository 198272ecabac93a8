/** What a two-way connection carries is brought to what the session wants, by commands. */

import type { Commands } from "./commands.js";
import type { Carried, Connection } from "./connection.js";
import type { ThalwegError } from "./errors.js";
import type { Settings } from "./options.js";
import type { SharedSubscription } from "./sharing.js";
import { quantity } from "./wire.js";

/** What is wanted, and how it is asked for. @internal */
export interface Wanted {
  readonly topics: ReadonlyMap<string, SharedSubscription>;
  readonly settings: Settings;
  /** Between two batches of it, as of now, ms. */
  intervalOf(subscription: SharedSubscription): number;
  readonly send: Commands["send"];
  /** The server does not carry it out: nothing will come. */
  refused(subscription: SharedSubscription, error: ThalwegError): void;
}

/** To be called whenever something else is wanted, and when a connection has opened. @internal */
export function reconcile(connection: Connection, wanted: Wanted): void {
  if (!connection.isOpen) return;
  for (const [topic, carried] of connection.carried) {
    if (carried.interval !== null && !isAsWanted(topic, carried, wanted)) {
      unsubscribe(connection, wanted, topic, carried);
    }
  }
  for (const subscription of wanted.topics.values()) {
    if (!connection.carried.has(subscription.topic)) subscribe(connection, wanted, subscription);
  }
}

function isAsWanted(topic: string, { by, interval }: Carried, wanted: Wanted): boolean {
  const subscription = wanted.topics.get(topic);
  return subscription === by && wanted.intervalOf(subscription) === interval;
}

/**
 * Until this is answered there comes what was sent before, which is not for whoever is next:
 * only then is the topic subscribed to again.
 */
function unsubscribe(connection: Connection, wanted: Wanted, topic: string, carried: Carried): void {
  carried.interval = null;
  const answered = (): void => {
    if (connection.carried.get(topic) === carried) connection.carried.delete(topic);
    reconcile(connection, wanted);
  };
  wanted.send(connection, "unsubscribe", { topic }).then(answered, answered);
}

function subscribe(connection: Connection, wanted: Wanted, subscription: SharedSubscription): void {
  const { topic, cursor, options } = subscription;
  const interval = wanted.intervalOf(subscription);
  connection.carried.set(topic, { by: subscription, interval });
  const members = {
    topic,
    cursor,
    policy: options.policy,
    interval: quantity(interval, "ms"),
    window: quantity(wanted.settings.window, ""),
  };
  wanted.send(connection, "subscribe", members).catch((error: ThalwegError) => {
    // What was not done here is asked for again over the next connection.
    if (!connection.isOpen || error.code === "draining" || subscription.isOver) return;
    connection.carried.delete(topic);
    wanted.refused(subscription, error);
  });
}
