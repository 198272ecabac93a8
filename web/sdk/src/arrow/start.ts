/** The start of a stream, from the headers of its response. Pure. */

import { type Cursor, type Gap, type Position, parsePosition } from "../wire.js";

export const TYPE = "application/vnd.apache.arrow.stream";

export interface Start {
  /** The rows of the stream follow this position. */
  readonly position: Position;
  readonly epoch: string;
  readonly offset: number;
  /** The events missed between the cursor and that position. */
  readonly gap: Gap | null;
  /** Whether the columns differ from those of the events before. */
  readonly isOtherSchema: boolean;
}

/** @param cursor - the cursor of the request. @throws TypeError if the response does not come from a Thalweg server. */
export function startOf(headers: Headers, cursor: Cursor): Start {
  const type = headers.get("Content-Type");
  if (type !== TYPE) throw new TypeError(`the response is ${type} and not an Arrow stream`);
  const position = headers.get("Thalweg-Position") ?? "";
  const parsed = parsePosition(position);
  if (!parsed) throw new TypeError("the response has no valid Thalweg-Position");
  const [how, ...parameters] = (headers.get("Thalweg-Resume") ?? "").split(/\s*;\s*/);
  const isElsewhere = parsePosition(cursor) !== null && cursor !== position;
  let gap: Gap | null = isElsewhere ? { missed: null, reason: "unannounced" } : null;
  if (how === "gap") {
    const { reason = "unannounced", missed } = Object.fromEntries(parameters.map((parameter) => parameter.split("=")));
    gap = { missed: missed === undefined ? null : Number(missed), reason };
  }
  return { position, ...parsed, gap, isOtherSchema: how === "schema" };
}
