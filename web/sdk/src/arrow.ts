/**
 * A topic as columns: tables of Apache Arrow over a streamed `fetch`, for high volume. It carries
 * several times as many events a second into a page as JSON does, and reading a column of numbers
 * costs next to nothing. In a page, a Worker, or Node.
 *
 * @packageDocumentation
 */

import type { ColumnListener, ColumnOptions, ColumnStream } from "./arrow/column-stream.js";
import { ColumnReader } from "./arrow/reader.js";
import { ThalwegError } from "./errors.js";
import { root } from "./session.js";
import { checkTopic } from "./subscription.js";
import { cursorOf, isCursor } from "./wire.js";

export type {
  ColumnBatch,
  ColumnListener,
  ColumnOptions,
  ColumnStatus,
  ColumnStream,
} from "./arrow/column-stream.js";
export type { Column, ColumnField, ColumnSchema, ColumnTable } from "./arrow/table.js";
export type { Policy } from "./subscription.js";
export type { Cursor, Gap, Position, Start } from "./wire.js";
export { ThalwegError };

/**
 * Receives a topic as columns. It reconnects by itself, and goes on where it was: nothing is lost
 * and nothing repeated that the server still has. What it no longer has is reported as a gap.
 *
 * Only topics in which every event counts come as columns. Of others the server says so
 * (`onError`), and of a server without Arrow as well; then take the events of a session.
 *
 * ```js
 * const stream = columns("/", "cars", { from: "earliest" }, ({ table, gap, position }) => {
 *   if (gap) console.warn("missed", gap.missed, gap.reason);
 *   for (const speed of table.getChild("speed_kmh").toArray()) sum += speed;
 *   localStorage.cars = position;
 * });
 * ```
 *
 * @param url - the server's root, e.g. `"/"` or `"https://live.example/"`.
 * @param listener - processes each batch.
 * @throws ThalwegError `bad_topic` or `bad_cursor`.
 */
export function columns(
  url: string | URL,
  topic: string,
  options: ColumnOptions,
  listener: ColumnListener,
): ColumnStream {
  const from = cursorOf(options.from);
  checkTopic(topic);
  if (!isCursor(from)) throw new ThalwegError("bad_cursor", `${from} is no place to begin`);
  return new ColumnReader(root(url), topic, options, listener);
}
