/** What the head of a response says of the stream in its body. Pure. */

import { type Cursor, type Gap, type Position, parsePosition } from "../wire.js";

/** The media type of an Arrow IPC stream. */
export const TYPE = "application/vnd.apache.arrow.stream";

/** Where a stream begins. */
export interface Start {
  /** What comes is behind it. */
  readonly position: Position;
  readonly epoch: string;
  readonly offset: number;
  /** What is missed between the cursor and that. */
  readonly gap: Gap | null;
  /** Whether the server says that the columns are others than those of the events before. */
  readonly isOtherSchema: boolean;
}

/**
 * @param cursor - what was asked for.
 * @throws TypeError if the response is none of a Thalweg server.
 */
export function startOf(headers: Headers, cursor: Cursor): Start {
  const type = headers.get("Content-Type");
  if (type !== TYPE) throw new TypeError(`the response is ${type}, and no Arrow stream`);
  const position = headers.get("Thalweg-Position") ?? "";
  const parsed = parsePosition(position);
  if (!parsed) throw new TypeError("the response does not say where it begins");
  const [how, ...parameters] = (headers.get("Thalweg-Resume") ?? "").split(/\s*;\s*/);
  const isElsewhere = parsePosition(cursor) !== null && cursor !== position;
  let gap: Gap | null = isElsewhere ? { missed: null, reason: "unannounced" } : null;
  if (how === "gap") {
    const { reason = "unannounced", missed } = Object.fromEntries(parameters.map((it) => it.split("=")));
    gap = { missed: missed === undefined ? null : Number(missed), reason };
  }
  return { position, ...parsed, gap, isOtherSchema: how === "schema" };
}
