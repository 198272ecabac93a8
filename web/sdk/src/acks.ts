/**
 * Acks: what opens a subscription's window again. Sent when a good part of it has been
 * processed, and soon in any case, so that a few large batches do as well as many small.
 */

import type { Commands } from "./commands.js";
import type { Connection } from "./connection.js";
import type { SharedSubscription } from "./sharing.js";

/** The part of a window that is worth an ack at once. */
const SHARE = 1 / 4;
/** Nothing waits longer to be acked, ms. */
const SOON_MS = 50;

/** @internal */
export interface Acks {
  /** So many bytes of it have been processed. */
  processed(subscription: SharedSubscription, bytes: number): void;
  /** The page wants an ack now, or as soon as there is something to ack. */
  request(subscription: SharedSubscription): void;
}

/** @param twoWay - the connection, if commands can go over it. @internal */
export function acks(windowBytes: number, twoWay: () => Connection | null, execute: Commands["execute"]): Acks {
  /** Bytes processed since the last ack; `Infinity`: the page wants one. */
  const unacked = new Map<SharedSubscription, number>();
  let timer: ReturnType<typeof setTimeout> | undefined;

  const add = (subscription: SharedSubscription, bytes: number): void => {
    const due = (unacked.get(subscription) ?? 0) + bytes;
    if (!due) return;
    unacked.set(subscription, due);
    if (due > windowBytes * SHARE) ack(subscription, due);
    else {
      timer ??= setTimeout(() => {
        timer = undefined;
        for (const [it, due] of unacked) ack(it, due);
      }, SOON_MS);
    }
  };

  const ack = (subscription: SharedSubscription, due: number): void => {
    const { topic, position } = subscription;
    if (!position) return;
    unacked.delete(subscription);
    const connection = twoWay();
    if (connection?.carried.get(topic)?.by === subscription) {
      connection.send(JSON.stringify({ command: "ack", topic, position }));
    } else if (!connection && due === Infinity) {
      execute("ack", { topic, position }).catch(() => {});
    }
  };

  return {
    // Only a two-way connection has windows.
    processed: (subscription, bytes) => add(subscription, windowBytes && twoWay() ? bytes : 0),
    request: (subscription) => add(subscription, Infinity),
  };
}
