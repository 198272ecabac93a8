/**
 * Maps of keyed topics. The core loads this module with the first map; a page does not import it.
 *
 * @packageDocumentation
 */

import type { NewEvents } from "./cursor.js";
import { ThalwegError } from "./errors.js";
import type { Flow, SharedSubscription } from "./sharing.js";
import type { Changes } from "./subscription.js";
import { type Gap, type Message, type ParsedPosition, parsePosition } from "./wire.js";

/** The part of a session that maps use. @internal */
export interface MapOwner {
  readonly flow: Flow;
  /** Ends a subscription that the session cannot use. */
  refused(shared: SharedSubscription, error: ThalwegError): void;
}

/** A batch of a map. @internal */
export interface KeyedChanges extends Changes {
  readonly gap: Gap | null;
}

/**
 * Collects the events of a message. Returns the changes of the page's map if they lead to a state that the topic had.
 *
 * The events of one message may be a state that never existed, because the message omits events that newer ones have
 * replaced. The newer ones have arrived when the offset reaches the largest `until` received, so a change of connections
 * does not reset this `until`.
 *
 * @param fresh - the new events of the message.
 * @throws TypeError if the message does not follow the one before.
 * @internal
 */
export function staged(
  shared: SharedSubscription,
  message: Message,
  fresh: NewEvents | null,
  bytes: number,
  owner: MapOwner,
): KeyedChanges | null {
  const { gap, keys, until = 0, first = 1, after = first - 1 } = message;
  if (gap) {
    if (!fresh) return null;
    begin(shared);
    return { changed: [], values: [], removed: [], isWhole: false, gap };
  }
  if (!keys) {
    const why = `${shared.topic} is not a keyed topic: use subscribe, or set kind = "keyed" on the server`;
    owner.refused(shared, new ThalwegError("not_keyed", why));
    return null;
  }
  if (fresh?.gap) {
    shared.cursor = "latest";
    shared.stage = undefined;
    owner.flow.processed(shared, bytes);
    throw new TypeError("events of a keyed topic are missing");
  }
  if (!shared.stage && after > 0) {
    // A map must begin with all keys, so subscribe again.
    shared.cursor = "latest";
    return null;
  }
  const stage = shared.stage ?? begin(shared);
  const { entries, isFresh } = stage;
  stage.until = Math.max(stage.until, until);
  fresh?.events.forEach((event, index) => void entries.set(fresh.keys?.[index] as string, event));
  const { epoch, offset } = parsePosition(shared.cursor) as ParsedPosition;
  // A message without `until` ended at the topic's newest event when the server made it, which may be long ago.
  stage.least = Math.min(stage.least, until || offset);
  if (offset < stage.until) {
    // A new connection may have to continue here, so the server must know which removals concern this map.
    shared.cursor = `${epoch}.${offset}${isFresh && stage.least > offset ? `~${stage.least}` : ""}`;
    return null;
  }

  const changed: string[] = [];
  const values: unknown[] = [];
  const removed = isFresh ? [...shared.map.keys()].filter((key) => !entries.has(key)) : [];
  for (const [key, value] of entries) {
    if (value !== null) {
      changed.push(key);
      values.push(value);
    } else if (shared.map.has(key)) removed.push(key);
  }
  shared.stage = { ...stage, entries: new Map(), isFresh: false };
  if (!isFresh && !changed.length && !removed.length) return null;
  return { changed, values, removed, isWhole: true, gap: null };
}

/** Starts a stage without keys. */
function begin(shared: SharedSubscription) {
  shared.stage = { until: 0, least: Infinity, entries: new Map<string, unknown>(), isFresh: true };
  return shared.stage;
}
