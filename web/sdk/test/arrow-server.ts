/** A scripted server with Arrow streams that another implementation wrote (streams/make.py). */

import { readFileSync } from "node:fs";
import { afterEach, vi } from "vitest";
import { type ColumnBatch, type ColumnOptions, type ColumnStream, columns, type ThalwegError } from "../dist/arrow.js";

type Rows = Record<string, unknown[]>;

function read(file: string): Buffer {
  return readFileSync(new URL(`streams/${file}`, import.meta.url));
}

/** The frames with rows of a stream, column by column. */
export const TABLES = JSON.parse(read("tables.json").toString()) as { cars: [Rows, Rows, Rows]; figures: [Rows] };
/** Three frames with rows, heartbeats between them, and a close. */
export const CARS: Uint8Array = new Uint8Array(read("cars.arrows"));
/** The same topic with other columns, starting at the next event. */
export const FIGURES: Uint8Array = new Uint8Array(read("figures.arrows"));
export const TYPE = "application/vnd.apache.arrow.stream";
/** The position before the first row. */
export const BEFORE = `e1.${2 ** 33 - 1}`;

/** Offsets of all messages, and the end. */
export function boundaries(stream: Uint8Array): number[] {
  const view = new DataView(stream.buffer, stream.byteOffset, stream.byteLength);
  const found = [0];
  for (let at = 0; at < stream.length; found.push(at)) {
    const head = at + 8;
    const length = view.getInt32(at + 4, true);
    at = head + length;
    if (!length) continue;
    const table = head + view.getUint32(head, true);
    const fields = table - view.getInt32(table, true);
    const body = view.getUint16(fields, true) > 10 ? view.getUint16(fields + 10, true) : 0;
    at += body && Number(view.getBigInt64(table + body, true));
  }
  return found;
}

/** Answers a request, until the request is aborted. */
export type Answer = (signal: AbortSignal) => Response;

/** @param ofBytes - whether the body can be read into the reader's memory, as in newer browsers. */
export function answer(
  pieces: readonly Uint8Array[],
  headers: Record<string, string> = {},
  then: "end" | "cut" | "stay" = "end",
  ofBytes = false,
): Answer {
  return (signal) => {
    const left = [...pieces];
    const body = new ReadableStream({
      ...(ofBytes && { type: "bytes" as const }),
      start(stream: ReadableStreamController<Uint8Array>) {
        signal.addEventListener("abort", () => stream.error(signal.reason));
      },
      pull(stream: ReadableStreamController<Uint8Array>) {
        const next = left.shift();
        if (next) {
          stream.enqueue(new Uint8Array(next));
        } else if (then === "end") {
          stream.close();
          // Cancelling alone does not end a read that waits for bytes.
          if (stream instanceof ReadableByteStreamController) stream.byobRequest?.respond(0);
        } else if (then === "cut") stream.error(new TypeError("network"));
      },
    });
    return new Response(body, { headers: { "Content-Type": TYPE, "Thalweg-Position": BEFORE, ...headers } });
  };
}

export function refusal(status: number, code: string): Answer {
  return () => new Response(JSON.stringify({ error: { code, message: `it is ${code}` } }), { status });
}

export interface Page {
  readonly stream: ColumnStream;
  readonly requests: { url: URL; headers: Record<string, string>; signal: AbortSignal }[];
  readonly batches: ColumnBatch[];
  readonly statuses: string[];
  readonly errors: ThalwegError[];
}

const open: ColumnStream[] = [];

afterEach(() => {
  for (const stream of open.splice(0)) stream.close();
  vi.useRealTimers();
  vi.restoreAllMocks();
});

/** Receives the responses of a server, one per request. Further requests stay unanswered. */
export function receive(
  answers: readonly Answer[],
  options: ColumnOptions = {},
  listener: (batch: ColumnBatch) => void | Promise<void> = () => {},
): Page {
  const left = [...answers];
  const page: Omit<Page, "stream"> = { requests: [], batches: [], statuses: [], errors: [] };
  const fetch = (async (url: URL, { headers, signal }: { headers: Record<string, string>; signal: AbortSignal }) => {
    page.requests.push({ url, headers, signal });
    const next = left.shift();
    if (next) return next(signal);
    return new Promise((_, gone) => signal.addEventListener("abort", () => gone(signal.reason)));
  }) as unknown as typeof globalThis.fetch;
  const stream = columns(
    "http://server/",
    "cars",
    {
      fetch,
      onStatus: ({ state, reason }) => page.statuses.push(reason ? `${state}: ${reason}` : state),
      onError: (error) => page.errors.push(error),
      ...options,
    },
    (batch) => {
      page.batches.push(batch);
      return listener(batch);
    },
  );
  open.push(stream);
  return { ...page, stream };
}

/** Waits for a condition that needs no timer. */
export async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await new Promise((go) => setImmediate(go));
}

/** Converts a table to the form of TABLES. */
export function rows({ table }: ColumnBatch): Rows {
  return Object.fromEntries(table.names.map((name, index) => [name, Array.from(table.children[index]!.toArray())]));
}
