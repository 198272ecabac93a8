/** New and missed events of an envelope, by its offsets. */

import { describe, expect, it } from "vitest";
import { type Batch, connect } from "../dist/thalweg.js";
import { mockFetch } from "./platform-mocks.js";

/** Each event is its own offset. */
interface Envelope {
  first?: number;
  after?: number;
  offsets?: number[];
  previous?: number;
  epoch?: string;
}

/** An envelope with consecutive offsets. */
const upTo = (first: number, last: number): number[] =>
  Array.from({ length: last - first + 1 }, (_, index) => first + index);

/** Delivers envelopes, each with its last offset, to a subscription that has everything up to `e.10`. */
async function heard(...envelopes: [last: number, envelope: Envelope][]): Promise<unknown[]> {
  const lines = envelopes.map(([last, { epoch = "e", ...members }]) => {
    const first = members.first ?? members.offsets?.[0] ?? last;
    const events = members.offsets ?? upTo(first, last);
    return `${JSON.stringify({ topic: "cars", position: `${epoch}.${last}`, first, ...members, events })}\n`;
  });
  const session = connect("http://server/", {
    transports: ["http-streaming"],
    fetch: mockFetch(Buffer.from(lines.join("")), 1 << 20),
  });
  const batches: Batch<number>[] = [];
  session.subscribe<number>("cars", { from: "e.10" }, (batch) => void batches.push(batch));
  for (let turn = 0; turn < 20; turn++) await new Promise((go) => setImmediate(go));
  session.close();
  return batches.flatMap(({ first, events, offsets, gap }): unknown[] => {
    expect(offsets ?? events.map((_, index) => first + index)).toEqual(events);
    if (events.length) expect(first).toBe(events[0]);
    return [gap ?? [], events].flat();
  });
}

const unannounced = (missed: number | null) => ({ missed, reason: "unannounced" });

describe("gaps", () => {
  it.each<[string, [number, Envelope][], unknown[]]>([
    ["nothing, by the next offset", [[12, { first: 11 }]], [11, 12]],
    ["so many, by another", [[13, {}]], [unannounced(2), 13]],
    ["nothing, however far it jumps", [[768, { after: 10 }]], [768]],
    ["nothing before what is had", [[768, { after: 9 }]], [768]],
    ["some, if what is before it has not come", [[768, { after: 11 }]], [unannounced(null), 768]],
    ["so many before several that jump", [[20, { offsets: [14, 20] }]], [unannounced(3), 14, 20]],
    ["some before several that jump", [[20, { after: 12, offsets: [14, 20] }]], [unannounced(null), 14, 20]],
    ["nothing between several that jump", [[20, { offsets: [11, 20] }]], [11, 20]],
    [
      "so many, also where others have jumped",
      [
        [20, { offsets: [11, 20] }],
        [22, {}],
      ],
      [11, 20, unannounced(1), 22],
    ],
    [
      "some, also where others have jumped",
      [
        [20, { after: 10 }],
        [30, { after: 21 }],
      ],
      [20, unannounced(null), 30],
    ],
    ["so many, by a confirmation", [[12, { first: 13 }]], [unannounced(2)]],
    ["all of another epoch", [[768, { epoch: "f", after: 257 }]], [{ missed: null, reason: "epoch" }, 768]],
    [
      "no versions that others replaced",
      [
        [20, { previous: 10 }],
        [30, { previous: 20 }],
      ],
      [20, 30],
    ],
  ])("%s", async (_, envelopes, expected) => {
    expect(await heard(...envelopes)).toEqual(expected);
  });
});

describe("repeats are removed", () => {
  it.each<[string, [number, Envelope][], unknown[]]>([
    [
      "all",
      [
        [10, { first: 9 }],
        [10, { offsets: [4, 10] }],
      ],
      [],
    ],
    ["up to the middle", [[12, { first: 8 }]], [11, 12]],
    ["up to the middle, after a jump", [[12, { first: 9, after: 4 }]], [11, 12]],
    ["up to a jump", [[768, { after: 4, offsets: [9, 10, 768] }]], [768]],
    [
      "all that came after a jump",
      [
        [769, { offsets: [9, 768, 769] }],
        [769, { first: 768, after: 9 }],
      ],
      [768, 769],
    ],
  ])("%s", async (_, envelopes, expected) => {
    expect(await heard(...envelopes)).toEqual(expected);
  });
});
