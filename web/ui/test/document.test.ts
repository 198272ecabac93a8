/** Value topics on the live page: lines, differences, and savings. */

import type { Batch } from "thalweg";
import { describe, expect, test } from "vitest";
import { CHILDREN, differences, lines, type Opened, ROWS_MAX, version } from "../src/live/document.js";
import { type Received, received } from "../src/live/events.js";
import { Feed } from "../src/live/feed.js";
import { Savings } from "../src/live/savings.js";
import { briefs, clock, grade, isId, match, objects, score } from "../src/matches/match.js";

const CLOSED: Opened = { isOpen: new Map(), listed: new Map() };
const open = (...pointers: string[]): Opened => ({ ...CLOSED, isOpen: new Map(pointers.map((it) => [it, true])) });
const shown = (document: unknown, opened = CLOSED): string[] =>
  lines(version(1, document, undefined, null), opened).map(({ pointer, text }) => `${pointer} ${text}`);

describe("differences", () => {
  test("are found at any depth; identical objects are skipped", () => {
    const same = new Proxy({}, { ownKeys: () => expect.unreachable() as never });
    const before = { a: 1, b: { c: [1, 2], d: same }, "e/f": { "~": null }, g: 1 };
    const after = { a: 1, b: { c: [1, 3, 4], d: same }, "e/f": { "~": 0 }, h: [] };
    expect(differences(before, after).sort()).toEqual(["/b/c/1", "/b/c/2", "/e~1f/~0", "/g", "/h"]);
    expect(differences(before, before)).toEqual([]);
    expect(differences(before, 7)).toEqual([""]);
    expect(differences({ a: [] }, { a: {} })).toEqual(["/a"]);
  });

  test("are limited, also if everything differs", () => {
    const all = (value: number) => Array.from({ length: 10_000 }, () => value);
    expect(differences(all(1), all(2)).length).toBe(2000);
  });
});

describe("lines of a document", () => {
  test("are those of open containers", () => {
    const document = { id: "8", clock: { minute: 1 }, rows: [{ id: 1, list: [1] }], none: {}, empty: null };
    expect(shown(document)).toEqual([
      " 5 members",
      "/id 8",
      "/clock 1 member",
      "/clock/minute 1",
      "/rows 1 element",
      "/rows/0 2 members",
      "/none 0 members",
      "/empty null",
    ]);
    expect(shown(document, open("/rows/0"))).toContain("/rows/0/list 1 element");
    expect(shown(document, { ...CLOSED, isOpen: new Map([["", false]]) })).toEqual([" 5 members"]);
    expect(shown(7)).toEqual([" 7"]);
  });

  test("mark changes, and count changes in closed containers", () => {
    const first = version(1, { a: { b: 1, c: { d: 1, e: 1 } }, f: 1 }, undefined, null);
    expect(first.changed.size).toBe(0);
    const next = version(2, { a: { b: 2, c: { d: 2, e: 2 } }, f: 1 }, ["/a/b", "/a/c/d", "/a/c/e"], first);
    const marked = lines(next, CLOSED).filter(({ isMarked }) => isMarked);
    expect(marked.map(({ pointer, inside }) => [pointer, inside])).toEqual([
      ["/a/b", 0],
      ["/a/c", 2],
    ]);
    // The changes of a whole version are found by comparing.
    expect([...version(2, next.document, undefined, first).changed].sort()).toEqual(["/a/b", "/a/c/d", "/a/c/e"]);
  });

  test("are limited for large documents", () => {
    const wide = Array.from({ length: 100_000 }, (_, id) => ({ id }));
    expect(lines(version(1, wide, undefined, null), CLOSED).length).toBe(CHILDREN * 2 + 1);
    const many = { ...CLOSED, listed: new Map([["", 100_000]]) };
    expect(lines(version(1, wide, undefined, null), many).length).toBe(ROWS_MAX);
    let deep: unknown = 1;
    for (let level = 0; level < 200; level++) deep = { deep };
    expect(lines(version(1, deep, undefined, null), CLOSED).length).toBeLessThan(5);
  });
});

test("savings compare received bytes with whole documents", () => {
  const savings = new Savings();
  expect(savings.share).toBe(0);
  savings.add({ a: "x".repeat(92) }, 120);
  expect([savings.received, savings.whole, savings.share]).toEqual([120, 120, 0]);
  savings.add({ a: "x".repeat(92) }, 20);
  expect([savings.versions, savings.received, savings.whole]).toEqual([2, 140, 220]);
  expect(savings.share).toBeCloseTo(80 / 220);
});

test("a feed of a value topic has its newest version, and counts documents whole", () => {
  const feed = new Feed();
  const batch = (first: number, document: unknown, more: Partial<Batch<unknown>> = {}): Received =>
    received({
      topic: "t",
      position: `a.${first}`,
      first,
      events: [document],
      gap: null,
      bytes: 10,
      ...more,
    });
  feed.take(batch(1, { n: 1 }), 0);
  expect(feed.version).toBeNull();
  feed.take(batch(4, { n: 2, m: 1 }, { previous: 1 }), 0);
  feed.take(batch(9, { n: 3, m: 1 }, { previous: 4, changed: ["/n"] }), 0);
  expect(feed.version).toMatchObject({ number: 2, document: { n: 3, m: 1 } });
  expect([...(feed.version?.changed ?? [])]).toEqual(["/n"]);
  expect(feed.savings).toMatchObject({ versions: 2, received: 20 });
});

test("a value is unknown from a gap to the next version", () => {
  const feed = new Feed();
  const batch = (more: Partial<Batch<unknown>>): Received =>
    received({ topic: "t", position: "a.1", first: 1, events: [], gap: null, bytes: 10, ...more });
  const gap = { missed: null, reason: "unknown" };
  feed.take(batch({ gap }), 5);
  expect([feed.version, feed.unknownSinceMs]).toEqual([null, 5]);
  feed.take(batch({ events: [{ n: 1 }], previous: 0 }), 6);
  expect(feed.unknownSinceMs).toBeNull();
  feed.take(batch({ gap }), 7);
  feed.take(batch({ gap }), 8);
  expect(feed.unknownSinceMs).toBe(7);
  expect(feed.version?.document).toEqual({ n: 1 });
  // No version is missed.
  expect(feed.stats(9)).toMatchObject({ gaps: 3, missed: 0, isMissedKnown: true });
  feed.take(batch({ events: [{ n: 2 }], position: "b.1", previous: 0 }), 9);
  expect([feed.unknownSinceMs, feed.version?.document]).toEqual([null, { n: 2 }]);
});

describe("a match", () => {
  const team = (name: string, score?: number) => ({ name, ...(score !== undefined && { score }) });
  const game = { id: "8", home: team("Reds", 2), away: team("Blues"), status: "first_half" };

  test("is a match or `null`", () => {
    expect(match(game)).toBe(game);
    for (const wrong of [null, 1, "8", [], {}, { ...game, home: null }, { ...game, id: 8 }, { ...game, away: {} }]) {
      expect(match(wrong)).toBeNull();
    }
    expect(briefs({ matches: [game, null, 1, {}] })).toEqual([game]);
    expect(briefs({ matches: {} })).toBeNull();
    expect(briefs([])).toBeNull();
    expect(objects([game, null, 1, []] as never)).toEqual([game]);
    expect(objects("none" as never)).toEqual([]);
  });

  test("has a clock, or a word instead", () => {
    expect(clock({ ...game, clock: { minute: 7, second: 5 } })).toBe("07:05");
    expect(clock(game)).toBe("00:00");
    expect(clock({ ...game, status: "half_time" })).toBe("Half-time");
    expect(clock({ ...game, clock: { minute: "x" } as never })).toBe("00:00");
    expect(score(game)).toBe("Reds 2, Blues 0");
    expect([5, 6, 7].map(grade)).toEqual(["low", "middle", "high"]);
  });

  test("has an id that a topic name can contain", () => {
    for (const id of ["8", "a-b_c.~", "auth0|a@b:c+d=e"]) expect(isId(id), id).toBe(true);
    for (const id of ["", ".", "..", "a/b", "ä", "*", "x".repeat(65)]) expect(isId(id), id).toBe(false);
  });
});
