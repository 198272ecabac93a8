/**
 * What of a message is new to a subscription. Positions hold across transports, so
 * while one connection takes over from another both may say the same: what has been
 * had is left out here, and only here. Pure.
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
  const { gap, events = [], first = 0, offsets } = message;
  const came = parsePosition(message.position ?? "");
  if (!came || !(gap || first)) throw new TypeError("no envelope");
  const held = parsePosition(progress.cursor);
  const isSame = held?.epoch === came.epoch;
  if (offsets) progress.isSparse = true;
  if (isSame && came.offset <= held.offset) return null;
  progress.cursor = message.position as Cursor;
  if (gap) return { first: came.offset + 1, events: [], gap };
  if (!held && !events.length) return null;
  if (!held || !isSame) return { first, events, offsets, gap: held && { missed: null, reason: "epoch" } };
  const had = offsets ? offsets.findIndex((offset) => offset > held.offset) : Math.max(0, held.offset + 1 - first);
  const fresh = events.slice(had);
  const start = offsets ? (offsets[had] ?? first) : first + had;
  const missed = start - held.offset - 1;
  const isJump = missed > 0 && !progress.isSparse;
  if (!fresh.length && !isJump) return null;
  return {
    first: start,
    events: fresh,
    offsets: offsets?.slice(had),
    gap: isJump ? { missed, reason: "unannounced" } : null,
  };
}
