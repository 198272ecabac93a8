/**
 * Which transport to try next. A transport is judged by what arrives over it: one that
 * opens and stays silent has failed like one that does not open. What worked stays; what
 * is better is tried again later. While nothing works it is not the transport's fault:
 * then each round of attempts begins with the one that worked last. Pure.
 */

import type { Transport } from "./transports/transport.js";

/** Losses of a transport that worked, one after the other, before another is tried. */
const LOSSES_MAX = 2;

/** The order, and where one stands in it. @internal */
export interface TransportFallback {
  /** The transport to use. */
  current(): Transport;
  isBest(): boolean;
  /** One that is better: the best at first, then each in its turn. */
  better(): Transport | undefined;
  /** This one is the best from now on (`null`: the first of the order is), and that one in use. */
  prefer(best: Transport | null, inUse: Transport | null): void;
  /**
   * Something has arrived over it.
   *
   * @returns whether to try the better one at once: it was the first to come back when
   * nothing had worked.
   */
  worked(transport: Transport): boolean;
  /**
   * The current one has failed, or was lost after it had worked.
   *
   * @returns whether to wait before the next attempt: what has not been tried yet is
   * tried at once.
   */
  failed(): boolean;
}

/** @param first - what worked last time; it begins there if that is in the order. @internal */
export function transportFallback(given: readonly Transport[], first: string | null): TransportFallback {
  let order = given;
  let at = order.findIndex(({ name }) => name === first);
  let hasWorked = at >= 0;
  if (!hasWorked) at = 0;
  /** Where each round of attempts begins: with what worked last. */
  let start = at;
  /** Losses since something last arrived. */
  let losses = 0;
  /** Whether a whole round has been in vain since then. */
  let isOut = false;
  let upgrades = 0;
  return {
    current: () => order[at] as Transport,
    isBest: () => at === 0,
    better: () => (at > 0 ? order[upgrades++ % at] : undefined),
    prefer(best, inUse) {
      // One that is in use though it is not in the order comes last.
      order = [...new Set([best, ...given, inUse])].filter((it) => !!it);
      at = start = inUse ? order.indexOf(inUse) : 0;
      hasWorked = inUse !== null;
      isOut = false;
      losses = upgrades = 0;
    },
    worked(transport) {
      at = order.indexOf(transport);
      // Below where it began it is by chance: the server came back in the middle of a round.
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
