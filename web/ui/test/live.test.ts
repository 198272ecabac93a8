/** The data of the live page. */

import type { Batch } from "thalweg";
import { describe, expect, test } from "vitest";
import { brief, bytes, duration, scale } from "../src/format.js";
import { read, write } from "../src/live/address.js";
import { Ages } from "../src/live/age.js";
import { Columns } from "../src/live/columns.js";
import { beginning, between } from "../src/live/connection.js";
import { coordinates, firstAggregate, firstSeries, firstView } from "../src/live/defaults.js";
import { PublishedEvents, type Received, received } from "../src/live/events.js";
import { Feed } from "../src/live/feed.js";
import { Meter } from "../src/live/meter.js";
import { Ring } from "../src/live/ring.js";
import { align, Series, SLICES } from "../src/live/series.js";
import { pause } from "../src/live/ticker.js";
import { ticks } from "../src/live/ticks.js";
import { opening } from "../src/live/topics.js";

const batch = (first: number, events: unknown[], more: Partial<Batch<unknown>> = {}): Received =>
  received({
    topic: "t",
    position: `a.${first + events.length - 1}`,
    first,
    events,
    gap: null,
    bytes: 100 * events.length,
    ...more,
  });
const at = (ms: number): string => new Date(1.7e12 + ms).toISOString();

describe("a series", () => {
  test("has the minimum, the maximum and the mean of each slice", () => {
    const series = new Series(SLICES * 10);
    for (const [ms, value] of [
      [5, 1],
      [6, 5],
      [9, 3],
      [25, 7],
    ] as const)
      series.add(ms, value);
    expect(align([series])).toEqual({ at: [0, 0.02], least: [[1, 7]], most: [[5, 7]], mean: [[3, 7]] });
  });

  test("has the maximum of each complete second", () => {
    const series = new Series(60_000, "max");
    for (const [ms, value] of [
      [10_000, 50],
      [10_999, 80],
      [11_000, 70],
      [12_500, 99],
    ] as const)
      series.add(ms, value);
    expect(align([series], true)).toMatchObject({ at: [10, 11], most: [[80, 70]] });
    series.add(70_500, 40);
    expect(align([series], true).at).toEqual([10, 11, 12]);
    series.add(72_500, 40);
    expect(align([series], true).at).toEqual([11, 12, 70]);
  });

  test("drops values older than its window, and ignores late ones", () => {
    const series = new Series(SLICES);
    series.add(0, 1);
    series.add(SLICES + 5, 2);
    series.add(1, 3);
    expect(align([series]).at).toEqual([(SLICES + 5) / 1000]);
  });

  test("restarts when a clock is set back", () => {
    const series = new Series(SLICES);
    series.add(1e12, 1);
    for (let count = 0; count < 1000; count++) series.add(5, 2);
    expect(align([series]).mean).toEqual([[2]]);
  });

  test("ignores values that are not numbers", () => {
    const series = new Series(SLICES);
    series.add(1, Number.NaN);
    series.add(Number.NaN, 1);
    expect(align([series]).at).toEqual([]);
  });

  test("is interrupted by a gap", () => {
    const series = new Series(SLICES);
    series.add(1, 1);
    series.cut();
    series.add(3, 3);
    expect(align([series])).toMatchObject({ at: [0.001, 0.0025, 0.003], mean: [[1, null, 3]] });
  });

  test("has no value where only another series has one", () => {
    const [one, other] = [new Series(SLICES), new Series(SLICES)];
    one.add(1, 1);
    other.add(2, 2);
    expect(align([one, other])).toMatchObject({
      at: [0.001, 0.002],
      mean: [
        [1, undefined],
        [undefined, 2],
      ],
    });
  });
});

test("a meter measures the rate of the last seconds, over a longer span at low rates", () => {
  const calm = new Meter();
  calm.rate(0);
  for (let now = 200; now <= 10_900; now += 200) {
    if (now % 1000 === 0) calm.add(1);
    calm.rate(now);
  }
  calm.add(1);
  expect(calm.rate(11_000)).toBeCloseTo(1);
  const meter = new Meter();
  for (let now = 0; now <= 10_000; now += 200) {
    meter.add(now < 5000 ? 100 : 10);
    meter.rate(now);
  }
  expect(meter.rate(10_000)).toBeCloseTo(50, 0);
});

test("an age uses the event's timestamp if its clock is this one", () => {
  const ages = new Ages();
  expect(ages.of(0)).toBeNull();
  ages.add(1000, Number.NaN);
  expect(ages.of(1500)).toEqual({ ms: 500, by: "its arrival" });
  ages.add(2000, 1900);
  expect(ages.of(2000)).toEqual({ ms: 100, by: "its own time" });
  const years = new Ages();
  years.add(1e12, 1e9);
  years.add(1e12 + 500, 1e9 + 400);
  expect(years.of(1e12 + 500)).toEqual({ ms: 100, by: "the fastest event" });
});

describe("a feed", () => {
  test("counts events, bytes and gaps", () => {
    const feed = new Feed();
    feed.stats(0);
    feed.take(batch(1, [1, 2]), 100);
    feed.take(batch(3, [0, 0]), 150, true);
    feed.take(batch(13, [3], { gap: { missed: 10, reason: "slow" } }), 200);
    expect(feed.stats(1000)).toMatchObject({
      eventsPerS: 3,
      bytesPerS: 300,
      gaps: 1,
      missed: 10,
      isMissedKnown: true,
    });
    feed.take(batch(1, [], { gap: { missed: null, reason: "epoch" } }), 300);
    expect(feed.stats(1000)).toMatchObject({ gaps: 2, missed: 10, isMissedKnown: false });
    expect(feed.gaps.map(({ gap }) => gap.reason)).toEqual(["slow", "epoch"]);
  });

  test("charts the rows held and new ones", () => {
    const feed = new Feed();
    feed.take(
      batch(1, [
        { time: at(0), v: 1 },
        { time: at(1000), v: 2 },
      ]),
      0,
    );
    const columns = feed.columns.all.filter(({ name }) => name === "v");
    const [series] = feed.chart(columns, 60_000);
    feed.take(batch(3, [{ time: at(2000), v: 3 }]), 0);
    expect(align([series!]).mean).toEqual([[1, 2, 3]]);
    expect(feed.chart(columns, 60_000)[0]).toBe(series);
    expect(feed.chart(columns, 10_000)[0]).not.toBe(series);
    const [highest] = feed.chart(columns, 60_000, "max");
    expect(align([highest!], true).most).toEqual([[1, 2]]);
  });

  test("a chart of the rows held is interrupted by gaps, and not by holes in offsets", () => {
    const feed = new Feed();
    const one = (seconds: number) => [{ time: at(seconds * 1000), v: seconds }];
    feed.take(batch(256, one(0)), 0);
    feed.take(batch(512, one(1)), 0);
    feed.take(batch(768, [], { gap: { missed: null, reason: "slow" } }), 0);
    feed.take(batch(1024, one(2)), 0);
    feed.take(batch(1280, [...one(3), ...one(4)], { offsets: [1280, 1536] }), 0);
    feed.take(batch(1792, one(5), { gap: { missed: null, reason: "unannounced" } }), 0);
    feed.take(batch(2048, [], { gap: { missed: null, reason: "slow" } }), 0);
    const [series] = feed.chart(
      feed.columns.all.filter(({ name }) => name === "v"),
      60_000,
    );
    feed.take(batch(2304, one(6)), 0);
    expect(align([series!]).mean).toEqual([[0, 1, null, 2, 3, 4, null, 5, null, 6]]);
    expect(feed.rows.at(4)?.offset).toBe(1536);
  });

  test("detects holes in offsets", () => {
    const isSparse = (...batches: Received[]) => {
      const feed = new Feed();
      for (const batch of batches) feed.take(batch, 0);
      return feed.isSparse;
    };
    const gap = { missed: 7, reason: "slow" };
    expect(isSparse(batch(5, [1]), batch(6, [2]))).toBe(false);
    expect(isSparse(batch(5, [1]), batch(13, [2], { gap }))).toBe(false);
    expect(isSparse(batch(5, [1]), batch(13, [], { gap }), batch(13, [2]))).toBe(false);
    expect(isSparse(batch(5, [{}], { previous: 0 }), batch(9, [{}], { previous: 5 }))).toBe(false);
    expect(isSparse(batch(5, [1]), batch(256, [2]))).toBe(true);
    expect(isSparse(batch(5, [1, 2], { offsets: [5, 256] }))).toBe(true);
  });

  test("of a keyed topic holds the newest event of each key, and none from before a gap", () => {
    const feed = new Feed();
    const shown = () => Array.from({ length: feed.rows.length }, (_, index) => feed.rows.at(index));
    feed.take(batch(1, [{ v: 1 }, { v: 2 }], { keys: ["a", "b"], offsets: [1, 5] }), 0);
    feed.take(batch(6, [{ v: 3 }, null, { v: 4 }], { keys: ["a", "b", "c"] }), 0);
    expect(shown().map((row) => [row?.key, row?.offset, row?.event])).toEqual([
      ["a", 6, { v: 3 }],
      ["c", 8, { v: 4 }],
    ]);
    expect(feed.columns.all.map(({ name }) => name)).toEqual(["v"]);
    expect([feed.isSparse, feed.rows.count]).toEqual([true, 5]);
    feed.take(batch(9, [{ v: 5 }], { keys: ["d"], gap: { missed: null, reason: "unannounced" } }), 0);
    expect(shown().map((row) => row?.key)).toEqual(["a", "c", "d"]);
    feed.take(batch(1, [], { gap: { missed: null, reason: "epoch" } }), 0);
    expect(shown()).toEqual([]);
    feed.take(batch(1, [{ v: 6 }], { keys: ["a"], gap: { missed: null, reason: "epoch" } }), 0);
    expect(shown().map((row) => row?.event)).toEqual([{ v: 6 }]);
  });

  test("finds a member that appears late", () => {
    const feed = new Feed();
    for (let first = 1; first < 3000; first += 500) feed.take(batch(first, new Array(500).fill({ a: 1 })), 0);
    feed.take(batch(3001, [{ a: 1, late: 2 }]), 0);
    expect(feed.columns.all.map(({ name }) => name)).toEqual(["a", "late"]);
  });
});

describe("by default", () => {
  const shown = (...events: unknown[]) => {
    const [rows, columns] = [new Ring(1000), new Columns()];
    rows.push(new PublishedEvents(1, events), 1);
    events.forEach((event) => columns.learn(event));
    return [rows, columns.all] as const;
  };

  test("figures over time are a chart, many of them a table", () => {
    const calm = shown(...[0, 1000, 2000].map((ms) => ({ time: at(ms), speed_kmh: 50 + Math.sin(ms) })));
    expect(firstView(...calm)).toBe("chart");
    const fast = shown(...[0, 10, 20].map((ms) => ({ time: at(ms), speed_kmh: 50 + Math.sin(ms) })));
    expect(firstView(...fast)).toBe("table");
    expect(firstView(...shown({ a: 1 }, { a: 2 }))).toBe("table");
  });

  test("a chart shows numbers that rise and fall, and no coordinates", () => {
    const some = shown(...[3, 1, 2].map((n) => ({ id: n * n, cars: 100, lon: n / 7, lat: n / 9, speed: n + 0.5 })));
    expect(firstSeries(...some)).toEqual(["id", "speed"]);
    const counted = shown(...[1, 2, 3].map((n) => ({ id: n, speed: n + 0.5 })));
    expect(firstSeries(...counted)).toEqual(["speed"]);
    expect(coordinates(...some)).toMatchObject({ x: { name: "lon" }, y: { name: "lat" } });
  });

  test("many things have one column", () => {
    const cars = shown(...[3, 1, 2].map((n) => ({ car: `c${n}`, speed: n + 0.5, fuel: n + 1.5 })));
    expect(firstSeries(...cars)).toEqual(["speed"]);
  });

  test("many things have their maximum, a single one its mean", () => {
    const [, cars] = shown({ car: "c1", speed: 1.5 }, { car: "c2", speed: 2.5 });
    expect(firstAggregate(cars)).toBe("max");
    const [, figures] = shown({ time: at(0), speed_kmh: 50 }, { time: at(1000), speed_kmh: 51 });
    expect(firstAggregate(figures)).toBe("mean");
  });

  test("columns without numbers have no series", () => {
    expect(firstSeries(...shown({ a: "x" }, { a: "y" }))).toEqual([]);
  });
});

test("a page starts with recent events", () => {
  const topic = { topic: "t", position: "ab.250000", events: 200_000, subscribers: 0 };
  expect(beginning(null)).toBe("earliest");
  expect(beginning({ ...topic, events: 100 })).toBe("earliest");
  expect(beginning(topic)).toBe("ab.230000");
  expect(beginning({ ...topic, events: 30_000 })).toBe("ab.235000");
});

test("a lag is known if positions determine it", () => {
  expect(between("a.5", "a.8", false)).toBe(3);
  expect(between("a.8", "a.5", false)).toBe(0);
  expect(between("a.5", "b.8", false)).toBeNull();
  expect(between("a.256", "a.512", true)).toBeNull();
  expect(between("a.512", "a.512", true)).toBe(0);
});

test("a page opens with the cars, otherwise with an active topic", () => {
  const topic = (topic: string, events: number) => ({ topic, events, subscribers: 0, position: "a.0" });
  expect(opening([topic("a", 0), topic("b", 1), topic("car_live_data", 1)])).toBe("car_live_data");
  expect(opening([topic("a", 0), topic("lab/rows/1", 1), topic("query/ab", 1), topic("z", 1)])).toBe("z");
  expect(opening([topic("a", 0)])).toBeNull();
});

test("an address stores the topic, the view and the query", () => {
  const all = { topic: "cars/max-speed", view: "chart", query: null } as const;
  expect(write(all)).toBe("?topic=cars/max-speed&view=chart");
  expect(read("?topic=cars/max-speed&view=chart")).toEqual(all);
  expect(read("?view=nonsense&query=")).toEqual({ topic: null, view: null, query: null });
  const query = "SELECT a + 1\nFROM \"x/y\" WHERE b = '&%'";
  expect(write({ topic: null, view: null, query })).toMatch(/^\?query=SELECT\+a\+%2B\+1%0AFROM/);
  expect(read(write({ topic: "cars", view: "table", query }))).toEqual({ topic: null, view: "table", query });
});

test("slow rendering happens less often", () => {
  expect(pause(200, 10)).toBe(190);
  expect(pause(200, 150)).toBe(300);
});

test("an axis has round numbers, and a limited number of them", () => {
  expect(ticks({ least: 54.119, most: 54.582 }, 5)).toEqual({
    at: [54.2, 54.3, 54.4, 54.5].map((at) => expect.closeTo(at)),
    step: 0.1,
  });
  expect(ticks({ least: -3, most: 3 }, 3).at).toEqual([-2, 0, 2]);
  for (const [least, most] of [
    [1e16, 1e16 + 2],
    [-1e308, 1.7e308],
    [0, 5e-324],
    [7, 7],
  ] as const) {
    expect(ticks({ least, most }, 5).at.length).toBeLessThanOrEqual(10);
  }
});

test("formats of numbers", () => {
  expect([0, 5, 0.5, 999, 1234, 12_345, 4_560_000].map(brief)).toEqual([
    "0",
    "5",
    "0.500",
    "999",
    "1,234",
    "12.3 k",
    "4.56 M",
  ]);
  expect([128, 128.5].map((value) => scale(value, 0.5))).toEqual(["128.0", "128.5"]);
  expect([scale(12_346, 1), scale(0.1, 0.1), scale(2e6, 1e6)]).toEqual(["12,346", "0.1", "2 M"]);
  expect([999_600, 999_700_000, 9.999e11, 1.7e15].map(brief)).toEqual(["1 M", "1 G", "1.00e+12", "1.70e+15"]);
  expect(brief(Number.NaN)).toBe("–");
  expect([1_500_000, 1_500_100].map((value) => scale(value, 100))).toEqual(["1.5000 M", "1.5001 M"]);
  expect([scale(0, 1e-150), scale(1e-149, 1e-150), scale(2e300, 1e300)]).toEqual([
    "0.000000000",
    "1.000e-149",
    "2.000e+300",
  ]);
  expect([12, 12_345].map(bytes)).toEqual(["12 B", "12.3 kB"]);
  expect([3, 1500, 120_000, 5_400_000, 8_640_000_000].map(duration)).toEqual([
    "3 ms",
    "1.50 s",
    "2 min",
    "1.50 h",
    "100 d",
  ]);
});
