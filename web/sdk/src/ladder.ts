/**
 * Which transport to try next. A transport is judged by what arrives over it: one that
 * opens and stays silent has failed like one that does not open. What worked stays; what
 * is better is tried again later. Pure.
 */

import type { Transport } from "./transports/transport.js";

/** Losses of a transport that worked, one after the other, before another is tried. */
const LOSSES_MAX = 2;

/** The order, and where one stands in it. @internal */
export interface Ladder {
  /** The transport to use. */
  current(): Transport;
  isBest(): boolean;
  /** One that is better: the best at first, then each in its turn. */
  better(): Transport | undefined;
  /** This one is the best from now on (`null`: the first of the order is), and that one in use. */
  prefer(best: Transport | null, inUse: Transport | null): void;
  /** Something has arrived over it. */
  worked(transport: Transport): void;
  /**
   * The current one has failed, or was lost after it had worked.
   *
   * @returns whether to wait before the next attempt: what has not been tried yet is
   * tried at once.
   */
  failed(): boolean;
}

/** @param first - what worked last time; it begins there if that is in the order. @internal */
export function ladder(given: readonly Transport[], first: string | null): Ladder {
  let order = given;
  let at = order.findIndex(({ name }) => name === first);
  let hasWorked = at >= 0;
  if (!hasWorked) at = 0;
  /** Attempts in vain since something last arrived. */
  let vain = 0;
  let climbs = 0;
  return {
    current: () => order[at] as Transport,
    isBest: () => at === 0,
    better: () => (at > 0 ? order[climbs++ % at] : undefined),
    prefer(best, inUse) {
      // One that is in use though it is not in the order comes last.
      order = [...new Set([best, ...given, inUse])].filter((it) => !!it);
      at = inUse ? order.indexOf(inUse) : 0;
      hasWorked = inUse !== null;
      vain = climbs = 0;
    },
    worked(transport) {
      at = order.indexOf(transport);
      vain = 0;
      hasWorked = true;
    },
    failed() {
      vain += 1;
      if (hasWorked && vain < LOSSES_MAX) return true;
      hasWorked = false;
      at = (at + 1) % order.length;
      return vain >= order.length;
    },
  };
}
