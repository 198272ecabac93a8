/** Arrow streams, valid and invalid, cut at all places. */

import { dictionary, float64, int32, int64, tableFromArrays, tableToIPC, utf8 } from "@uwdata/flechette";
import { expect, it, vi } from "vitest";
import type { ColumnBatch } from "../dist/arrow.js";
import { answer, BEFORE, boundaries, CARS, FIGURES, type Page, receive, rows, TABLES, until } from "./arrow-server.js";
import { seeded } from "./random.js";

/** Waits until the next attempt has begun or is scheduled. */
async function over({ stream, requests }: Page): Promise<void> {
  await until(() => requests.length > 1 || ["waiting", "closed"].includes(stream.status.state));
}

function pieces(stream: Uint8Array, size: () => number): Uint8Array[] {
  const all: Uint8Array[] = [];
  for (let at = 0; at < stream.length; at += all.at(-1)?.length ?? 0) all.push(stream.slice(at, at + size()));
  return all;
}

it("tables have the published values, as numbers, booleans, texts and null", async () => {
  const page = receive([answer([CARS])]);
  await over(page);
  expect(page.batches.map(rows)).toEqual(TABLES.cars);
  const [first] = page.batches as [ColumnBatch];
  expect(first).toMatchObject({ topic: "cars", count: 3, first: 2 ** 33, position: `e1.${2 ** 33 + 2}`, gap: null });
  expect(first.table.numRows).toBe(3);
  expect(first.table.schema.fields.at(-1)?.metadata?.get("thalweg.type")).toBe("json");
  expect(first.table.schema.metadata?.get("thalweg.epoch")).toBe("e1");
});

it("values are equal by index, by iteration, and by row", async () => {
  const page = receive([answer([CARS])]);
  await over(page);
  for (const { table, count } of page.batches) {
    for (const column of table.children) {
      const all = Array.from(column.toArray());
      expect(Array.from({ length: count }, (_, row) => column.at(row))).toEqual(all);
      expect([...column]).toEqual(all);
      expect(column.nullCount).toBe(all.filter((it) => it === null).length);
    }
    expect(table.at(0)?.["car"]).toBe(table.getChild("car")?.at(0));
  }
});

it("a column of numbers without null is an array of floats", async () => {
  const page = receive([answer([CARS])]);
  await over(page);
  const { table } = page.batches[1] as ColumnBatch;
  for (const name of ["_offset", "speed", "total", "time"]) {
    expect(table.getChild(name)?.toArray(), name).toBeInstanceOf(Float64Array);
  }
});

/** Converts tables to texts, because thousands of them are compared. */
const CARS_TEXT = JSON.stringify(TABLES.cars);

it("tables are equal for all places at which the stream is split", async () => {
  for (let at = 1; at < CARS.length; at++) {
    const page = receive([answer([CARS.slice(0, at), CARS.slice(at)])]);
    await over(page);
    if (JSON.stringify(page.batches.map(rows)) !== CARS_TEXT)
      expect(page.batches.map(rows), `cut at ${at}`).toEqual(TABLES.cars);
    page.stream.close();
  }
});

it.each([false, true])(
  "tables are the same in pieces of any size, and stay as they are (bytes: %s)",
  async (ofBytes) => {
    for (let seed = 1; seed < 60; seed++) {
      const random = seeded(seed);
      const page = receive([
        answer(
          pieces(CARS, () => 1 + Math.floor(random() ** 3 * 900)),
          {},
          "end",
          ofBytes,
        ),
      ]);
      await over(page);
      expect(page.batches.map(rows), `seed ${seed}`).toEqual(TABLES.cars);
      page.stream.close();
    }
  },
);

/** Returns a stream of frames with these numbers of rows, each with its own texts. */
function stream(counts: readonly number[]): { bytes: Uint8Array; texts: string[][] } {
  const types = { _offset: int64(), text: dictionary(utf8(), int32()), speed: float64() };
  let first = 2 ** 33;
  const texts: string[][] = [];
  const frames = counts.map((count, frame) => {
    const _offset = Array.from({ length: count }, () => first++);
    const text = _offset.map((offset) => `text ${offset % 7} of ${frame}`);
    texts.push(text);
    const bytes = tableToIPC(tableFromArrays({ _offset, text, speed: _offset }, { types }), { format: "stream" });
    const messages = boundaries(bytes as Uint8Array);
    // The schema comes once, without an end.
    return (bytes as Uint8Array).slice(frame && messages[1], messages.at(-2));
  });
  return { bytes: new Uint8Array(Buffer.concat(frames)), texts };
}

it("reused memory holds each table while it is processed", async () => {
  for (let seed = 1; seed < 60; seed++) {
    const random = seeded(seed);
    // Some frames are longer than half of the memory for such pieces.
    const { bytes, texts } = stream(Array.from({ length: 12 }, () => 1 + Math.floor(random() ** 2 * 200)));
    const seen: unknown[] = [];
    const memories = new Set<unknown>();
    const cut = pieces(bytes, () => 1 + Math.floor(random() ** 3 * 500));
    const page = receive([answer(cut, {}, "end", seed % 2 === 0)], { reuse: true }, async ({ table }) => {
      await Promise.resolve();
      seen.push(Array.from(table.getChild("text")?.toArray() ?? []));
      // Floats are views.
      const floats = table.children[2]?.toArray();
      if (floats instanceof Float64Array) memories.add(floats.buffer);
    });
    await over(page);
    expect(seen, `seed ${seed}`).toEqual(texts);
    expect(memories.size).toBeLessThan(4);
    page.stream.close();
  }
});

it("a truncated stream delivers its complete frames, and the rest is requested again", async () => {
  const ends = boundaries(CARS);
  vi.spyOn(Math, "random").mockReturnValue(0);
  for (let at = 0; at < CARS.length - 8; at += 7) {
    const page = receive([answer([CARS.slice(0, at)])], { from: BEFORE });
    await over(page);
    expect(page.stream.status, `cut at ${at}`).toMatchObject({ state: "waiting", reason: "cut" });
    const whole = ends.filter((end) => end <= at).length - 1;
    // The record batch is the last message of each frame with rows: numbers 6, 10 and 13.
    const expected = [6, 10, 13].filter((number) => whole > number).length;
    expect(page.batches.map(rows)).toEqual(TABLES.cars.slice(0, expected));
    expect(page.stream.position).toBe(page.batches.at(-1)?.position ?? BEFORE);
    page.stream.close();
  }
});

it("a corrupt stream causes an error and another attempt", async () => {
  const random = seeded(7);
  for (let run = 0; run < 3000; run++) {
    const garbled = CARS.slice();
    for (let times = 1 + Math.floor(random() * 3); times > 0; times--) {
      garbled[Math.floor(random() * garbled.length)] = Math.floor(random() * 256);
    }
    const page = receive([answer(pieces(garbled, () => 1024))], {}, (batch) => void rows(batch));
    await over(page);
    page.stream.close();
  }
});

/** Modifies a stream: `put` gets a view of the message with this number. */
function changed(stream: Uint8Array, number: number, put: (view: DataView) => void): Uint8Array {
  const copy = stream.slice();
  const [from, to] = boundaries(copy).slice(number, number + 2) as [number, number];
  put(new DataView(copy.buffer, copy.byteOffset + from, to - from));
  return copy;
}

function field(view: DataView, table: number, number: number): number {
  return table + view.getUint16(table - view.getInt32(table, true) + 4 + 2 * number, true);
}

const message = (view: DataView): number => 8 + view.getUint32(8, true);
const referred = (view: DataView, at: number): number => at + view.getUint32(at, true);

it.each<[string, number, (view: DataView) => void, RegExp]>([
  ["that is no Arrow", 0, (view) => view.setUint32(0, 0x41525231, true), /not an Arrow stream/],
  ["whose head is too long", 1, (view) => view.setInt32(4, 0x7ffffff8, true), /a part of 2147483640 bytes/],
  ["whose head has less than no length", 1, (view) => view.setInt32(4, -8, true), /a part of -8 bytes/],
  [
    "with a body beyond all bounds",
    1,
    (view) => view.setBigInt64(field(view, message(view), 3), 2n ** 40n, true),
    /a part of 1099511627776 bytes/,
  ],
  [
    "with more columns than bytes",
    0,
    (view) => {
      const schema = referred(view, field(view, message(view), 2));
      view.setUint32(referred(view, field(view, schema, 1)), 0x7fffffff, true);
    },
    /the same bytes repeatedly/,
  ],
  [
    "with more rows than bytes",
    6,
    (view) => view.setBigInt64(field(view, referred(view, field(view, message(view), 2)), 0), 2n ** 31n, true),
    /wrong length/,
  ],
  [
    "of another kind of message",
    5,
    (view) => view.setUint8(field(view, message(view), 1), 4),
    /unexpected message of kind 4/,
  ],
])("a stream %s is refused at once", async (_, number, put, why) => {
  const page = receive([answer([changed(CARS, number, put)], {}, "stay")]);
  await over(page);
  expect(page.stream.status).toMatchObject({ state: "waiting", reason: expect.stringMatching(why) });
  expect(page.batches).toEqual([]);
});

it("rejects rows that repeat", async () => {
  const [frame] = boundaries(FIGURES).slice(-3, -2);
  const page = receive([answer([FIGURES.slice(0, -8), FIGURES.slice(frame)])]);
  await over(page);
  expect(page.batches.length).toBe(1);
  expect(page.stream.status.reason).toMatch(/is a repeat/);
});
