/** Finds the new events of a message. Only this module removes repeats, which a change of connections causes. Pure. */

import { type Cursor, type Gap, type Message, parsePosition } from "./wire.js";

export interface Progress {
  cursor: Cursor;
  /** The version of a value topic at the cursor, if the session has it. */
  version?: unknown;
}

export interface NewEvents {
  first: number;
  events: unknown[];
  offsets?: number[] | undefined;
  /** On a keyed topic: the key of each event. */
  keys?: string[] | undefined;
  gap: Gap | null;
  /** On a value topic: the offset of the previous version. */
  previous?: number | undefined;
  /** The differences from that version, if this one was made from a patch. */
  changed?: readonly string[];
}

/**
 * Moves `progress` past an envelope or a gap. Returns the new events; `null` if there are none. A patch is not applied
 * here. @throws TypeError if the message is neither an envelope nor a gap.
 */
export function advance(progress: Progress, message: Message): NewEvents | null {
  const { gap, patch, events = [], first = 0, offsets, keys, previous } = message;
  const position = parsePosition(message.position ?? "");
  if (!position || !(gap || patch || message.events)) throw new TypeError("neither an envelope nor a gap");
  const last = parsePosition(progress.cursor);
  const isSame = last?.epoch === position.epoch;
  // A gap at offset 0 drops the keys of a keyed topic, and a gap with the reason `unknown` drops the version of a value topic.
  const drops = gap && (gap.reason === "unknown" || (position.offset === 0 && last?.offset));
  // No patch applies to a version of another epoch.
  if (!drops && (isSame ? position.offset <= last.offset : patch)) return null;
  if (events.length || previous !== last?.offset) progress.version = events[0];
  progress.cursor = message.position as Cursor;
  if (gap) return { first: position.offset + 1, events: [], gap };
  // A version replaces the previous one: no event is missing, however far the offset jumps.
  const known = previous === undefined ? last : null;
  if (!known && !events.length && !patch) return null;
  if (!known || !isSame) {
    return { first, events, offsets, keys, gap: known && { missed: null, reason: "epoch" }, previous };
  }
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
    keys: keys?.slice(repeats),
    // If offsets were skipped, their difference is not the number of events.
    gap: isMissed ? { missed: message.after === undefined ? after - known.offset : null, reason: "unannounced" } : null,
  };
}
