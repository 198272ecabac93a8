/**
 * What of a message is new to a subscription. Positions hold across transports, so
 * while one connection takes over from another both may bring the same events: repeats are
 * left out here, and only here. Pure.
 */

import { type Cursor, type Gap, type Message, parsePosition } from "./wire.js";

/** Where a subscription is. */
export interface Progress {
  cursor: Cursor;
  /** Whether the stream has shown that its offsets are not consecutive. */
  isSparse?: boolean;
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
}

/**
 * Moves `progress` behind an envelope or a gap; returns what is new in it, `null` if
 * nothing is.
 *
 * @throws TypeError if it is neither.
 */
export function advance(progress: Progress, message: Message): NewEvents | null {
  const { gap, events: all, first = 0, offsets, previous } = message;
  const position = parsePosition(message.position ?? "");
  // Nor is a patch one: it was not asked for, and what it is a patch of is not kept.
  if (!position || !(gap || all)) throw new TypeError("no envelope");
  const events = all as unknown[];
  const last = parsePosition(progress.cursor);
  const isSame = last?.epoch === position.epoch;
  if (offsets) progress.isSparse = true;
  if (isSame && position.offset <= last.offset) return null;
  progress.cursor = message.position as Cursor;
  if (gap) return { first: position.offset + 1, events: [], gap };
  // A version replaces what was before: nothing is missing, however far it jumps.
  const after = previous === undefined ? last : null;
  if (!after && !events.length) return null;
  if (!after || !isSame) return { first, events, offsets, gap: after && { missed: null, reason: "epoch" } };
  const known = offsets ? offsets.findIndex((offset) => offset > after.offset) : Math.max(0, after.offset + 1 - first);
  const fresh = events.slice(known);
  const start = offsets ? (offsets[known] ?? first) : first + known;
  const missed = start - after.offset - 1;
  const isJump = missed > 0 && !progress.isSparse;
  if (!fresh.length && !isJump) return null;
  return {
    first: start,
    events: fresh,
    offsets: offsets?.slice(known),
    gap: isJump ? { missed, reason: "unannounced" } : null,
  };
}
