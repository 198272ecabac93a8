/**
 * Chooses the transport of the next attempt. A transport works when a message arrives over it; one that opens and
 * stays silent has failed. A working transport stays in use, and a better one is tried again later. While none works,
 * each round of attempts begins with the transport that worked last. Pure.
 */

import type { Transport } from "./transports/transport.js";

/** Number of consecutive losses of a working transport after which another one is tried. */
const LOSSES_MAX = 2;

/** The order of transports, and the current one. @internal */
export interface TransportFallback {
  current(): Transport;
  isBest(): boolean;
  /** Returns a better transport: the best one first, then the others in turn. */
  better(): Transport | undefined;
  /** Makes `best` the preferred transport (`null`: the first of the order). `inUse` stays the current one. */
  prefer(best: Transport | null, inUse: Transport | null): void;
  /** Records that a message has arrived. Returns whether to try a better transport at once, because this one was first only by chance. */
  worked(transport: Transport): boolean;
  /** Records that the current transport has failed or was lost. Returns whether to wait before the next attempt: not for an untried one. */
  failed(): boolean;
}

/** @param first - the transport that worked last time, which is tried first if it is in the order. @internal */
export function transportFallback(given: readonly Transport[], first: string | null): TransportFallback {
  let order = given;
  let at = order.findIndex(({ name }) => name === first);
  let hasWorked = at >= 0;
  if (!hasWorked) at = 0;
  let start = at;
  /** Losses since the last message. */
  let losses = 0;
  /** Whether a round has failed since the last message. */
  let isOut = false;
  let upgrades = 0;
  return {
    current: () => order[at] as Transport,
    isBest: () => at === 0,
    better: () => (at > 0 ? order[upgrades++ % at] : undefined),
    prefer(best, inUse) {
      // A transport outside of the order comes last.
      order = [...new Set([best, ...given, inUse])].filter((transport) => !!transport);
      at = start = inUse ? order.indexOf(inUse) : 0;
      hasWorked = inUse !== null;
      isOut = false;
      losses = upgrades = 0;
    },
    worked(transport) {
      at = order.indexOf(transport);
      // The server came back during a round of attempts, so chance decided which transport reached the server first.
      const isChance = isOut && at > start;
      if (isChance) upgrades = start;
      start = at;
      isOut = false;
      losses = 0;
      hasWorked = true;
      return isChance;
    },
    failed() {
      if (hasWorked && ++losses < LOSSES_MAX) return true;
      hasWorked = false;
      at = (at + 1) % order.length;
      isOut ||= at === start;
      return at === start;
    },
  };
}
