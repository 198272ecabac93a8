/** The states of a subscription: its batches, their processing, and its end. */

import { beforeEach, describe, expect, it } from "vitest";
import { ThalwegError } from "../src/errors.js";
import { type Batch, type Listener, type Shared, type SubscribeOptions, Subscription } from "../src/subscription.js";

/** Calls of the shared subscription, in order. */
let calls: string[];
let had: number[];
/** Settles the promise of the listener. */
let settle: () => void;

const shared: Shared = {
  topic: "cars",
  settle: () => void calls.push("processed"),
  ack: () => void calls.push("ack"),
  leave: () => void calls.push("leave"),
};

beforeEach(() => {
  calls = [];
  had = [];
});

const batch = (number: number): Batch<number> => ({
  topic: "cars",
  position: `e.${number}`,
  first: number,
  events: [number],
  gap: null,
  bytes: 1,
});

/** A subscription that begins at `e.0`. */
function begin(listener: Listener<number> | null, options: SubscribeOptions = { onError() {} }): Subscription<number> {
  const subscription = new Subscription(shared, options, listener, "e.0", []);
  subscription.next = 0;
  return subscription;
}

const listeners: Record<string, Listener<number>> = {
  sync: ({ first }) => void had.push(first),
  async({ first }) {
    had.push(first);
    return new Promise((go) => {
      settle = go;
    });
  },
};

const turn = async (): Promise<void> => {
  for (let count = 0; count < 10; count++) await Promise.resolve();
};

const error = new ThalwegError("deleted", "somebody deleted it");

describe("a listener", () => {
  it("has processed a batch when it returns", () => {
    const subscription = begin(listeners["sync"] as Listener<number>);
    subscription.take(batch(1));
    subscription.take(batch(2));
    expect([had, calls, subscription.position]).toEqual([[1, 2], ["processed", "processed"], "e.2"]);
  });

  it("that returns a promise gets the next batch when it is settled, and not before", async () => {
    const subscription = begin(listeners["async"] as Listener<number>);
    subscription.take(batch(1));
    subscription.take(batch(2));
    await turn();
    expect([had, calls, subscription.position]).toEqual([[1], [], "e.0"]);
    settle();
    await turn();
    expect([had, calls, subscription.position]).toEqual([[1, 2], ["processed"], "e.1"]);
  });

  it("gets no second batch while it works on one that is acked", async () => {
    const subscription = begin(listeners["async"] as Listener<number>);
    subscription.take(batch(1));
    subscription.ack();
    subscription.take(batch(2));
    await turn();
    expect([had, calls, subscription.position]).toEqual([[1], ["processed", "ack"], "e.1"]);
    settle();
    await turn();
    expect([had, calls]).toEqual([
      [1, 2],
      ["processed", "ack"],
    ]);
  });

  it("that acks its batch before it returns has processed it once", () => {
    const subscription = begin(({ first }) => {
      had.push(first);
      subscription.ack();
    });
    subscription.take(batch(1));
    subscription.take(batch(2));
    expect([had, calls]).toEqual([
      [1, 2],
      ["processed", "ack", "processed", "ack"],
    ]);
  });

  it("gets nothing after it has closed the subscription, and what it had is not processed", async () => {
    const subscription = begin(listeners["async"] as Listener<number>);
    subscription.take(batch(1));
    subscription.take(batch(2));
    subscription.close();
    subscription.take(batch(3));
    settle();
    await turn();
    expect([had, calls, subscription.position]).toEqual([[1], ["leave"], "e.0"]);
  });

  it("gets the batches that came before an error, and none after it", async () => {
    const errors: unknown[] = [];
    const onError = (error: unknown): void => void errors.push(error);
    const subscription = begin(listeners["async"] as Listener<number>, { onError });
    subscription.take(batch(1));
    subscription.take(batch(2));
    subscription.fail(error, true);
    subscription.take(batch(3));
    for (let count = 0; count < 3; count++) {
      settle();
      await turn();
    }
    expect([had, calls, errors]).toEqual([[1, 2], ["processed", "processed"], [error]]);
  });
});

describe("a loop", () => {
  it("has processed a batch when it asks for the next", async () => {
    const subscription = begin(null);
    const loop = subscription[Symbol.asyncIterator]();
    subscription.take(batch(1));
    expect((await loop.next()).value).toMatchObject({ first: 1 });
    expect(calls).toEqual([]);
    const next = loop.next();
    await turn();
    expect([calls, subscription.position]).toEqual([["processed"], "e.1"]);
    subscription.take(batch(2));
    expect((await next).value).toMatchObject({ first: 2 });
  });

  it("goes on from a batch that is acked, which is processed once", async () => {
    const subscription = begin(null);
    const loop = subscription[Symbol.asyncIterator]();
    subscription.take(batch(1));
    await loop.next();
    subscription.ack();
    subscription.take(batch(2));
    expect((await loop.next()).value).toMatchObject({ first: 2 });
    expect(calls).toEqual(["processed", "ack"]);
  });

  it("ends when the subscription is closed, and throws an error that came before that", async () => {
    const closed = begin(null);
    const failed = begin(null);
    const loops = [closed, failed].map((subscription) => subscription[Symbol.asyncIterator]());
    const ends = Promise.allSettled(loops.map((loop) => loop.next()));
    await turn();
    failed.take(batch(1));
    failed.fail(error, true);
    for (const subscription of [closed, failed]) subscription.close();
    expect(await ends).toMatchObject([
      { status: "fulfilled", value: { done: true } },
      { status: "rejected", reason: error },
    ]);
  });

  it("has all batches that came before an error", async () => {
    const subscription = begin(null);
    const loop = subscription[Symbol.asyncIterator]();
    for (const number of [1, 2]) subscription.take(batch(number));
    subscription.fail(error, true);
    subscription.take(batch(3));
    expect((await loop.next()).value).toMatchObject({ first: 1 });
    expect((await loop.next()).value).toMatchObject({ first: 2 });
    await expect(loop.next()).rejects.toBe(error);
  });
});

describe("a confirmed position", () => {
  it("is the subscription's, unless a batch before it is not processed", async () => {
    const subscription = begin(listeners["async"] as Listener<number>);
    subscription.confirm("e.1");
    expect(subscription.position).toBe("e.1");
    subscription.take(batch(2));
    subscription.confirm("e.3");
    expect(subscription.position).toBe("e.1");
    settle();
    await turn();
    subscription.confirm("e.4");
    expect(subscription.position).toBe("e.4");
    subscription.take(batch(5));
    subscription.ack();
    subscription.confirm("e.6");
    expect(subscription.position).toBe("e.6");
  });
});
