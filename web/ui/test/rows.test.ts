/** Stored rows, and the visible part of them. */

import { describe, expect, test } from "vitest";
import { seeded } from "../../sdk/test/random.js";
import { Columns, cell, json, numeric, preview, shown } from "../src/live/columns.js";
import { PublishedEvents } from "../src/live/events.js";
import { IncrementalFilter } from "../src/live/incremental-filter.js";
import { KeyedFilter } from "../src/live/keyed-filter.js";
import { KeyedRows } from "../src/live/keyed-rows.js";
import { Ring } from "../src/live/ring.js";
import type { Rows } from "../src/live/rows.js";
import { filter, sort } from "../src/live/view.js";

const events = (rows: Rows): unknown[] => Array.from({ length: rows.length }, (_, index) => rows.at(index)?.event);
const columnsOf = (...all: unknown[]) => {
  const columns = new Columns();
  for (const event of all) columns.learn(event);
  return columns.all;
};
const numbers = (from: number, count: number): number[] => Array.from({ length: count }, (_, index) => from + index);

describe("a ring", () => {
  test("holds the newest rows for batches of all sizes", () => {
    for (let seed = 1; seed < 40; seed++) {
      const random = seeded(seed);
      const capacity = 1 + Math.floor(random() * 300);
      const ring = new Ring(capacity);
      const all: { offset: number; event: number }[] = [];
      let offset = 1;
      for (let batch = 0; batch < 60; batch++) {
        const count = Math.floor(random() * random() * 200);
        // Some rows are missed.
        offset += random() < 0.2 ? 7 : 0;
        const some = numbers(offset, count);
        const isSparse = random() < 0.3;
        if (isSparse) some.forEach((_, index) => (some[index] = offset + 3 * index));
        // Offsets may be given even if they are consecutive.
        ring.push(new PublishedEvents(offset, some, isSparse || random() < 0.1 ? some : undefined), count);
        all.push(...some.map((event) => ({ offset: event, event })));
        offset = (some.at(-1) ?? offset) + 1;
        const newest = all.slice(-capacity);
        expect(ring.length, `seed ${seed}`).toBe(newest.length);
        expect(ring.count).toBe(all.length);
        expect(ring.start).toBe(all.length - newest.length);
        for (const index of [0, newest.length >> 1, newest.length - 1]) {
          expect(ring.at(index)).toEqual(newest[index]);
        }
      }
      expect(events(ring)).toEqual(all.slice(-capacity).map(({ event }) => event));
      expect(ring.at(-1)).toBeUndefined();
      expect(ring.at(ring.length)).toBeUndefined();
    }
  });

  test("limits its size in bytes", () => {
    const ring = new Ring(1000, 500);
    for (let batch = 0; batch < 10; batch++)
      ring.push(new PublishedEvents(batch * 100, numbers(batch * 100, 100)), 200);
    expect(ring.length).toBe(200);
    expect(ring.start).toBe(800);
  });

  test("does not modify batches", () => {
    const ring = new Ring(100);
    const batch = [1, 2];
    ring.push(new PublishedEvents(1, batch), 2);
    ring.push(new PublishedEvents(3, [3]), 1);
    expect(batch).toEqual([1, 2]);
    expect(events(ring)).toEqual([1, 2, 3]);
  });

  test("a snapshot does not change while rows arrive", () => {
    const ring = new Ring(100);
    ring.push(new PublishedEvents(1, [1, 2, 3]), 3);
    const before = ring.snapshot();
    ring.push(new PublishedEvents(4, [4, 5]), 2);
    ring.push(new PublishedEvents(6, numbers(6, 200)), 200);
    expect(events(before)).toEqual([1, 2, 3]);
    expect(before.at(3)).toBeUndefined();
  });
});

describe("columns", () => {
  test("are found from arrays, objects and values", () => {
    const kinds = (...all: unknown[]) => columnsOf(...all).map(({ name, kind }) => `${name} ${kind}`);
    expect(kinds([1, "a", "2.5", "2022-07-13T21:04:08Z", true, {}])).toEqual([
      "0 number",
      "1 text",
      "2 number",
      "3 time",
      "4 flag",
      "5 json",
    ]);
    expect(kinds({ a: 1 }, { b: "x", a: 2 })).toEqual(["a number", "b text"]);
    expect(kinds(5)).toEqual(["value number"]);
    expect(kinds({ time: 1_700_000_000_000, n: 1_700_000_000_000 })).toEqual(["time time", "n number"]);
    expect(kinds({ a: null }, { a: 1 }, { a: "x" }, { a: 1 })).toEqual(["a text"]);
  });

  test("of arrays have the known names", () => {
    const columns = new Columns();
    columns.rename(["one"]);
    columns.learn([1, 2]);
    expect(columns.all.map(({ name, key }) => [name, key])).toEqual([
      ["one", 0],
      ["1", 1],
    ]);
  });

  test("have unique names for all names of members", () => {
    const names = columnsOf(5, { value: 1 }, { null: 2 }).map(({ name, key }) => [name, key]);
    expect(names).toEqual([
      ["value", null],
      ["value′", "value"],
      ["null", "null"],
    ]);
  });

  test("a blank is not a number", () => {
    expect(columnsOf({ a: " " }).map(({ kind }) => kind)).toEqual(["text"]);
    expect(numeric("number", "  ")).toBeNaN();
    expect(numeric("number", [])).toBeNaN();
    expect(numeric("flag", true)).toBe(1);
  });

  test("a preview of a cell is short and in one line", () => {
    expect(preview("one\ntwo")).toBe("one↵two");
    expect(preview("x".repeat(100_000)).length).toBeLessThan(300);
    expect(preview({ long: "y".repeat(100_000) }).length).toBeLessThan(300);
    expect([null, undefined, 5, { a: 1 }].map(preview)).toEqual(["", "", "5", '{"a":1}']);
  });

  test("deep nesting has a text instead", () => {
    const deep = JSON.parse("[".repeat(100_000) + "]".repeat(100_000)) as unknown;
    expect([json(deep), shown(deep)]).toEqual(["too deeply nested to show", "too deeply nested to show"]);
  });

  test("are a new array only when a column is added", () => {
    const columns = new Columns();
    columns.learn({ a: 1 });
    const before = columns.all;
    columns.learn({ a: 2 });
    expect(columns.all).toBe(before);
    columns.learn({ b: 2 });
    expect(columns.all).not.toBe(before);
  });

  test("cells are own members", () => {
    const [column] = columnsOf({ constructor: 1 });
    expect(cell({ constructor: 7 }, column!)).toBe(7);
    expect(cell({}, column!)).toBeUndefined();
    expect(cell(5, column!)).toBeUndefined();
    expect(cell(null, column!)).toBeUndefined();
  });

  test("timestamps have the server's syntax", () => {
    const second = Date.UTC(2022, 6, 13, 21, 4, 8);
    for (const [text, ms] of [
      ["2022-07-13T21:04:08Z", 0],
      ["2022-07-13T21:04:08.419123", 419],
      ["2022-07-13 23:04:08.5+02", 500],
      ["2022-07-14t02:34:08.123456789+0530", 123],
      ["2022-07-13T14:04:08-07:00", 0],
      ["2022-07-13T21:04z", -8000],
    ] as const) {
      expect(numeric("time", text), text).toBe(second + ms);
      expect(columnsOf({ at: text })[0]?.kind, text).toBe("time");
    }
    for (const none of ["2022-07-13", "2022-13-01T00:00:00Z", "21:04:08Z", "2022-07-13T21:04:08,5Z"]) {
      expect(columnsOf({ at: none })[0]?.kind, none).not.toBe("time");
    }
  });

  test("cells as numbers and as text", () => {
    expect(numeric("time", "1970-01-01T00:00:01Z")).toBe(1000);
    expect(numeric("number", "2.5")).toBe(2.5);
    expect(numeric("number", "")).toBeNaN();
    expect(numeric("text", "5")).toBeNaN();
    expect([shown(null), shown({ a: 1 }), shown(0)]).toEqual(["", '{"a":1}', "0"]);
  });
});

describe("the visible rows", () => {
  const cars = [
    ["c1", 40, "2022-01-01T00:00:00Z"],
    ["c2", 90, "2022-01-02T00:00:00Z"],
    ["c10", null, ""],
  ];
  const columns = columnsOf(...cars);
  const matching = (text: string): unknown[] =>
    cars.filter((car) => filter(text, columns)?.(car)).map(([name]) => name);

  test("words and conditions", () => {
    expect(matching("C1")).toEqual(["c1", "c10"]);
    expect(matching("0=c1")).toEqual(["c1"]);
    expect(matching("1>40")).toEqual(["c2"]);
    expect(matching("1>=40 1<90")).toEqual(["c1"]);
    expect(matching("2>2022-01-01")).toEqual(["c2"]);
    expect(matching("nowhere>3")).toEqual([]);
    expect(filter("  ", columns)).toBeNull();
  });

  test("numbers are sorted by value, other values come last", () => {
    const rows = cars.map((event, offset) => ({ offset, event }));
    const order = (index: number, isDescending: boolean): number[] =>
      sort(rows, columns[index]!, isDescending).map(({ offset }) => offset);
    expect(order(1, false)).toEqual([0, 1, 2]);
    expect(order(1, true)).toEqual([1, 0, 2]);
    expect(order(0, true)).toEqual([1, 2, 0]);
  });
});

describe("an incremental filter", () => {
  /** Each read of the clock is a millisecond later. */
  const clock = () => {
    let now = 0;
    return () => now++;
  };
  const isEven = (event: unknown): boolean => Number(event) % 2 === 0;

  test("finds the same rows as a complete search, while rows arrive and are dropped", () => {
    for (let seed = 1; seed < 20; seed++) {
      const random = seeded(seed);
      const ring = new Ring(1000);
      const filtered = new IncrementalFilter(ring, isEven, null, []);
      const now = clock();
      let next = 0;
      for (let step = 0; step < 50; step++) {
        const count = Math.floor(random() * 400);
        ring.push(new PublishedEvents(next, numbers(next, count)), count);
        next += count;
        filtered.step(now, random() * 5);
      }
      while (!filtered.step(now, 5));
      expect(events(filtered), `seed ${seed}`).toEqual(events(ring).filter(isEven));
    }
  });

  test("stops in time, and resumes", () => {
    const ring = new Ring(10_000);
    ring.push(new PublishedEvents(0, numbers(0, 10_000)), 1);
    const filtered = new IncrementalFilter(ring, isEven, null, []);
    const now = clock();
    expect(filtered.step(now, 3)).toBe(false);
    const found = filtered.length;
    expect(found).toBeGreaterThan(0);
    expect(found).toBeLessThan(5000);
    expect(filtered.step(now, 1e6)).toBe(true);
    expect(filtered.length).toBe(5000);
  });

  test("sorts at most once per interval", () => {
    const ring = new Ring(100);
    ring.push(new PublishedEvents(0, [3, 1, 2]), 1);
    const columns = columnsOf(1);
    let nowMs = 0;
    const filtered = new IncrementalFilter(ring, null, { by: "value", isDescending: true }, columns);
    filtered.step(() => nowMs, 10);
    expect(events(filtered)).toEqual([3, 2, 1]);
    ring.push(new PublishedEvents(3, [9]), 1);
    filtered.step(() => nowMs, 10);
    expect(events(filtered)).toEqual([3, 2, 1]);
    nowMs = 1000;
    filtered.step(() => nowMs, 10);
    expect(events(filtered)).toEqual([9, 3, 2, 1]);
  });
});

describe("the rows of a keyed topic", () => {
  /** Publishes random events of 20 keys. Returns the rows, and the expected events in the order of their keys. */
  const published = (seed: number, each: (rows: KeyedRows, expected: Map<string, unknown>) => void): void => {
    const random = seeded(seed);
    const [rows, expected] = [new KeyedRows(1000), new Map<string, unknown>()];
    let offset = 1;
    for (let batch = 0; batch < 200; batch++) {
      const keys = Array.from({ length: Math.floor(random() * 8) }, () => `k${Math.floor(random() * 20)}`);
      const some = keys.map((_, index) => (random() < 0.3 ? null : offset + index));
      rows.push(new PublishedEvents(offset, some), keys, 1);
      keys.forEach((key, index) => {
        if (some[index] === null) expected.delete(key);
        else expected.set(key, some[index]);
      });
      offset += some.length;
      if (random() < 0.02) {
        rows.clear();
        expected.clear();
      }
      if (random() < 0.5) each(rows, expected);
    }
    each(rows, expected);
  };

  test("are the newest event of each key, each at its place", () => {
    for (let seed = 1; seed < 30; seed++) {
      published(seed, (rows, expected) => {
        expect(rows.length).toBe(expected.size);
        const found = Array.from({ length: rows.length }, (_, index) => rows.at(index));
        expect(
          found.map((row) => [row?.key, row?.event]),
          `seed ${seed}`,
        ).toEqual([...expected]);
        expect(found.every((row) => row?.offset === row?.event)).toBe(true);
        expect(rows.at(rows.length)).toBeUndefined();
      });
    }
  });

  test("a snapshot does not change", () => {
    const rows = new KeyedRows(10);
    rows.push(new PublishedEvents(1, ["old", "other"]), ["a", "b"], 2);
    const before = rows.snapshot();
    rows.push(new PublishedEvents(3, ["new", null]), ["a", "b"], 2);
    expect([events(before), events(rows)]).toEqual([["old", "other"], ["new"]]);
    expect(before.changes).toBeLessThan(rows.changes);
  });

  test("are limited in number and size: the keys that came first go", () => {
    const rows = new KeyedRows(3, 50);
    rows.push(new PublishedEvents(1, [1, 2, 3, 4]), ["a", "b", "c", "d"], 40);
    rows.push(new PublishedEvents(5, [5]), ["c"], 10);
    expect(events(rows)).toEqual([2, 5, 4]);
    rows.push(new PublishedEvents(6, [6]), ["e"], 45);
    expect(events(rows)).toEqual([6]);
    rows.push(new PublishedEvents(7, [7]), ["e"], 90);
    expect(events(rows)).toEqual([7]);
  });

  test("keep their places when holes of removed keys are closed before a read", () => {
    const rows = new KeyedRows(10);
    rows.push(new PublishedEvents(1, ["gone", "first"]), ["g", "k"], 1);
    rows.push(new PublishedEvents(3, [null]), ["g"], 1);
    for (let at = 0; at < 5000; at++) rows.push(new PublishedEvents(4 + at * 2, [at, null]), [`k${at}`, `k${at}`], 1);
    rows.push(new PublishedEvents(20_000, ["changed", "last"]), ["k", "l"], 1);
    expect(events(rows)).toEqual(["changed", "last"]);
  });

  test("a filter has the rows that match now, in order, and only a complete result", () => {
    const isEven = (event: unknown): boolean => Number(event) % 2 === 0;
    for (let seed = 1; seed < 20; seed++) {
      let nowMs = 0;
      let filtered: KeyedFilter | undefined;
      const columns = columnsOf(1);
      published(seed, (rows, expected) => {
        filtered ??= new KeyedFilter(rows, isEven, { by: "value", isDescending: true }, columns);
        nowMs += 2000;
        while (!filtered.step(() => nowMs++, 3));
        const matching = [...expected.values()].filter(isEven) as number[];
        expect(events(filtered), `seed ${seed}`).toEqual(matching.sort((a, b) => b - a));
      });
    }
  });

  test("a filter shows its last result until the next one is complete", () => {
    const rows = new KeyedRows(10_000);
    const keys = numbers(0, 5000).map(String);
    rows.push(
      new PublishedEvents(
        1,
        keys.map(() => "old"),
      ),
      keys,
      1,
    );
    const filtered = new KeyedFilter(rows, null, null, []);
    let nowMs = 0;
    const clock = (): number => nowMs++;
    while (!filtered.step(clock, 3));
    rows.push(
      new PublishedEvents(
        5001,
        keys.map(() => "new"),
      ),
      keys,
      1,
    );
    nowMs += 1e6;
    expect(filtered.step(clock, 3)).toBe(false);
    expect(filtered.at(0)?.event).toBe("old");
    // A change during a search is in the next result.
    rows.push(new PublishedEvents(10_001, [null, "newest"]), ["0", "1"], 1);
    expect(rows.length).toBe(4999);
    while (!filtered.step(clock, 3));
    expect([filtered.length, new Set(events(filtered))]).toEqual([5000, new Set(["new"])]);
    nowMs += 1e6;
    while (!filtered.step(clock, 3));
    expect([filtered.length, new Set(events(filtered))]).toEqual([4999, new Set(["newest", "new"])]);
  });

  test("a word may be in the key", () => {
    const test = filter("BUS", columnsOf({ speed: 1 }));
    expect([test?.({ speed: 1 }, "bus 7"), test?.({ speed: 1 }, "tram 2"), test?.({ speed: 1 })]).toEqual([
      true,
      false,
      false,
    ]);
  });
});
