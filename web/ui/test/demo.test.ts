import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { ConnectPlan, Link, Transport, TransportHandlers } from "thalweg";
import { expect, test, vi } from "vitest";
import { between } from "../src/demo/cars-map.js";
import { numbers } from "../src/demo/code/numbers.js";
import { cuttable } from "../src/demo/cut.js";

const CODE = join(import.meta.dirname, "../src/demo/code");

test.each(readdirSync(CODE))("%s has at most ten lines, which fit into a panel", (name) => {
  const lines = readFileSync(join(CODE, name), "utf8").trimEnd().split("\n");
  expect(lines.length).toBeLessThanOrEqual(10);
  expect(lines.filter((line) => line.length > 76)).toEqual([]);
});

test("a car moves from one position to the next, and no further", () => {
  const [before, now] = [
    { x: 0, y: 10, kmh: 40 },
    { x: 4, y: 8, kmh: 80 },
  ];
  expect(between(before, now, 0.25)).toEqual({ x: 1, y: 9.5, kmh: 50 });
  expect(between(before, now, -1)).toEqual(before);
  expect(between(before, now, 9)).toEqual(now);
});

type Batch = { events: { seq: number }[]; gap?: { missed: number | null } };

/** Returns the figures after these batches. */
function counted(...batches: (number[] | Batch)[]) {
  const seen = { last: 0, received: 0, lost: 0, repeated: 0 };
  const subscribe = (_topic: string, _options: object, listener: (batch: Batch) => void): void => {
    for (const batch of batches) listener(Array.isArray(batch) ? { events: batch.map((seq) => ({ seq })) } : batch);
  };
  numbers({ subscribe }, seen);
  return seen;
}

test("the counter trusts the numbers, and not the session", () => {
  expect(counted([7, 8], [9])).toEqual({ last: 9, received: 3, lost: 0, repeated: 0 });
  expect(counted([7, 10])).toMatchObject({ lost: 2, repeated: 0 });
  expect(counted([7, 8], [8, 9])).toMatchObject({ lost: 0, repeated: 1 });
  // The session's own figure does not count a second time.
  expect(counted([7], { events: [], gap: { missed: 2 } }, [10])).toMatchObject({ lost: 2 });
  // The server keeps its topics, and its source begins again.
  expect(counted([7, 8], [1, 2])).toMatchObject({ received: 4, lost: 0, repeated: 0 });
  // The server lost its history.
  expect(counted([7], { events: [], gap: { missed: null } }, [3])).toMatchObject({ lost: Number.NaN, repeated: 0 });
});

test("a cut closes the connection, and to the session it is broken", () => {
  const close = vi.fn();
  let inner: TransportHandlers | undefined;
  const one: Transport = {
    name: "sse",
    isTwoWay: false,
    hasHeaders: false,
    hasBackpressure: false,
    isSupported: () => true,
    open(_plan, handlers): Link {
      inner = handlers;
      return { close };
    },
  };
  const { transports, received, cut } = cuttable([one]);
  const handlers = { opened: vi.fn(), text: vi.fn(), ended: vi.fn(), drained: vi.fn() };
  const link = transports[0]?.open({} as ConnectPlan, handlers);
  inner?.text("12345");
  expect(handlers.text).toHaveBeenCalledWith("12345");
  expect(received()).toBe(5);
  cut();
  expect(close).toHaveBeenCalledOnce();
  expect(handlers.ended).toHaveBeenCalledWith({});
  link?.close();
  cut();
  expect(handlers.ended).toHaveBeenCalledOnce();
});
