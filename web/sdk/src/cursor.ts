/**
 * What of a message is new to a subscription. Positions hold across transports, so
 * while one connection takes over from another both may bring the same events: repeats are
 * left out here, and only here. Pure.
 */

import { type Cursor, type Gap, type Message, parsePosition } from "./wire.js";

/** Where a subscription is. */
export interface Progress {
  cursor: Cursor;
  /** Of a value topic: the version at the cursor, if it is here. */
  version?: unknown;
}

/** What is new in a message. */
export interface NewEvents {
  /** Of the first of `events`. */
  first: number;
  events: unknown[];
  /** Of each of them, where they are not consecutive. */
  offsets?: number[] | undefined;
  /** What was missed before them. */
  gap: Gap | null;
  /** Of a value topic: the offset of the version before. */
  previous?: number | undefined;
  /** Where the event differs from that one, once it is made. */
  changed?: readonly string[];
}

/**
 * Moves `progress` behind an envelope or a gap; returns what is new in it, `null` if
 * nothing is. Of a patch the event is left to be made.
 *
 * @throws TypeError if it is neither.
 */
export function advance(progress: Progress, message: Message): NewEvents | null {
  const { gap, patch, events = [], first = 0, offsets, previous } = message;
  const position = parsePosition(message.position ?? "");
  if (!position || !(gap || patch || message.events)) throw new TypeError("no envelope");
  const last = parsePosition(progress.cursor);
  const isSame = last?.epoch === position.epoch;
  // Where the document has been asked for anew nothing is here that a patch could be of. A value that
  // is unknown goes on from no version.
  if (gap?.reason !== "unknown" && (isSame ? position.offset <= last.offset : patch)) return null;
  if (events.length || previous !== last?.offset) progress.version = events[0];
  progress.cursor = message.position as Cursor;
  if (gap) return { first: position.offset + 1, events: [], gap };
  // A version replaces what was before: nothing is missing, however far it jumps.
  const known = previous === undefined ? last : null;
  if (!known && !events.length && !patch) return null;
  if (!known || !isSame) return { first, events, offsets, gap: known && { missed: null, reason: "epoch" }, previous };
  const { after = first - 1 } = message;
  const isMissed = after > known.offset;
  const repeats = offsets
    ? offsets.filter((offset) => offset <= known.offset).length
    : Math.max(0, known.offset + 1 - first);
  const fresh = events.slice(repeats);
  if (!fresh.length && !isMissed) return null;
  return {
    first: offsets?.[repeats] ?? first + repeats,
    events: fresh,
    offsets: offsets?.slice(repeats),
    // A difference of offsets that were never given is no number of events.
    gap: isMissed ? { missed: message.after === undefined ? after - known.offset : null, reason: "unannounced" } : null,
  };
}
