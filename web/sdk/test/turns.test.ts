/** An endless body lets timers, input and rendering run. */

import { expect, it } from "vitest";
import { columns } from "../dist/arrow.js";
import { connect } from "../dist/thalweg.js";
import { boundaries, FIGURES, TYPE } from "./arrow-server.js";

/** Number of pieces after which the body ends, which fails the test. */
const PIECES_MAX = 1_000_000;

const [, SCHEMA_END, HEARTBEAT_END] = boundaries(FIGURES);

/** A response whose body repeats this piece. @returns also whether it was read to its end. */
function endless(type: string, first: Uint8Array, again: Uint8Array): { response: Response; isOver: () => boolean } {
  let [pieces, isOver] = [0, false];
  const body = new ReadableStream<Uint8Array>({
    start: (stream) => stream.enqueue(first),
    pull(stream) {
      isOver = ++pieces > PIECES_MAX;
      if (isOver) stream.close();
      else stream.enqueue(again);
    },
  });
  const headers = { "Content-Type": type, "Thalweg-Position": "e1.0" };
  return { response: new Response(body, { headers }), isOver: () => isOver };
}

it.each([
  [
    "lines",
    endless("application/x-ndjson", new Uint8Array(), new TextEncoder().encode('{"heartbeat":{}}\n')),
    (fetch: typeof globalThis.fetch) => {
      const session = connect("http://server/", { transports: ["http-streaming"], fetch });
      session.subscribe("cars", {}, () => {});
      return session;
    },
  ],
  [
    "columns",
    // The schema, then heartbeats: batches without rows.
    endless(TYPE, FIGURES.slice(0, SCHEMA_END), FIGURES.slice(SCHEMA_END, HEARTBEAT_END)),
    (fetch: typeof globalThis.fetch) => columns("http://server/", "cars", { fetch }, () => {}),
  ],
] as const)("%s", async (_, { response, isOver }, open) => {
  const opened = open((async () => response) as unknown as typeof fetch);
  await new Promise((go) => setTimeout(go, 20));
  expect(isOver()).toBe(false);
  opened.close();
});
