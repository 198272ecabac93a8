/**
 * A topic as columns: tables of Apache Arrow over a streamed `fetch`, for high volume. A page can receive several
 * times as many events per second as with JSON, and reading a column of numbers takes almost no time. This module works in
 * pages, Workers and Node.
 *
 * @packageDocumentation
 */

import type { ColumnListener, ColumnOptions, ColumnStream } from "./arrow/column-stream.js";
import { ColumnReader } from "./arrow/reader.js";
import { checkStart } from "./checks.js";
import { ThalwegError } from "./errors.js";
import { root } from "./options.js";

export type {
  Column,
  ColumnBatch,
  ColumnField,
  ColumnListener,
  ColumnOptions,
  ColumnSchema,
  ColumnStatus,
  ColumnStream,
  ColumnTable,
} from "./arrow/column-stream.js";
export type { Policy } from "./subscription.js";
export type { Cursor, Gap, Position, Start } from "./wire.js";
export { ThalwegError };

/**
 * Receives a topic as columns. The stream reconnects on its own and resumes at its position: events that the server
 * still has are neither lost nor repeated. Events that are no longer available are reported as a gap.
 *
 * Value and keyed topics have no columns, and some servers are built without Arrow. In both cases the server rejects
 * the stream (`onError`); subscribe with a session instead.
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
  return new ColumnReader(root(url), topic, checkStart(topic, options.from), options, listener);
}
