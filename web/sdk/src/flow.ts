/** Flow control: limits the data that a slow page holds, and acks processed batches so that the server sends more. */

import type { Commands } from "./commands.js";
import type { Connection } from "./connection.js";
import type { Flow, SharedSubscription } from "./sharing.js";

/** Unprocessed bytes at which a transport with backpressure stops reading. */
const FULL_BYTES = 4 * 1024 * 1024;
/** Unprocessed bytes at which a connection without backpressure is closed until there is room. */
const OVER_BYTES = 16 * 1024 * 1024;
/** Share of a window at which an ack is sent at once. */
const SHARE = 1 / 4;
/** Longest delay of an ack for a smaller share, ms. */
const SOON_MS = 50;

/** The flow of a session's messages. @internal */
export interface FlowControl extends Flow {
  received(bytes: number): void;
  /** Whether the page holds so much that a connection without backpressure must close. */
  isOver(): boolean;
  /** Returns a promise to await before reading more; `null` if there is room. */
  drained(): Promise<void> | null;
}

/** @param twoWay - returns the connection for commands, if there is one. @internal */
export function flowControl(
  windowBytes: number,
  twoWay: () => Connection | null,
  execute: Commands["execute"],
): FlowControl {
  /** Bytes received and not yet processed. */
  let total = 0;
  const waiters: (() => void)[] = [];
  /** Bytes processed since the last ack; `Infinity`: the page requested an ack. */
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
        for (const [subscription, due] of unacked) ack(subscription, due);
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
    received(bytes) {
      total += bytes;
    },
    processed(subscription, bytes) {
      total -= bytes;
      if (total < FULL_BYTES / 2) for (const resolve of waiters.splice(0)) resolve();
      // Only a two-way connection has windows.
      if (subscription.state !== "closed") add(subscription, windowBytes && twoWay() ? bytes : 0);
    },
    ack: (subscription) => add(subscription, Infinity),
    isOver: () => total > OVER_BYTES,
    drained: () => (total < FULL_BYTES ? null : new Promise((resolve) => waiters.push(resolve))),
  };
}
