/** The states of a topic's messages: delivered, held until patches can be applied, dropped. */

import { beforeEach, expect, it, vi } from "vitest";
import type { Receiver } from "../src/receive.js";
import type { SharedSubscription } from "../src/sharing.js";
import type { Message } from "../src/wire.js";

/** Bytes received and not yet processed. */
let waiting: number;
let ends: string[];
let versions: unknown[];

const owner: Receiver = {
  subscribe() {},
  unsubscribe() {},
  flow: { ack() {}, processed: (_, bytes) => void (waiting -= bytes) },
  ended(shared, { code }) {
    if (shared.state !== "closed") ends.push(code);
    shared.end(null, true);
  },
  route: { current: null },
  changed() {},
  takeWhole: () => null,
  refused() {},
};

const position = (offset: number): string => `9f3c21.${offset}`;

const whole: Message = { position: position(1), first: 1, previous: 0, events: [{ score: 0 }] };

const patch = (offset: number): Message => ({
  position: position(offset),
  first: offset,
  previous: offset - 1,
  patch: [{ op: "replace", path: "/score", value: offset }],
});

const end: Message = { position: position(3), end: { code: "deleted", reason: "somebody deleted it" } };

/** A topic whose first version has arrived, and whose second one, a patch, is held. */
async function begin(): Promise<{ shared: SharedSubscription; push(message: Message): void; close(): void }> {
  // A second instance of the modules: the module for patches is not loaded yet.
  vi.resetModules();
  const { receive } = await import("../src/receive.js");
  const { subscribe } = await import("../src/sharing.js");
  const topics = new Map<string, SharedSubscription>();
  const listener = ({ events }: { events: readonly unknown[] }): void => void versions.push(...events);
  const subscription = subscribe(topics, owner, "match", { onError() {} }, listener);
  const shared = topics.get("match") as SharedSubscription;
  const push = (message: Message): void => {
    // The end of a topic is no work for the page.
    if (!message.end) waiting += 10;
    receive(shared, message, 10, owner);
  };
  push(whole);
  push(patch(2));
  await Promise.resolve();
  expect([shared.state, waiting, versions]).toMatchObject([[[patch(2), 10]], 10, [{ score: 0 }]]);
  return { shared, push, close: () => subscription.close() };
}

const loaded = async (): Promise<void> => {
  await import("../src/deltas.js");
  for (let turn = 0; turn < 20; turn++) await Promise.resolve();
};

beforeEach(() => {
  waiting = 0;
  ends = [];
  versions = [];
});

it("delivers held messages in order, and later ones at once", async () => {
  const { shared, push } = await begin();
  push(patch(3));
  expect([waiting, versions.length]).toEqual([20, 1]);
  await loaded();
  expect(shared.state).toBe("open");
  push(patch(4));
  expect([waiting, versions]).toEqual([0, [0, 2, 3, 4].map((score) => ({ score }))]);
});

it("reports a held end after the versions before it", async () => {
  const { shared, push } = await begin();
  push(end);
  expect(ends).toEqual([]);
  await loaded();
  expect([shared.state, waiting, ends, versions]).toEqual(["closed", 0, ["deleted"], [{ score: 0 }, { score: 2 }]]);
});

it("drops held messages of a topic that the page has left, and counts each byte once", async () => {
  const { shared, push, close } = await begin();
  close();
  expect(shared.state).toBe("closed");
  push(patch(3));
  expect(waiting).toBe(10);
  push(end);
  await loaded();
  expect([shared.state, waiting, ends, versions]).toEqual(["closed", 0, [], [{ score: 0 }]]);
});

it("keeps nothing of a keyed topic after a missing message, until it begins again", async () => {
  const { receive } = await import("../src/receive.js");
  const { subscribeMap } = await import("../src/sharing.js");
  await import("../src/keyed.js");
  const topics = new Map<string, SharedSubscription>();
  const cars = subscribeMap<unknown>(topics, owner, "cars", { onError() {} }, () => {});
  const shared = topics.get("cars") as SharedSubscription;
  const push = (message: Message): void => {
    waiting += 10;
    receive(shared, message, 10, owner);
  };
  const event = (offset: number): Message => ({
    position: position(offset),
    first: offset,
    keys: [`${offset}`],
    events: [offset],
  });
  const confirmation: Message = { position: position(0), first: 1, keys: [], events: [] };
  push(confirmation);
  await new Promise((go) => setTimeout(go));
  push(event(1));
  expect(() => push(event(3))).toThrow("are missing");
  expect(shared.cursor).toBe("latest");
  // These were already on their way.
  push(event(4));
  push(event(5));
  expect([shared.cursor, shared.position, waiting, [...cars.map]]).toEqual(["latest", position(1), 0, [["1", 1]]]);
  push({ ...confirmation, until: 6 });
  push({ position: position(6), first: 6, after: 0, keys: ["6"], events: [6] });
  expect([shared.cursor, waiting, [...cars.map]]).toEqual([position(6), 0, [["6", 6]]]);
});
