/**
 * Acks: what opens a subscription's window again. Sent when a good part of it has been
 * processed, and soon in any case, so that a few large batches do as well as many small.
 */

import type { AnySubscription } from "./subscription.js";

/** The part of a window that is worth an ack at once. */
const SHARE = 1 / 4;
/** Nothing waits longer to be acked, ms. */
const SOON_MS = 50;

/**
 * What is to be called with each subscription and how many bytes of its window were
 * processed; `Infinity`: the page wants an ack now, or as soon as there is something to ack.
 *
 * @param send - acks; `isTold`: because the page wants it. @internal
 */
export function acks(
  windowBytes: number,
  send: (subscription: AnySubscription, isTold: boolean) => void,
): (subscription: AnySubscription, bytes: number) => void {
  /** Bytes processed since the last ack. */
  const unacked = new Map<AnySubscription, number>();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const ack = (subscription: AnySubscription, due: number): void => {
    if (!subscription.position) return;
    unacked.delete(subscription);
    send(subscription, due === Infinity);
  };
  return (subscription, bytes) => {
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
}
